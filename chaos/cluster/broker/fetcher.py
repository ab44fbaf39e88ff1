"""`broker.replication.replica_fetcher` in virtual time.

`broker.replication.follower_fetch` decides what to request and what an answer means; fetches go
over the simulated network, and what they bring to the virtual disk.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from broker.limits import REPLICA_FETCH_TIMEOUT_MS
from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition
from broker.replication.follower_fetch import FetchedPartition, FetchPosition, LeaderFetchState
from chaos.cluster.broker.fetch_handler import fetch
from chaos.cluster.broker.node import BrokerNode
from chaos.cluster.broker.replica_manager import ReplicaManager
from quorum.core.vocabulary import ReplicaId


class Fetcher:
    """Assigns each partition to its leader, and fetches from the leaders."""

    def __init__(self, process: BrokerNode, replicas: ReplicaManager) -> None:
        self._process = process
        self._replicas = replicas
        self._copying: dict[int, LeaderFetchState] = {}
        self._under_way: dict[int, int] = {}
        self._rounds: dict[int, int] = {}
        self._leader_of: dict[Partition, int] = {}

    def on_role_change(self, partition: Partition) -> None:
        """Fetch the partition from its current leader."""
        before = self._leader_of.pop(partition, None)
        if before is not None:
            self._copying[before].remove(partition)
        following = partition.following
        if following is None or following.leader < 0 or not partition.is_open:
            return
        if self._replicas.partitions.get(partition.key) is not partition:
            return  # It is being opened, and will be announced when it is.
        leader = following.leader
        self._leader_of[partition] = leader
        if leader not in self._copying:
            replicas = self._replicas
            self._copying[leader] = LeaderFetchState(
                leader, self._process, replicas.throttles.follower, replicas.copies
            )
            self._under_way[leader] = self._rounds[leader] = 0
        self._copying[leader].add(partition)
        self._stir(leader)

    def _stir(self, leader: int, wait_ms: int = 0) -> None:
        """Schedule the next fetch from a leader, and cancel any earlier schedule."""
        self._rounds[leader] += 1
        self._process.later(wait_ms, partial(self._go_on, leader, self._rounds[leader]))

    def _go_on(self, leader: int, round_: int) -> None:
        if self._rounds[leader] != round_:
            return
        copying = self._copying[leader]
        due = copying.plan(self._under_way[leader])
        if due.positions:
            self._ask(copying, due.positions)
        if due.wait_ms is not None:
            self._stir(leader, max(1, due.wait_ms))

    def _ask(self, copying: LeaderFetchState, positions: dict[Partition, FetchPosition]) -> None:
        process, leader = self._process, copying.leader
        asked = {partition.key: position for partition, position in positions.items()}
        epoch = process.broker_epoch
        assert epoch is not None, "nobody copies before it is registered"
        self._under_way[leader] += 1
        process.world.rpc.ask(
            process,
            ReplicaId(leader),
            fetch(process.broker_id, epoch, asked),
            partial(self._answered, copying, positions),
            timeout_ms=REPLICA_FETCH_TIMEOUT_MS,
        )
        copying.on_sent(positions)

    def _answered(
        self, copying: LeaderFetchState, positions: dict[Partition, FetchPosition], answer: Any
    ) -> None:
        self._under_way[copying.leader] -= 1
        if answer is None:
            copying.on_failure(positions, "no answer")
        else:
            copying.on_response()
            self._take(copying, positions, answer)
        # Behind what is to be cut and written by then.
        self._replicas.disk.call(_nothing, lambda _: self._stir(copying.leader))

    def _take(
        self,
        copying: LeaderFetchState,
        positions: dict[Partition, FetchPosition],
        answer: Mapping[PartitionKey, FetchedPartition],
    ) -> None:
        process = self._process
        for key, given in answer.items():
            partition = self._replicas.partitions.get(key)
            position = None if partition is None else positions.get(partition)
            if partition is None or position is None:
                continue
            if not copying.is_awaited(partition, position):
                continue
            cut_at = copying.apply(partition, given)
            if cut_at is not None:
                process.world.note("a partition is truncated")
                partition.begin_truncation()
                cut = partial(partition.truncate_log, cut_at)
                self._replicas.disk.call(cut, partial(_truncated, partition))


def _truncated(partition: Partition, _: object) -> None:
    partition.truncated()


def _nothing() -> None:
    pass
