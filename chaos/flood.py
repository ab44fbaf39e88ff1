"""Far more than fits: clients and replicas that nobody knows ask one leader, all at once.

None of them is a fault of the leader's: it keeps as many as it may, tells the others so, and leads
on. What it may keep is the same in the whole cluster, and little (`Profile.bounds`).
"""

from functools import partial
from typing import Final
from uuid import UUID

from chaos import clients
from chaos.network import Packet
from chaos.process import Process
from quorum.core.messages import AddVoterRequest, FetchRequest, FetchSnapshotRequest, Request
from quorum.core.vocabulary import Epoch, LogEnd, Offset, ReplicaId, ReplicaKey
from quorum.core.voters import Endpoint, Voter
from quorum.opening import LISTENER_NAME

STRANGERS: Final = range(500, 540)
"""Replicas that ask for records, and are nowhere."""
UNKNOWN: Final = ReplicaId(700)
"""Whom somebody wants as a voter; it never comes."""
TIMES: Final = 3
"""How many times as much as fits."""
FETCH_WAIT_MS: Final = 100
LOOKS_MS: Final = (5, 20, 100)
VALUE: Final = b"7 flood"


def flood(process: Process) -> bool:
    """Ask this process, which leads, for all of it; whether it has lived to hear all of it."""
    bounds = process.world.profile.bounds
    for _ in range(TIMES * bounds.reads):
        clients.read(process)
    for number in range(TIMES * bounds.voter_requests):
        key = ReplicaKey(UNKNOWN, UUID(int=number + 1))
        voter = Voter(key, (Endpoint(LISTENER_NAME, "nowhere", 1),))
        timeout_ms = process.world.profile.timeouts.request_timeout_ms
        clients.want_voters(process, AddVoterRequest(voter=voter, timeout_ms=timeout_ms))
    # Every other time they are so large that fewer fit than are counted.
    value = VALUE.ljust(2 * bounds.uncommitted_bytes // bounds.uncommitted_records, b".")
    for _ in range(TIMES * bounds.uncommitted_records):
        clients.propose(process, [VALUE if process.world.profile.seed % 2 else value])
    for number in STRANGERS:
        for request in _of_stranger(process, ReplicaKey(ReplicaId(number))):
            process.world.network.post(Packet(ReplicaId(number), process.id, 0, 0, request))
    for _ in range(TIMES * bounds.transfer_askers):
        clients.want_leader(process, None)
    for after_ms in LOOKS_MS:
        process.later(after_ms, partial(_look, process))
    return not process.is_dead


def _look(process: Process) -> None:
    """What it tells of the replicas that fetch from it, as to an administrator who asks."""
    told = process.replica.node.replicas()
    process.queues.remembers(sum(not (each.is_voter or each.is_leader) for each in told))


def _of_stranger(process: Process, me: ReplicaKey) -> tuple[Request, ...]:
    """It has all that is committed, asks for what follows, twice, and for a snapshot."""
    history, epoch = process.world.judge.history, Epoch(process.machine.truth.ballot.epoch)
    end = LogEnd(Epoch(history.epoch_before(history.end)), Offset(history.end))
    fetch = FetchRequest(
        replica=me, epoch=epoch, log_end=end, max_wait_ms=FETCH_WAIT_MS, max_bytes=1
    )
    part = FetchSnapshotRequest(replica=me, epoch=epoch, snapshot=end, position=0, max_bytes=1)
    return fetch, part, fetch
