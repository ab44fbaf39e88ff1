"""`broker.replication.replica_fetcher` in virtual time.

`broker.replication.follower_fetch` decides what to request and what an answer means; fetches go
over the simulated network, and the records go to the virtual disk.
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
from chaos.cluster.invariants import paused_copies
from quorum.core.vocabulary import ReplicaId


class Fetcher:
    """Assigns each partition to its leader, and fetches from the leaders."""

    def __init__(self, process: BrokerNode, replicas: ReplicaManager) -> None:
        self._process = process
        self._replicas = replicas
        self._states: dict[int, LeaderFetchState] = {}
        self._in_flight: dict[int, int] = {}
        self._rounds: dict[int, int] = {}
        self._leader_of: dict[Partition, int] = {}

    def on_role_change(self, partition: Partition) -> None:
        """Fetch the partition from its current leader."""
        before = self._leader_of.pop(partition, None)
        if before is not None:
            self._states[before].remove(partition)
        following = partition.following
        if following is None or following.assignment.leader < 0 or not partition.is_open:
            return
        if self._replicas.partitions.get(partition.key) is not partition:
            return  # It is still being opened; its role is announced afterwards.
        leader = following.assignment.leader
        self._leader_of[partition] = leader
        if leader not in self._states:
            replicas = self._replicas
            self._states[leader] = LeaderFetchState(
                leader, self._process, replicas.throttles.follower, replicas.copies
            )
            self._in_flight[leader] = self._rounds[leader] = 0
        self._states[leader].add(partition)
        self._schedule(leader)

    def _schedule(self, leader: int, wait_ms: int = 0) -> None:
        """Schedule the next fetch from a leader, and cancel any earlier schedule."""
        self._rounds[leader] += 1
        self._process.later(wait_ms, partial(self._fetch, leader, self._rounds[leader]))

    def _fetch(self, leader: int, round_: int) -> None:
        if self._rounds[leader] != round_:
            return
        state = self._states[leader]
        due = state.plan(self._in_flight[leader])
        self._check_paused(leader, due.positions)
        if due.positions:
            self._send(state, due.positions)
        if due.wait_ms is not None:
            self._schedule(leader, max(1, due.wait_ms))

    def _check_paused(self, leader: int, asked: Mapping[Partition, FetchPosition]) -> None:
        process = self._process
        for partition in asked:
            paused_copies.check_fetch(process.image, process.broker_id, partition)
        others = (each for each, its in self._leader_of.items() if its == leader)
        for partition in others:
            if paused_copies.is_paused(process.image, process.broker_id, partition):
                process.world.note(paused_copies.STANDS_STILL)

    def _send(self, state: LeaderFetchState, positions: dict[Partition, FetchPosition]) -> None:
        process, leader = self._process, state.leader
        by_key = {partition.key: position for partition, position in positions.items()}
        epoch = process.broker_epoch
        assert epoch is not None, "only a registered broker fetches"
        self._in_flight[leader] += 1
        process.world.rpc.ask(
            process,
            ReplicaId(leader),
            fetch(process.broker_id, epoch, by_key),
            partial(self._on_response, state, positions),
            timeout_ms=REPLICA_FETCH_TIMEOUT_MS,
        )
        state.on_sent(positions)

    def _on_response(
        self, state: LeaderFetchState, positions: dict[Partition, FetchPosition], answer: Any
    ) -> None:
        self._in_flight[state.leader] -= 1
        if answer is None:
            state.on_failure(positions, "no answer")
        else:
            state.on_response()
            self._apply(state, positions, answer)
        # Fetch again once the queued truncations and writes are done.
        self._replicas.disk.call(_nothing, lambda _: self._schedule(state.leader))

    def _apply(
        self,
        state: LeaderFetchState,
        positions: dict[Partition, FetchPosition],
        answer: Mapping[PartitionKey, FetchedPartition],
    ) -> None:
        process = self._process
        for key, response in answer.items():
            partition = self._replicas.partitions.get(key)
            position = None if partition is None else positions.get(partition)
            if partition is None or position is None:
                continue
            if not state.is_awaited(partition, position):
                continue
            cut_at = state.apply(partition, response)
            if cut_at is not None:
                process.world.note("a partition is truncated")
                partition.begin_truncation()
                cut = partial(partition.truncate_log, cut_at)
                self._replicas.disk.call(cut, partial(_truncated, partition))


def _truncated(partition: Partition, _: object) -> None:
    partition.truncated()


def _nothing() -> None:
    pass
