"""Read the metadata log of a running quorum that Kafka leads, as a reader without a replica id.

The reader fetches as a follower does (KIP-595), the newest snapshot first if the log was cut, and
takes committed records only. A fetch with replica id -1 leaves no trace at Kafka's leader; our
leaders refuse it, and need it not: our nodes tell what is in the log.
"""

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from admin.faults import AdminError, Unreachable
from admin.tools.adopt.source import AdoptError, History, add_record, begin_history
from quorum.clocks import monotonic_ms
from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
)
from quorum.core.vocabulary import NO_REPLICA, Epoch, Offset, OffsetAndEpoch, ReplicaKey
from quorum.log.checkpoint import checkpoint_name, read_checkpoint
from quorum.log.errors import StorageError
from quorum.protocol.errors import Malformed
from quorum.protocol.raft_messages import API_KEYS, read_response, write_request
from quorum.protocol.raft_types import RaftResponse, Refusal
from quorum.records.batch import CorruptBatch, check_length, header_at
from quorum.records.decode import UnsupportedCodec, decode
from quorum.transport.address import Address
from quorum.transport.channel import Channel
from quorum.transport.outcomes import RequestFailed
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.sweeper import Sweeper

REQUEST_MS: Final = 10_000
REDIRECTS_MAX: Final = 16
"""Answers in a row that name another leader or epoch, and bring nothing."""
_READER: Final = ReplicaKey(NO_REPLICA)
_FAILING: Final = "the metadata log cannot be read"


class LogReader:
    """Reads the log up to the high watermark; use it as an async context."""

    def __init__(
        self, addresses: Sequence[Address], security: ClientSecurity = PLAIN_CLIENT
    ) -> None:
        assert addresses
        self.history = History()
        """The contents of the log so far."""
        self.bytes_read = 0
        self._security = security
        self._addresses = tuple(addresses)
        self._turn = 0
        self._leader: Address | None = None
        self._epoch = Epoch(0)
        self._last_epoch = Epoch(0)
        self._sweeper = Sweeper(monotonic_ms)
        self._channels: dict[Address, Channel] = {}

    async def __aenter__(self) -> "LogReader":
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._sweeper.close()

    async def catch_up(self) -> History:
        """Read up to the high watermark.

        Raises `Unreachable` during an election, `AdminError`, and `AdoptError` for records that
        cannot be read.
        """
        while True:
            end = self.history.image.end_offset
            request = FetchRequest(
                replica=_READER,
                epoch=self._epoch,
                log_end=OffsetAndEpoch(self._last_epoch, Offset(end)),
                max_wait_ms=0,
                max_bytes=FETCH_BYTES_MAX,
            )
            answer = await self._ask(request)
            found = answer.response
            assert isinstance(found, FetchResponse)
            if found.snapshot is not None:
                await self._take_snapshot(found.snapshot)
                continue
            if found.diverging is not None:
                raise AdminError(f"{_FAILING}: it was cut while it was read; ask again")
            if found.high_watermark is None:
                why = "its leader does not know yet what is committed"
                raise Unreachable(f"{_FAILING}: {why}", may_be_done=False)
            self._take(bytes(answer.records), found.high_watermark)
            if self.history.image.end_offset >= found.high_watermark:
                return self.history
            if self.history.image.end_offset == end:
                raise AdminError(f"{_FAILING}: the leader sends nothing from offset {end} on")

    def _take(self, records: bytes, high_watermark: int) -> None:
        """Add the committed records of whole batches."""
        try:
            whole = records[: _whole_bytes(records)]
            self.bytes_read += len(whole)
            for record in decode(whole):
                if self.history.image.end_offset <= record.offset < high_watermark:
                    add_record(self.history, record)
            position = 0
            while position < len(whole):
                header = header_at(whole, position)
                if header.base_offset < high_watermark:
                    self._last_epoch = Epoch(header.epoch)
                position += header.size_bytes
        except (CorruptBatch, UnsupportedCodec) as error:
            raise AdminError(f"{_FAILING}: {error}") from error

    async def _take_snapshot(self, id_: OffsetAndEpoch) -> None:
        with tempfile.TemporaryDirectory(prefix="metaquorum-migrate-") as name:
            path = Path(name) / checkpoint_name(id_)
            with path.open("wb") as file:
                position, size = 0, 1
                while position < size:
                    answer = await self._ask(
                        FetchSnapshotRequest(
                            replica=_READER,
                            epoch=self._epoch,
                            snapshot=id_,
                            position=position,
                            max_bytes=FETCH_BYTES_MAX,
                        )
                    )
                    found = answer.response
                    assert isinstance(found, FetchSnapshotResponse)
                    size = found.size_bytes
                    if not found.length:
                        raise AdminError(f"{_FAILING}: snapshot {id_} ends at byte {position}")
                    file.write(answer.records)
                    position += found.length
            self.bytes_read += position
            try:
                self.history = History()
                begin_history(self.history, read_checkpoint(path))
            except (StorageError, AdoptError) as error:
                raise AdminError(f"{_FAILING}: snapshot {id_}: {error}") from error
        self._last_epoch = id_.epoch

    async def _ask(self, request: Request) -> RaftResponse:
        """Ask the leader, which the other controllers name."""
        problem = ""
        for _ in range(REDIRECTS_MAX):
            address = self._leader or self._addresses[self._turn % len(self._addresses)]
            try:
                answer = await self._ask_one(address, request)
            except (RequestFailed, Malformed) as error:
                problem = f"{address}: {error}"
                self._leader = None
                self._turn += 1
                continue
            if isinstance(answer, Refusal):
                raise AdminError(f"{_FAILING}: {address}: {answer.reason}")
            found = answer.response
            if not found.error:
                return answer
            problem = f"{address}: {found.error.name}"
            moved = found.epoch > self._epoch
            self._epoch = max(self._epoch, found.epoch)
            if answer.leader_address is not None:
                self._leader = Address(*answer.leader_address)
            elif not moved:
                self._leader = None
                self._turn += 1
            request = replace(request, epoch=self._epoch)
        raise Unreachable(f"{_FAILING}: {problem}", may_be_done=False)

    async def _ask_one(self, address: Address, request: Request) -> RaftResponse | Refusal:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = Channel(
                lambda: address,
                client_id="metaquorum-migrate",
                sweeper=self._sweeper,
                rng=random.Random(),
                security=self._security,
            )
        api_key = API_KEYS[type(request)]
        reply = await channel.call(
            api_key,
            lambda version: write_request(request, version, to=_READER, cluster_id=None),
            timeout_ms=REQUEST_MS,
        )
        return read_response(api_key, reply.version, reply.body)


def _whole_bytes(records: bytes) -> int:
    """The length of the whole batches at the beginning: the last one may be cut off."""
    position = 0
    while position < len(records):
        try:
            header = header_at(records, position)
            check_length(header, position, len(records))
        except CorruptBatch:
            break
        position += header.size_bytes
    return position
