"""The frames of a run. Each follows from the seed and its number alone, so it can be replayed.

A corpus of valid requests of every API and version that a listener may offer is made first. A frame
is one of them as it is, or changed: mutated, cut short, amplified; or it is no request at all.
"""

import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from admin.capabilities.registry import CAPABILITIES
from chaos.fuzz.values import RandomValues
from quorum.protocol import envelope
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange, api_name
from quorum.protocol.codec import encode_request_body, request_body, request_schema
from quorum.protocol.envelope import Forwarded
from quorum.protocol.headers import write_request_header
from quorum.protocol.principal import KafkaPrincipal

LENGTH: Final = struct.Struct(">i")
VARIANTS: Final = 4
"""Valid requests of each API and version."""
CLIENT_ID: Final = "fuzz"

_COUNTS: Final = (0x7FFFFFFF, -1, -2, 0x00FFFFFF, 1_000_000, 65_536, 5_000)
_UVARINTS: Final = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 9,
)
_BULK_BYTES: Final = (20_000, 200_000, 3_000_000, 15_900_000)
OTHERS_SHARE: Final = 0.1
"""The share of requests of any API, offered or not."""
BEFORE_AUTHENTICATION: Final = {
    int(key): key.spoken
    for key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
}
"""The APIs of a listener for a client that has not said who it is."""
HARMLESS: Final = frozenset(
    {
        ApiKey.ALTER_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.BROKER_HEARTBEAT,
    }
)
"""The APIs by which whoever may do everything may also end the cluster: their requests name nobody
that there is."""
OF_THE_QUORUM: Final = frozenset({"quorum.alter-voters", "quorum.transfer-lead"})


class Kind(Enum):
    """The kinds of frames, with their share in a thousand."""

    shares: int

    VALID = "valid", 300
    MUTATED = "mutated", 330
    TRUNCATED = "truncated", 90
    AMPLIFIED = "amplified", 110
    RANDOM = "random bytes in a frame", 70
    UNKNOWN = "unknown API or version, odd header", 50
    BULK = "amplified to many bytes", 2
    CUT_OFF = "shorter than its length says", 24
    NO_FRAME = "no frame", 24

    def __new__(cls, text: str, shares: int) -> "Kind":
        self = object.__new__(cls)
        self._value_ = text
        self.shares = shares
        return self

    @property
    def ends(self) -> bool:
        """True if nothing that follows it on its connection is read as a frame."""
        return self in (Kind.CUT_OFF, Kind.NO_FRAME)


@dataclass(frozen=True, slots=True)
class Frame:
    """The bytes that are sent at one go, and their origin."""

    number: int
    kind: Kind
    what: str
    data: bytes

    def __str__(self) -> str:
        shown = self.data[:96].hex() + ("..." if len(self.data) > 96 else "")
        return (
            f"frame {self.number} ({self.kind.value}, {self.what}), {len(self.data)} bytes: {shown}"
        )


class Frames(Protocol):
    """The frames of one run at one listener."""

    def frame(self, number: int) -> Frame:
        """Return the frame of this number, the same each time."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """A valid request: its header after the correlation id, and its body."""

    api_key: int
    version: int
    body: bytes

    def framed(self, correlation_id: int, body: bytes) -> bytes:
        """Return a frame of this header with another body."""
        header = write_request_header(self.api_key, self.version, correlation_id, CLIENT_ID)
        return framed(header + body)

    def __str__(self) -> str:
        return f"{api_name(self.api_key)} v{self.version}"


def framed(data: bytes) -> bytes:
    """Return a frame with these bytes."""
    return LENGTH.pack(len(data)) + data


class KafkaFrames:
    """Frames of the Kafka protocol."""

    def __init__(self, seed: int, offered: Mapping[int, VersionRange], *, harmless: bool) -> None:
        """Most requests are of the `offered` APIs and versions.

        `harmless`: no request does what ends a cluster without any fault of its nodes.
        """
        self._seed = seed
        self._all = corpus(random.Random(f"{seed}/corpus"), harmless=harmless)
        self._offered = [
            each for each in self._all if each.version in offered.get(each.api_key, ())
        ]
        self._kinds = tuple(Kind)
        self._shares = tuple(each.shares for each in Kind)

    def frame(self, number: int) -> Frame:
        rng = random.Random(f"{self._seed}/{number}")
        (kind,) = rng.choices(self._kinds, self._shares)
        sample = rng.choice(self._all if rng.random() < OTHERS_SHARE else self._offered)
        data, what = self._data(kind, sample, number & 0x7FFFFFFF, rng)
        return Frame(number, kind, what, data)

    def _data(  # noqa: C901 - one case for each kind
        self, kind: Kind, sample: Sample, correlation_id: int, rng: random.Random
    ) -> tuple[bytes, str]:
        match kind:
            case Kind.VALID:
                data = sample.framed(correlation_id, sample.body)
            case Kind.MUTATED if rng.random() < 0.15:
                whole = sample.framed(correlation_id, sample.body)
                data = framed(mutated(whole[LENGTH.size :], rng))
            case Kind.MUTATED:
                data = sample.framed(correlation_id, mutated(sample.body, rng))
            case Kind.TRUNCATED:
                whole = sample.framed(correlation_id, sample.body)
                data = framed(whole[LENGTH.size : rng.randrange(LENGTH.size, len(whole))])
            case Kind.AMPLIFIED:
                data = sample.framed(correlation_id, amplified(sample.body, rng))
            case Kind.BULK:
                data = sample.framed(correlation_id, bulky(sample.body, rng))
            case Kind.RANDOM:
                return framed(rng.randbytes(rng.choice((0, 1, 7, 8, 20, 200)))), "random"
            case Kind.UNKNOWN:
                return odd_header(sample, correlation_id, rng), f"by {sample}"
            case Kind.CUT_OFF:
                whole = sample.framed(correlation_id, sample.body)
                data = whole[: rng.randrange(1, len(whole))]
            case Kind.NO_FRAME:
                return no_frame(rng), "random"
        return data, str(sample)


def corpus(rng: random.Random, *, harmless: bool) -> list[Sample]:
    """Return valid requests of every API and version."""
    found = []
    for key, spoken in SPOKEN.items():
        values = RandomValues(rng, harmless=harmless and key in HARMLESS)
        for version in range(spoken.lowest, spoken.highest + 1):
            for _ in range(VARIANTS):
                value = values.of_schema(request_schema(key, version))
                found.append(Sample(key, version, encode_request_body(key, version, value)))
    inner = [each for each in found if each.api_key != ApiKey.ENVELOPE]
    found += [_enveloped(rng.choice(inner), rng) for _ in range(len(inner) // 4)]
    return found + _capabilities(rng, harmless=harmless)


def _enveloped(inner: Sample, rng: random.Random) -> Sample:
    name = rng.choice(("ANONYMOUS", "node", "witness", "alice"))
    body = envelope.wrap(
        Forwarded(
            inner.api_key, inner.version, 1, "x", KafkaPrincipal("User", name), inner.body, "::1"
        ),
        timeout_ms=1,
    )
    return Sample(ApiKey.ENVELOPE, envelope.VERSION, body)


def _capabilities(rng: random.Random, *, harmless: bool) -> list[Sample]:
    found = []
    values = RandomValues(rng)
    for name, kind in CAPABILITIES.items():
        if harmless and name in OF_THE_QUORUM:
            continue
        for _ in range(VARIANTS):
            fields: dict[str, Any] = {
                "timeout": values.duration(),
                "name": name,
                "stale": values.chance(),
                "asks_who_leads": values.chance(),
                "body": msgspec.msgpack.encode(values.of_struct(kind)),
            }
            found.append(Sample(ApiKey.CAPABILITY, 0, request_body(ApiKey.CAPABILITY, 0, **fields)))
    return found


def mutated(body: bytes, rng: random.Random) -> bytes:
    """Change a few bytes: flip, replace, insert, remove, repeat a part."""
    data = bytearray(body or b"\x00")
    for _ in range(rng.choice((1, 1, 1, 2, 4, 12))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8)))
            case 3:
                del data[at : at + rng.choice((1, 2, 4, 8))]
            case 4:
                data[at:at] = data[at : at + 24]
            case _:
                data[at : at + 4] = LENGTH.pack(rng.choice(_COUNTS))
    return bytes(data)


def amplified(body: bytes, rng: random.Random) -> bytes:
    """Claim much at one place: a count, a length, or a varint of either."""
    at = rng.randrange(len(body) + 1)
    if rng.random() < 0.5:
        return body[:at] + rng.choice(_UVARINTS) + body[at + 1 :]
    return body[:at] + LENGTH.pack(rng.choice(_COUNTS)) + body[at + 4 :]


def bulky(body: bytes, rng: random.Random) -> bytes:
    """Claim much and send it: many empty items, or zeros."""
    size = rng.choice(_BULK_BYTES)
    at = rng.randrange(len(body) + 1)
    item = rng.choice((b"\x00", b"\x01", b"\xff", b"\x00\x01", b"\x01\x00"))
    count = LENGTH.pack(size) if rng.random() < 0.5 else b"\xff\xff\xff\x07"
    return body[:at] + count + item * (size // len(item))


def odd_header(sample: Sample, correlation_id: int, rng: random.Random) -> bytes:
    """Return a request of an unknown API or version, or with an odd client id or tags."""
    match rng.randrange(4):
        case 0:
            key = rng.choice((-1, 4, 5, 6, 7, 300, 32_767, rng.randrange(-(1 << 15), 1 << 15)))
            prefix = struct.pack(">hhi", key, sample.version, correlation_id)
            return framed(prefix + b"\x00\x01x\x00" + sample.body)
        case 1:
            version = rng.choice((-1, 99, 32_767, sample.version + 1))
            prefix = struct.pack(">hhi", sample.api_key, version, correlation_id)
            return framed(prefix + b"\x00\x01x\x00" + sample.body)
        case 2:
            prefix = struct.pack(">hhi", sample.api_key, sample.version, correlation_id)
            client = rng.choice((b"\x00\x02\xc3\x28", b"\x7f\xffx", b"\xff\xfe", b"\x00\x01\x1b"))
            return framed(prefix + client + sample.body)
        case _:
            prefix = struct.pack(">hhi", sample.api_key, sample.version, correlation_id)
            tags = rng.choice((b"\x7f", b"\xff\xff\xff\xff\x0f", b"\x02\x00\x01x\x00\x01y"))
            return framed(prefix + b"\xff\xff" + tags + sample.body)


def no_frame(rng: random.Random) -> bytes:
    """Return bytes of another protocol, or a length that no frame has."""
    return rng.choice(
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(60),
            LENGTH.pack(-1) + b"x",
            LENGTH.pack(0x7FFFFFFF) + b"x" * 9,
            LENGTH.pack(rng.randrange(1 << 24, 1 << 30)),
            b"",
            rng.randbytes(rng.randrange(1, 64)),
        )
    )
