"""What kinds of values settings have, and how each is read from text.

A reader raises `ValueError` whose message says what is wrong and what would be right; it does not
know the name of the setting. Nothing here opens a file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from admin.addresses import Address, parse_address, parse_addresses
from admin.units import parse_duration_ms, parse_size_bytes
from quorum.addresses import BOOTSTRAP_SERVERS_MAX
from quorum.core.vocabulary import ReplicaId
from quorum.log.uuids import uuid_from_text
from statemachine.features.features import level_of_release
from statemachine.limits import METADATA_VERSION_MAX, METADATA_VERSION_MIN

NODE_ID_MAX: Final = 2**31 - 1
VOTERS_MAX: Final = 64


class Role(StrEnum):
    """What a node is. One process has one role."""

    CONTROLLER = "controller"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Kind:
    """How the text of a value is read, and how documentation calls it."""

    name: str
    parse: Callable[[str], Any]
    unit: str = ""


def _integer(text: str) -> int:
    try:
        return int(text, 10)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty; leave the setting out instead")
    return text


def _path(text: str) -> Path:
    return Path(_text(text)).expanduser()


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a role; write controller or broker, a node is one of them"
        ) from None


def _cluster_id(text: str) -> str:
    try:
        uuid_from_text(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a cluster id: 22 letters, digits, - and _ (a uuid)"
        ) from None
    return text


def _listener(text: str) -> Address:
    if "," in text:
        raise ValueError(f"{text!r} is a list; a node has one listener, host:port")
    name, separator, address = text.rpartition("://")
    if separator and not name:
        raise ValueError(f"{text!r} is not host:port or NAME://host:port")
    return parse_address(address)


def _addressed_voters(text: str) -> Mapping[ReplicaId, Address]:
    found = {}
    for voter, address in _voters(text).items():
        if address is None:
            raise ValueError(f"'{voter}' is not id@host:port, like {voter}@127.0.0.1:9093")
        found[voter] = address
    return MappingProxyType(found)


def _voters(text: str) -> Mapping[ReplicaId, Address | None]:
    found: dict[ReplicaId, Address | None] = {}
    for part in (part.strip() for part in text.split(",")):
        number, separator, address = part.partition("@")
        if not (number.isascii() and number.isdecimal()) or int(number) > NODE_ID_MAX:
            raise ValueError(f"{part!r} is neither id nor id@host:port, like 1@127.0.0.1:9093")
        voter = ReplicaId(int(number))
        listener = parse_address(address) if separator else None
        if voter in found:
            raise ValueError(f"voter {voter} is named twice")
        if listener is not None and listener in found.values():
            raise ValueError(f"{listener} is the address of two voters")
        found[voter] = listener
    if len(found) > VOTERS_MAX:
        raise ValueError(f"{len(found)} voters are named, at most {VOTERS_MAX} are allowed")
    return MappingProxyType(found)


def _servers(text: str) -> tuple[Address, ...]:
    found = parse_addresses(text)
    if len(found) > BOOTSTRAP_SERVERS_MAX:
        raise ValueError(f"{len(found)} servers, at most {BOOTSTRAP_SERVERS_MAX} are allowed")
    return found


INTEGER: Final = Kind("integer", _integer)
TEXT: Final = Kind("text", _text)
PATH: Final = Kind("path", _path)
ROLE: Final = Kind("role", _role)
CLUSTER_ID: Final = Kind("uuid", _cluster_id)
LISTENER: Final = Kind("host:port", _listener)
METADATA_VERSION: Final = Kind(
    f"{METADATA_VERSION_MIN} to {METADATA_VERSION_MAX}, or a release", level_of_release
)
VOTERS: Final = Kind("list of id or id@host:port", _voters)
ADDRESSED_VOTERS: Final = Kind("id@host:port list", _addressed_voters)
SERVERS: Final = Kind("host:port list", _servers)
DURATION: Final = Kind("duration", parse_duration_ms, "ms")
SIZE: Final = Kind("size", parse_size_bytes, "bytes")
