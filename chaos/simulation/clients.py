"""Client requests to one process, through its replica."""

from collections.abc import Callable, Sequence
from functools import partial

from chaos.invariants.queue_bounds import Waiting
from chaos.simulation.process import Process
from quorum.core.effects import ReadRefusal
from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    ChangeResponse,
    RemoveVoterRequest,
    TransferRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from quorum.core.vocabulary import Offset, ReplicaId, ReplicaKey


def propose(process: Process, values: Sequence[bytes]) -> bool:
    """Propose these records if the process accepts them; return True if it did."""
    if not process.serves or not process.replica.accepts(len(values)):
        return False

    def happen() -> None:
        process.replica.propose(values)
        process.proposed_end = process.replica.next_offset
        committed = process.world.invariants.high_watermark(process.incarnation)
        size_bytes = sum(map(len, values))
        durable = process.machine.durable.end
        process.queues.appended(process.proposed_end, committed, durable, size_bytes)

    process.enter(happen)
    return True


def want_voters(process: Process, request: VoterRequest) -> bool:
    """Request other voters; return True if this process leads."""
    if not process.serves:
        return False

    answered = _waits(process, Waiting.VOTERS)

    def done(response: ChangeResponse) -> None:
        process.wishes.remove(request)
        if response.error:
            process.world.voter_changes.refused(process.boot, request)
        answered(response)

    def happen() -> None:
        process.world.voter_changes.wanted(process.boot, request)
        process.replica.change(request, done)

    process.wishes.append(request)
    process.enter(happen)
    return True


def may_vote_soon(process: Process) -> set[ReplicaId]:
    """The replicas that this process may make voters, by requests it has not answered yet."""
    named: set[ReplicaId] = set()
    for request in process.wishes:
        match request:
            case AddVoterRequest(voter=voter):
                named.add(voter.id)
            case AlterQuorumRequest(target=target):
                named |= {key.id for key in target or ()}
            case RemoveVoterRequest() | UpdateVoterRequest():
                pass
    return named


def may_go_soon(process: Process) -> set[ReplicaKey]:
    """The voters that this process may remove, by requests it has not answered yet."""
    return {each.voter for each in process.wishes if isinstance(each, RemoveVoterRequest)}


def want_leader(process: Process, to: ReplicaId | None) -> bool:
    """Request a transfer of leadership; return True if this process leads."""
    if not process.serves:
        return False
    to = None if to == process.id else to
    done = _waits(process, Waiting.TRANSFER)
    process.enter(partial(process.replica.change, TransferRequest(to), done))
    return True


def read(process: Process) -> None:
    """Read what is committed, and nothing older."""
    process.enter(partial(_read, process))


def _waits(process: Process, what: Waiting) -> Callable[[ChangeResponse], None]:
    process.queues.comes(what)

    def done(response: ChangeResponse) -> None:
        process.queues.goes(what)
        _told(process, response)

    return done


def _told(process: Process, response: ChangeResponse) -> None:
    process.world.tell(process.id, response)
    if response.successor is not None:
        process.world.note("a lead is handed over")
        process.world.invariants.hands_over(process.incarnation, process.proposed_end)


def _read(process: Process) -> None:
    judge, counts = process.world.invariants, process.world.trace.counts
    floor = judge.read_floor

    def done(outcome: Offset | ReadRefusal) -> None:
        process.queues.goes(Waiting.READ)
        if outcome is ReadRefusal.TOO_MANY:
            process.world.note("too much is asked")
        if isinstance(outcome, ReadRefusal):
            counts["a read is refused"] += 1
            return
        counts["a read is answered"] += 1
        judge.reads(process.incarnation, floor, outcome)

    process.queues.comes(Waiting.READ)
    process.replica.read_index(done)
    process.queues.check_reads()
