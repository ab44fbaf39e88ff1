"""Read the committed metadata log and the snapshots of a running cluster over the network.

The requests are those of an observer, Fetch and FetchSnapshot, without a replica id: the leader
remembers nothing about the reader, and waits for nothing from it. Any controller may be named; a
follower names the leader. Bytes are not checked here.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from admin.client.channels import Channels, NoResponse
from admin.faults import AdminError, Incompatible, Unreachable
from quorum.allocator import MAPPED_BYTES_MIN
from quorum.clocks import monotonic_ms
from quorum.core.messages import (
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from quorum.core.vocabulary import NO_REPLICA, Epoch, Offset, OffsetAndEpoch, ReplicaKey
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.raft_messages import API_KEYS, read_response, write_request
from quorum.protocol.raft_types import RaftResponse, Refusal
from quorum.protocol.shape import Data
from quorum.transport.address import Address

FETCH_BYTES: Final = 1024 * 1024
"""Bytes of records in one answer: the leader serves others in between."""
SNAPSHOT_BYTES: Final = MAPPED_BYTES_MIN - 64 * 1024
"""Bytes of a snapshot in one answer. The leader would map the memory for a longer part anew each
time, which is nearly half of what such a part takes of it."""
PAUSE_SECONDS: Final = 0.1
"""The pause before a request is repeated, at another node if one is known."""
REDIRECTS_AT_ONCE: Final = 3
"""Redirections of one request that are followed without a pause."""
REQUEST_MS_MAX: Final = 5_000
"""The time limit of one attempt: another node may know of another leader."""

_READER: Final = ReplicaKey(NO_REPLICA)
_MOVED_ON: Final = frozenset(
    {Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH}
)
_NO_CONTROLLER: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)


class Records(NamedTuple):
    """Committed batches that follow on the end that was asked for, maybe none."""

    data: Data
    high_watermark: Offset | None
    """None while a new leader has committed nothing."""


class Elsewhere(NamedTuple):
    """The leader's log does not continue the end that was asked for."""

    snapshot: OffsetAndEpoch | None
    """The snapshot that replaces the log up to there; None if the two logs diverge."""


class Part(NamedTuple):
    """Bytes of a snapshot."""

    data: Data
    size_bytes: int
    """The size of the whole snapshot."""


class EpochsFell(AdminError):
    """The end that was asked for is of a later epoch than the cluster is in."""

    def __init__(self, problem: object, end: OffsetAndEpoch, epoch: Epoch) -> None:
        """`problem` is the answer to the request, `epoch` that of the cluster."""
        super().__init__(
            f"{problem}; asked for was what follows on epoch {end.epoch}, and the cluster is in "
            f"epoch {epoch}"
        )


class SnapshotGone(Exception):
    """The leader no longer has the snapshot, or there is another leader with files of its own."""


class Source(Protocol):
    """The metadata log of one cluster."""

    cluster_id: str
    remarks: Sequence[str]
    """What is not in it although it was there once, a sentence each."""

    async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        """Ask for what follows on `end`; raises `AdminError`, of which `EpochsFell` is one."""
        ...

    async def fetch_snapshot(self, id_: OffsetAndEpoch, position: int) -> Part:
        """Ask for a part of a snapshot; raises `AdminError`, or `SnapshotGone`: begin again."""
        ...


_Request: TypeAlias = FetchRequest | FetchSnapshotRequest


class MetadataSource:
    """The metadata log of a running cluster, as its leader serves it."""

    def __init__(
        self,
        channels: Channels,
        addresses: Sequence[Address],
        *,
        cluster_id: str,
        patience_ms: int,
        not_before: int = 0,
    ) -> None:
        """A request that stays without an answer for `patience_ms` fails.

        Everything below offset `not_before` is known to be committed: a leader that does not know
        that was cut off from the others and replaced, and is not listened to.
        """
        self._channels = channels
        self._addresses = addresses
        self._next = 0
        self._leader: Address | None = None
        self._epoch = Epoch(0)
        self._patience_ms = patience_ms
        self._not_before = not_before
        self.cluster_id = cluster_id
        self.remarks: Sequence[str] = ()
        self.leaderships = 0
        """The leaders and epochs that were met so far."""

    async def fetch(self, end: OffsetAndEpoch) -> Records | Elsewhere:
        """Ask the leader; see `Source`."""
        try:
            answer = await self._ask(
                lambda epoch: FetchRequest(
                    replica=_READER,
                    # No node is in an epoch before that of its log.
                    epoch=max(epoch, end.epoch),
                    log_end=end,
                    max_wait_ms=0,
                    max_bytes=FETCH_BYTES,
                )
            )
        except Unreachable as error:
            if 0 < self._epoch < end.epoch:
                raise EpochsFell(error, end, self._epoch) from error
            raise
        response = answer.response
        assert isinstance(response, FetchResponse)
        if response.diverging is not None or response.snapshot is not None:
            return Elsewhere(response.snapshot)
        if response.error:
            problem = f"the log cannot be fetched from {end}: {response.error}"
            # An epoch far above its own is none to our nodes.
            if response.error is Error.INVALID_REQUEST and self._epoch < end.epoch:
                raise EpochsFell(problem, end, self._epoch)
            raise AdminError(problem)
        return Records(answer.records, response.high_watermark)

    async def fetch_snapshot(self, id_: OffsetAndEpoch, position: int) -> Part:
        """Ask the leader; see `Source`."""
        before = self.leaderships
        answer = await self._ask(
            lambda epoch: FetchSnapshotRequest(
                replica=_READER,
                epoch=epoch,
                snapshot=id_,
                position=position,
                max_bytes=SNAPSHOT_BYTES,
            )
        )
        response = answer.response
        assert isinstance(response, FetchSnapshotResponse)
        if response.error is Error.SNAPSHOT_NOT_FOUND or (
            position > 0 and self.leaderships != before
        ):
            raise SnapshotGone
        if response.error:
            raise AdminError(f"snapshot {id_} cannot be fetched: {response.error}")
        if response.position != position or not answer.records:
            raise AdminError(
                f"snapshot {id_}: {len(answer.records)} bytes came from {response.position} on, "
                f"asked for was what follows on byte {position}"
            )
        return Part(answer.records, response.size_bytes)

    async def _ask(self, make: Callable[[Epoch], _Request]) -> RaftResponse:
        """Ask the leader, wherever it is; raises `Unreachable` when the patience is at an end."""
        deadline_ms = monotonic_ms() + self._patience_ms
        redirects = 0
        while True:
            address = self._leader or self._addresses[self._next % len(self._addresses)]
            left_ms = deadline_ms - monotonic_ms()
            try:
                answer = await self._exchange(address, make, max(1, min(left_ms, REQUEST_MS_MAX)))
            except NoResponse as error:
                self._look_elsewhere()
                problem = str(error)
            else:
                if isinstance(answer, RaftResponse):
                    if self._is_outdated(answer.response):
                        self._look_elsewhere()
                        problem = (
                            f"{address} does not know that everything below offset "
                            f"{self._not_before} is committed"
                        )
                    elif answer.response.error not in _MOVED_ON:
                        return answer
                    else:
                        problem = self._follow(address, answer)
                        redirects += 1
                        if self._leader is not None and redirects <= REDIRECTS_AT_ONCE:
                            continue
                else:
                    self._look_elsewhere()
                    problem = f"{address}: {answer.reason}"
            if monotonic_ms() >= deadline_ms:
                raise Unreachable(
                    f"no leader served the metadata log for {self._patience_ms} ms; the last "
                    f"answer: {problem}",
                    may_be_done=False,
                )
            await asyncio.sleep(PAUSE_SECONDS)

    def _is_outdated(self, response: object) -> bool:
        """True for what follows on an end, by a leader that does not know what was committed."""
        if not isinstance(response, FetchResponse) or response.error:
            return False
        known = response.high_watermark
        return known is not None and known < self._not_before

    async def _exchange(
        self, address: Address, make: Callable[[Epoch], _Request], timeout_ms: int
    ) -> RaftResponse | Refusal:
        request = make(self._epoch)
        write = partial(write_request, request, to=_READER, cluster_id=self.cluster_id)
        reply = await self._channels.exchange(
            address, API_KEYS[type(request)], write, timeout_ms=timeout_ms
        )
        try:
            answer = read_response(reply.api_key, reply.version, reply.body)
        except Malformed as error:
            raise Incompatible(f"invalid response from {address}: {error}") from None
        if isinstance(answer, Refusal):
            self._check_refusal(address, answer.code)
        elif answer.response.error is Error.INCONSISTENT_CLUSTER_ID:
            self._check_refusal(address, int(ErrorCode.INCONSISTENT_CLUSTER_ID))
        return answer

    def _check_refusal(self, address: Address, code: int) -> None:
        """Raise `AdminError` for a refusal that no other moment would change."""
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise AdminError(
                f"{address} refuses to hand out the metadata log: the principal of this client "
                "needs CLUSTER_ACTION on the cluster. Allow it with `metaquorum acls add --cluster "
                "--operation CLUSTER_ACTION --allow-principal User:NAME`, and give its "
                "credentials by --command-config"
            )
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise AdminError(f"{address} is not of cluster {self.cluster_id}: correct the address")
        if code in _NO_CONTROLLER:
            raise AdminError(
                f"{address} has no metadata log to give, as brokers have none: name controllers "
                "with --bootstrap-controller"
            )

    def _follow(self, address: Address, answer: RaftResponse) -> str:
        """Go where the answer of a node that does not lead points; return what it says."""
        response = answer.response
        self.leaderships += 1
        self._epoch = response.epoch
        if answer.leader_address is not None:
            self._leader = Address(*answer.leader_address)
        elif response.error is Error.NOT_LEADER_OR_FOLLOWER:
            self._look_elsewhere()
        else:
            # It may lead: its epoch was not known.
            self._leader = address
            return f"{address} is in epoch {response.epoch}"
        return f"{address} does not lead in epoch {response.epoch}"

    def _look_elsewhere(self) -> None:
        self._leader = None
        self._next += 1
