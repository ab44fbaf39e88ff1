"""Many observers of a leader in a process of their own, for `bench.observers`.

Each has a connection and one Fetch at a time, byte for byte as Kafka's brokers send it (version 17,
without a session), of which only the correlation id and the fetch offset change. Of an answer an
observer reads the head, up to the times of its first batch; the kernel drops the rest without a
copy (MSG_TRUNC), because the observers share the cores with those who are measured.

It prints a line once every observer has been answered, and at the end of its input what all of them
have received, as JSON.
"""

import array
import json
import select
import socket
import sys
from struct import Struct
from typing import Final

from bench import frames
from bench.faults import RunFailed
from quorum.clocks import monotonic_ms, wall_ms
from quorum.core.messages import FetchRequest
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.protocol.apis import ApiKey
from quorum.protocol.fetch_messages import write_fetch_request
from quorum.records.varint import read_uvarint

VERSION: Final = 17
FIRST_ID: Final = 10_000
WAIT_MS: Final = 500
BYTES_MAX: Final = 8 * 1024 * 1024
"""What Kafka's brokers ask for."""
WARM_UP_MS: Final = 1_000
"""Lags are not counted before records have come for so long."""
LAG_MS_MAX: Final = 60_000

_CORRELATION_AT: Final = 8
_NUMBER: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
# Length, correlation id, tags; then throttle, error, session, topics, topic id, partitions,
# partition, error, high watermark, last stable offset, log start, aborted, preferred replica.
_HEAD: Final = Struct(">iiBihiB16sBihqqqBi")
_FIRST_TIME_AT: Final = 27
"""The place in a batch of the time of its first record."""
_HEAD_BYTES: Final = 192
_DROPPED: Final = bytearray(BYTES_MAX + 64 * 1024)


class Observer:
    """One connection; its next request leaves when an answer is complete."""

    def __init__(self, address: tuple[str, int], request: bytearray, offset_at: int) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._request = request
        self._offset_at = offset_at
        self._head = b""
        self._left = 0
        self.answers = 0
        self.bytes = 0

    def ask(self) -> None:
        _NUMBER.pack_into(self._request, _CORRELATION_AT, self.answers)
        if self.socket.send(self._request) != len(self._request):
            raise RunFailed("a node does not read the fetches of an observer")

    def take(self) -> int:
        """Take what has come; return the time of the oldest record of a new answer, or 0."""
        found_ms = 0
        if not self._left:
            head = self.socket.recv(_HEAD_BYTES - len(self._head))
            if not head:
                raise RunFailed("a node closed the connection of an observer")
            head = self._head + head
            if len(head) < _HEAD.size or (len(head) < _HEAD_BYTES and not _is_whole(head)):
                self._head = head
                return 0
            self._head = b""
            found_ms = self._begin(head)
            if not self._left:
                self._end()
                return found_ms
        try:
            self._left -= self.socket.recv_into(_DROPPED, self._left, socket.MSG_TRUNC)
        except BlockingIOError:
            return found_ms
        if not self._left:
            self._end()
        return found_ms

    def _begin(self, head: bytes) -> int:
        fields = _HEAD.unpack_from(head)
        length, whole_error, error, high_watermark = fields[0], fields[4], fields[10], fields[11]
        if whole_error or error or length >= BYTES_MAX:
            error = whole_error or error
            raise RunFailed(f"an observer was answered error {error}, {length} bytes")
        self._left = length + _NUMBER.size - len(head)
        self.bytes += length + _NUMBER.size
        size, start = read_uvarint(head, _HEAD.size)
        if size <= 1:
            return 0
        # All records up to there are in the answer: it is never cut at so few bytes.
        _OFFSET.pack_into(self._request, self._offset_at, high_watermark)
        return int(_OFFSET.unpack_from(head, start + _FIRST_TIME_AT)[0])

    def _end(self) -> None:
        self.answers += 1
        self.ask()


def _is_whole(head: bytes) -> bool:
    length: int = _NUMBER.unpack_from(head)[0]
    return len(head) == length + _NUMBER.size


def frame_of(replica: int, cluster_id: str, epoch: int, offset: int) -> bytearray:
    """The first request of an observer whose log ends there."""
    request = FetchRequest(
        replica=ReplicaKey(ReplicaId(replica)),
        epoch=Epoch(epoch),
        log_end=OffsetAndEpoch(Epoch(epoch), Offset(offset)),
        max_wait_ms=WAIT_MS,
        max_bytes=BYTES_MAX,
    )
    body = write_fetch_request(request, VERSION, cluster_id=cluster_id)
    name = f"raft-client-{replica}"
    return bytearray(frames.frame_request(ApiKey.FETCH, VERSION, 0, name, body))


def offset_place(cluster_id: str) -> int:
    """The place of the fetch offset in a request of any observer."""
    one, other = (frame_of(FIRST_ID, cluster_id, 1, offset) for offset in (1, 1 << 56 | 2))
    return next(at for at in range(len(one)) if one[at] != other[at])


def observe(
    address: tuple[str, int], cluster_id: str, epoch: int, offset: int, replicas: range
) -> dict[str, object]:
    """Observe with all of these replicas until the end of the input."""
    offset_at = offset_place(cluster_id)
    found = select.epoll()
    by_descriptor: dict[int, Observer] = {}
    for replica in replicas:
        observer = Observer(address, frame_of(replica, cluster_id, epoch, offset), offset_at)
        by_descriptor[observer.socket.fileno()] = observer
        found.register(observer.socket, select.EPOLLIN)
        observer.ask()
    found.register(sys.stdin, select.EPOLLIN)
    lags = array.array("q", [0]) * (LAG_MS_MAX + 1)
    counted_from_ms, has_told = 0, False
    while True:
        for descriptor, _ in found.poll():
            if descriptor not in by_descriptor:
                observers = by_descriptor.values()
                return {
                    "answers": sum(each.answers for each in observers),
                    "bytes": sum(each.bytes for each in observers),
                    "lags": {ms: count for ms, count in enumerate(lags) if count},
                }
            appended_ms = by_descriptor[descriptor].take()
            if not appended_ms:
                continue
            if not counted_from_ms:
                counted_from_ms = monotonic_ms() + WARM_UP_MS
            elif monotonic_ms() >= counted_from_ms:
                lags[min(max(0, wall_ms() - appended_ms), LAG_MS_MAX)] += 1
        if not has_told and all(each.answers for each in by_descriptor.values()):
            has_told = True
            print("all observe", flush=True)  # noqa: T201 - its parent reads it


if __name__ == "__main__":
    host, port, cluster, *numbers = sys.argv[1:]
    of_epoch, at, first, count = map(int, numbers)
    result = observe((host, int(port)), cluster, of_epoch, at, range(first, first + count))
    print(json.dumps(result), flush=True)  # noqa: T201
