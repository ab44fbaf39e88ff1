"""`quorum.embedding`, with the real parts on loopback sockets and in folders."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from quorum.core.limits import Timeouts
from quorum.core.vocabulary import ReplicaId
from quorum.embedding import (
    NotLeader,
    OutcomeUnknown,
    Replica,
    TransferRefused,
    VotersRefused,
    open_replica,
)
from quorum.log.errors import StorageError
from quorum.persistent_state import QuorumConfig
from quorum.transport.address import Address
from tests.support.bell import PATIENCE_SECONDS
from tests.support.ports import free_ports

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
HOST: Final = "127.0.0.1"
TIMEOUTS: Final = Timeouts(
    # Longer than an answer takes on a busy machine: who leads shall lead on while a test asks it.
    election_timeout_ms=600,
    election_backoff_ms_max=600,
    fetch_timeout_ms=1_500,
    request_timeout_ms=1_500,
    retry_backoff_ms=5,
    retry_backoff_ms_max=50,
    fetch_wait_ms=100,
)


@dataclass
class Words:
    """A state machine: the words so far. It refuses to live with "no"."""

    said: list[str] = field(default_factory=list)

    def apply(self, record: bytes) -> int:
        if record == b"no":
            raise ArithmeticError("this word cannot be applied")
        self.said.append(record.decode())
        return len(self.said)

    def snapshot(self) -> Iterator[Sequence[bytes]]:
        yield [each.encode() for each in self.said]

    def load_snapshot(self, records: Iterable[bytes]) -> None:
        self.said = [each.decode() for each in records]


def config(folder: Path, me: int, ports: Mapping[int, int]) -> QuorumConfig:
    return QuorumConfig(
        node_id=ReplicaId(me),
        cluster_id=CLUSTER_ID,
        folder=folder / str(me),
        voters={ReplicaId(id): Address(HOST, port) for id, port in ports.items()},
        timeouts=TIMEOUTS,
    )


async def until_leader(replicas: Sequence[Replica]) -> Replica:
    """The one that leads, once one does."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for replica in replicas:
                if replica.is_leader:
                    return replica
            await replicas[0].leader_changed(within_seconds=0.02)


async def test_the_result_of_apply_reaches_the_proposer_and_the_log_outlives_the_process(
    tmp_path: Path,
) -> None:
    alone = config(tmp_path, 1, free_ports(tmp_path, 1))
    words = Words()
    async with open_replica(alone, words) as replica:
        await until_leader([replica])
        assert await asyncio.gather(*map(replica.propose, (b"a", b"b", b"c"))) == [1, 2, 3]
        assert replica.leader is not None
        assert (replica.leader.id, replica.leader.address) == (1, alone.voters[ReplicaId(1)])
        applied = replica.applied
        assert await replica.read_barrier() == applied
    again = Words()
    async with open_replica(alone, again) as replica:
        await until_leader([replica])
        assert again.said == ["a", "b", "c"]
        assert replica.applied > applied


async def test_a_replica_that_has_ended_takes_no_record(tmp_path: Path) -> None:
    async with open_replica(config(tmp_path, 1, free_ports(tmp_path, 1)), Words()) as replica:
        await until_leader([replica])
    with pytest.raises(NotLeader):
        await replica.propose(b"late")
    with pytest.raises(NotLeader):
        await replica.read_barrier()


async def test_a_follower_says_who_leads_and_applies_what_the_leader_commits(
    tmp_path: Path,
) -> None:
    ports = free_ports(tmp_path, 3)
    machines = {me: Words() for me in ports}
    async with AsyncExitStack() as stack:
        replicas = {
            me: await stack.enter_async_context(open_replica(config(tmp_path, me, ports), machine))
            for me, machine in machines.items()
        }
        leader = await until_leader(list(replicas.values()))
        assert leader.leader is not None
        (me,) = [me for me, replica in replicas.items() if replica is leader]
        assert leader.leader.id == me
        assert await leader.propose(b"word") == 1
        async with asyncio.timeout(PATIENCE_SECONDS):
            for other, replica in replicas.items():
                while machines[other].said != ["word"]:
                    await replica.leader_changed(within_seconds=0.02)
                if replica is not leader:
                    with pytest.raises(NotLeader, match=f"replica {me} leads"):
                        await replica.propose(b"here")


async def test_without_a_majority_the_outcome_of_a_record_is_unknown(tmp_path: Path) -> None:
    ports = free_ports(tmp_path, 3)
    async with AsyncExitStack() as rest, AsyncExitStack() as first:
        stacks = {1: first, 2: rest}
        replicas = {
            me: await stack.enter_async_context(open_replica(config(tmp_path, me, ports), Words()))
            for me, stack in stacks.items()
        }
        leader = await until_leader(list(replicas.values()))
        assert await leader.propose(b"together") == 1
        (follower,) = [me for me, replica in replicas.items() if replica is not leader]
        await stacks[follower].aclose()
        with pytest.raises(OutcomeUnknown) as raised:
            await leader.propose(b"alone")
        assert raised.value.may_be_done
        with pytest.raises(NotLeader):
            await leader.read_barrier()
        with pytest.raises(NotLeader) as refused:
            await leader.propose(b"again")
        assert not refused.value.may_be_done


async def stop_by(folder: Path, record: bytes) -> None:
    """Run a replica alone until applying this record ends it."""
    async with open_replica(config(folder, 1, free_ports(folder, 1)), Words()) as replica:
        await until_leader([replica])
        await replica.propose(record)


async def test_the_voters_are_changed_one_at_a_time_to_those_that_are_wanted(
    tmp_path: Path,
) -> None:
    ports = free_ports(tmp_path, 4)
    fourth = ports.pop(4)
    founding = {me: config(tmp_path, me, ports) for me in ports}
    joining = replace(
        config(tmp_path, 4, ports), advertised=Address(HOST, fourth), folder=tmp_path / "4"
    )
    async with AsyncExitStack() as stack:
        replicas = {
            me: await stack.enter_async_context(open_replica(each, Words()))
            for me, each in {**founding, 4: joining}.items()
        }
        leader = await until_leader(list(replicas.values()))
        assert leader.leader is not None
        target = {leader.leader.id, ReplicaId(4)}
        with pytest.raises(VotersRefused, match="no voter is named"):
            await leader.change_voters([])
        await leader.change_voters(target)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while set(leader.voters) != target or set(replicas[4].voters) != target:
                await leader.leader_changed(within_seconds=0.02)
        assert await leader.propose(b"by the new voters") == 1


async def test_a_leader_hands_its_lead_to_whom_is_named_or_says_why_not(tmp_path: Path) -> None:
    ports = free_ports(tmp_path, 3)
    async with AsyncExitStack() as stack:
        replicas = {
            me: await stack.enter_async_context(open_replica(config(tmp_path, me, ports), Words()))
            for me in ports
        }
        leader = await until_leader(list(replicas.values()))
        assert await leader.propose(b"before") == 1
        (me, *others) = sorted(replicas, key=lambda each: replicas[each] is not leader)
        with pytest.raises(TransferRefused, match="9 is no voter; voters are 1, 2, 3"):
            await leader.transfer_leadership(ReplicaId(9))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while replicas[others[0]].leader is None:
                await leader.leader_changed(within_seconds=0.02)
        with pytest.raises(NotLeader, match=f"replica {me} leads"):
            await replicas[others[0]].transfer_leadership()
        await leader.transfer_leadership()
        assert not leader.is_leader
        successor = await until_leader([replicas[each] for each in others])
        assert await successor.propose(b"after") == 2


async def test_an_exception_of_apply_ends_the_replica_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ArithmeticError, match="cannot be applied"):
        await stop_by(tmp_path, b"no")


async def test_an_exception_of_the_block_is_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_replica(config(tmp_path, 1, free_ports(tmp_path, 1)), Words()):
            raise KeyError("mine")


async def test_a_record_that_is_too_large_and_a_folder_of_another_are_refused(
    tmp_path: Path,
) -> None:
    ports = free_ports(tmp_path, 2)
    async with open_replica(config(tmp_path, 1, {1: ports[1]}), Words()) as replica:
        with pytest.raises(ValueError, match="a record of 4194305 bytes"):
            await replica.propose(bytes(4_194_305))
    foreign = config(tmp_path, 2, {2: ports[2]})
    with pytest.raises(StorageError, match="this folder belongs to node 1"):
        async with open_replica(
            QuorumConfig(
                node_id=ReplicaId(2),
                cluster_id=CLUSTER_ID,
                folder=tmp_path / "1",
                voters=foreign.voters,
            ),
            Words(),
        ):
            raise AssertionError("it must not open")


async def test_one_who_does_not_vote_must_say_where_it_listens(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="replica 9 is not among the voters"):
        async with open_replica(config(tmp_path, 9, {1: 1}), Words()):
            raise AssertionError("it must not open")
