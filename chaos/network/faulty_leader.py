"""The answers of a faulty leader: a correct follower must refuse each of them.

Left out is what no follower can refuse, because a correct leader may send it: a high watermark that
is wrong, records that fit and are not those of the log, and a diverging epoch below what the
follower knows to be committed, at which it ends itself rather than cut what is committed.
"""

import random
from dataclasses import replace
from struct import Struct
from typing import Final

from chaos.network.virtual_network import Packet
from quorum.core.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch

AHEAD: Final = 5
"""The distance of its offsets from what the follower has."""
HALVES: Final = (
    OffsetAndEpoch(Epoch(-1), Offset(AHEAD)),
    OffsetAndEpoch(Epoch(1), Offset(-1)),
)
"""An end offset without an epoch, and an epoch without an end offset."""
_LONG: Final = Struct(">q")
_INT: Final = Struct(">i")
_EPOCH_AT: Final = 12
"""The place of the epoch in a batch; like the base offset, it is not part of the checksum."""


def follows(request: Request) -> bool:
    """True if this request is one to the leader that its sender follows."""
    is_fetch = isinstance(request, FetchRequest) and request.max_wait_ms > 0
    return is_fetch or isinstance(request, FetchSnapshotRequest)


def is_of_leader(packet: Packet) -> bool:
    """True if this is an answer of a leader to the fetch of a follower."""
    answer = packet.response
    return (
        isinstance(answer, FetchResponse | FetchSnapshotResponse)
        and not answer.error
        and answer.leader == packet.sender
        and follows(packet.request)
    )


def forged(packet: Packet, rng: random.Random) -> Packet:
    """Return the answer of a faulty leader in place of this one."""
    if isinstance(packet.response, FetchSnapshotResponse):
        return packet._replace(response=rng.choice(_parts(packet.response)))
    assert isinstance(packet.request, FetchRequest)
    assert isinstance(packet.response, FetchResponse)
    forgeries = _ids(packet.request, packet.response)
    if packet.records and rng.randrange(2):
        return packet._replace(records=rng.choice(_records(packet.request, packet.records)))
    return packet._replace(response=rng.choice(forgeries), records=b"")


def _ids(request: FetchRequest, answer: FetchResponse) -> list[Response]:
    """No records, but ids that cannot be, or an epoch that has passed."""
    end, none = request.log_end, replace(answer, span=None, snapshot=None, diverging=None)
    beyond = Offset(end.offset + AHEAD)
    of_later_epoch = OffsetAndEpoch(Epoch(request.epoch + 1), beyond)
    offers = (*HALVES, of_later_epoch, OffsetAndEpoch(Epoch(0), Offset(0)))
    divergences = (*HALVES, of_later_epoch, OffsetAndEpoch(end.epoch, beyond), end)
    return [
        *(replace(none, snapshot=each) for each in offers),
        *(replace(none, diverging=each) for each in divergences),
        replace(none, high_watermark=Offset(-2)),
        replace(none, epoch=Epoch(request.epoch - 1)),
    ]


def _records(request: FetchRequest, records: bytes) -> list[bytes]:
    """The records after a gap, again from before the end, and in an epoch that has not begun."""
    (base,), after = _LONG.unpack_from(records), _EPOCH_AT + _INT.size
    later = _INT.pack(request.epoch + 1)
    return [
        _LONG.pack(base + AHEAD) + records[_LONG.size :],
        _LONG.pack(base - 1) + records[_LONG.size :],
        records[:_EPOCH_AT] + later + records[after:],
    ]


def _parts(answer: FetchSnapshotResponse) -> list[Response]:
    """Another snapshot, another place in it, more than there is of it."""
    id_ = answer.snapshot
    return [
        *(replace(answer, snapshot=each) for each in HALVES),
        replace(answer, snapshot=OffsetAndEpoch(id_.epoch, Offset(id_.offset + AHEAD))),
        replace(answer, position=answer.position + AHEAD),
        replace(answer, size_bytes=answer.position),
        replace(answer, epoch=Epoch(answer.epoch - 1)),
    ]
