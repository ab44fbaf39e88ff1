"""Why a controller refuses a whole Envelope (58, KIP-590), in words.

Kafka's answer to it has room for an error code only, and whoever passed a request on would have to
guess the rest: a leader without room on its disk, one that has too much to do and one that leads no
more all answer NOT_CONTROLLER. So the words go with it, behind Kafka's last field, in a tagged
field of our own (10004), which Kafka's nodes skip.
"""

from dataclasses import dataclass
from typing import Final

from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import encode_response_body, error_code, make, response_schema
from quorum.protocol.shape import Data
from quorum.protocol.varints import read_uvarint, uvarint

WORDS_TAG: Final = 10_004
WORDS_BYTES_MAX: Final = 4_096

_NO_TAGS: Final = b"\x00"
_ONE_TAG: Final = b"\x01"
_FIXED_BYTES: Final = 3
"""Of a refusal: that nothing is inside, and the error code."""
_MAY_BE_DONE: Final = 1


@dataclass(frozen=True, slots=True)
class Words:
    """What a controller says of a request that it was passed, and did not answer."""

    text: str
    may_be_done: bool = False
    """Whether it may take effect all the same."""


def write_refusal(error: int, words: Words) -> bytes:
    """The EnvelopeResponse body, version 0, that refuses the whole envelope."""
    schema = response_schema(ApiKey.ENVELOPE, 0)
    response = make(schema, response_data=None, error_code=error_code(error))
    body = encode_response_body(ApiKey.ENVELOPE, 0, response)
    assert len(body) == _FIXED_BYTES + 1
    assert body.endswith(_NO_TAGS)
    text = words.text.encode()[:WORDS_BYTES_MAX]
    field = bytes((_MAY_BE_DONE if words.may_be_done else 0,)) + text
    return b"".join((body[:-1], _ONE_TAG, uvarint(WORDS_TAG), uvarint(len(field)), field))


def words_of(body: Data) -> Words | None:
    """What a well-formed refusal says; None where it says nothing, as Kafka's do."""
    data = bytes(body[_FIXED_BYTES : _FIXED_BYTES + WORDS_BYTES_MAX + 64])
    if bytes(body[:1]) != _NO_TAGS or data[:1] != _ONE_TAG:
        return None  # There is an answer inside, or there are other fields than ours alone.
    tag, at = read_uvarint(data, 1)
    size, at = read_uvarint(data, at)
    field = data[at : at + size]
    if tag != WORDS_TAG or not field or len(field) != size:
        return None
    return Words(field[1:].decode(errors="replace"), bool(field[0] & _MAY_BE_DONE))
