"""A connection that sends AlterPartition requests in sequence, at the least cost for the client.

kio encodes the request and the expected response once. From one request to the next only the
correlation id and the partition epoch change, so the client patches these bytes. Each response must
equal, byte for byte, the response to a committed change; any other response ends the run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from struct import Struct
from time import perf_counter
from typing import Any, Final
from uuid import UUID

from bench import frames
from bench.faults import RunFailed
from bench.one_connection import OneConnection
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import Malformed
from quorum.protocol.frames import FrameSplitter

VERSION: Final = 3
_API: Final = ApiKey.ALTER_PARTITION
_CLIENT_ID: Final = "bench"

_NUMBER: Final = Struct(">i")
_REQUEST_CORRELATION_AT: Final = 8
"""The position of the correlation id, after the frame length, the API key and its version."""
_ANSWER_CORRELATION_AT: Final = 4
# Both messages end with the partition epoch and the tagged fields of three nested structures.
_EPOCH_FROM_END: Final = _NUMBER.size + 3


@dataclass(slots=True, kw_only=True)
class Claim:
    """A partition as its leader knows it: the committed state from the last response."""

    number: int
    topic_id: UUID
    replicas: tuple[int, ...]
    """The first replica is the leader."""
    broker_epochs: dict[int, int]
    leader_epoch: int = 0
    partition_epoch: int = 0
    isr: tuple[int, ...] = ()
    changes: int = 0

    @property
    def leader(self) -> int:
        """The broker that requests the changes."""
        return self.replicas[0]

    def frames(self, isr: tuple[int, ...], epoch: int) -> tuple[bytearray, bytearray]:
        """Encode with kio the request for `isr`, and the response to the committed change."""
        schema = codec.request_schema(_API, VERSION)
        partition = {
            "partition_index": self.number,
            "leader_epoch": self.leader_epoch,
            "new_isr_with_epochs": [
                {"broker_id": each, "broker_epoch": self.broker_epochs[each]} for each in isr
            ],
            "leader_recovery_state": 0,
            "partition_epoch": epoch,
        }
        request = codec.build(
            schema,
            {
                "broker_id": self.leader,
                "broker_epoch": self.broker_epochs[self.leader],
                "topics": [{"topic_id": self.topic_id, "partitions": [partition]}],
            },
        )
        answer = frames.encode_response(_API, VERSION, 0, self._answer(isr, epoch + 1))
        return (
            bytearray(frames.encode_request(_API, VERSION, 0, _CLIENT_ID, request)),
            bytearray(answer),
        )

    def _answer(self, isr: tuple[int, ...], epoch: int) -> Any:
        schema = codec.response_schema(_API, VERSION)
        partition = {
            "partition_index": self.number,
            "error_code": 0,
            "leader_id": self.leader,
            "leader_epoch": self.leader_epoch,
            "isr": isr,
            "leader_recovery_state": 0,
            "partition_epoch": epoch,
        }
        topics = [{"topic_id": self.topic_id, "partitions": [partition]}]
        return codec.build(
            schema, {"error_code": 0, "throttle_time": timedelta(0), "topics": topics}
        )


class IsrConnection(OneConnection):
    """Sends requests from `go` to `halt`, one at a time."""

    def __init__(self, claim: Claim, fail: Callable[[str], None]) -> None:
        super().__init__(f"partition {claim.number}", fail)
        self._claim = claim
        self._splitter = FrameSplitter()
        self._isrs = (claim.replicas[:-1], claim.replicas)
        self._frames = [claim.frames(isr, claim.partition_epoch) for isr in self._isrs]
        self._correlation_id = 0
        self._next = 0

    def go(self) -> None:
        """Send the first request; each response triggers the next one."""
        self._next = int(len(self._claim.isr) < len(self._claim.replicas))
        self._ask()

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        self._splitter.feed(data)
        frame = self._splitter.take()
        if frame is None:
            return
        claim = self._claim
        _, answer = self._frames[self._next]
        if frame != answer[_NUMBER.size :]:
            self._fail(_explained(claim, frame))
            return
        if self.latencies is not None:
            self.latencies.append(now - self._asked_at)
        claim.partition_epoch += 1
        claim.changes += 1
        claim.isr = self._isrs[self._next]
        self._next = 1 - self._next
        if self._halted is None:
            self._ask()
        else:
            self._halted.set_result(None)

    def _ask(self) -> None:
        assert self._transport is not None
        request, answer = self._frames[self._next]
        epoch = self._claim.partition_epoch
        self._correlation_id += 1
        _NUMBER.pack_into(request, _REQUEST_CORRELATION_AT, self._correlation_id)
        _NUMBER.pack_into(request, len(request) - _EPOCH_FROM_END, epoch)
        _NUMBER.pack_into(answer, _ANSWER_CORRELATION_AT, self._correlation_id)
        _NUMBER.pack_into(answer, len(answer) - _EPOCH_FROM_END, epoch + 1)
        self._asked_at = perf_counter()
        self._transport.write(bytes(request))


def _explained(claim: Claim, frame: bytes) -> str:
    """Describe an unexpected response."""
    what = f"partition {claim.number}, change {claim.changes + 1}"
    try:
        body = frame[_NUMBER.size + 1 :]
        return f"{what}, was answered {codec.decode_response(_API, VERSION, body)}"
    except Malformed as error:
        return f"{what}, was answered with what cannot be read: {error}"


def check_patching() -> None:
    """Raise `RunFailed` unless a patched frame equals the frame that kio encodes."""
    claim = Claim(number=7, topic_id=UUID(int=77), replicas=(1, 2), broker_epochs={1: 5, 2: 6})
    patched = claim.frames((1, 2), 0)
    for frame, epoch in zip(patched, (1_000_000, 1_000_001), strict=True):
        _NUMBER.pack_into(frame, len(frame) - _EPOCH_FROM_END, epoch)
    if patched != claim.frames((1, 2), 1_000_000):
        raise RunFailed("the partition epoch is not where the benchmark patches it")
