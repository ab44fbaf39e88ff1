"""The kinds of value of a setting, each with its parser.

A parser raises `ValueError`, which says what is wrong and what is right. Nothing here does I/O.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from admin.units import parse_duration_ms, parse_size_bytes, whole_number
from quorum import log_levels
from quorum.core.limits import (
    VOTERS_MAX,
)
from quorum.core.vocabulary import ReplicaId, uuid_from_text
from quorum.discovery.address_book import BOOTSTRAP_SERVERS_MAX
from quorum.process_log import LogFormat
from quorum.transport.address import Address, parse_address, parse_addresses
from quorum.transport.security.principal_mapping import parse_rules
from quorum.transport.security.protocols import SecurityProtocol
from quorum.transport.security.secret import Secret
from quorum.transport.security.tls import VERSIONS, ClientAuth
from statemachine.features.features import level_of_release
from statemachine.limits import (
    METADATA_VERSION_MAX,
    METADATA_VERSION_MIN,
)
from statemachine.security.authorization import STANDARD_AUTHORIZER

NODE_ID_MAX: Final = 2**31 - 1

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_LISTENER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class NamedAddress(NamedTuple):
    """An entry of `listeners`; the name is empty if only the address was written."""

    name: str
    address: Address

    def __str__(self) -> str:
        return f"{self.name}://{self.address}" if self.name else str(self.address)


class Role(StrEnum):
    """The role of a node. One process has one role."""

    CONTROLLER = "controller"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its name in the documentation, its parser, and the bounds of its numbers."""

    name: str
    parse: Callable[[str], Any]
    unit: str = ""
    lowest: int | None = None
    highest: int | None = None
    is_secret: bool = False
    """True if its values must not be shown."""


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


def _listeners(text: str) -> tuple[NamedAddress, ...]:
    found = tuple(_listener(part.strip()) for part in text.split(","))
    for place, one in enumerate(found):
        for other in found[:place]:
            if one.name == other.name:
                raise ValueError(f"two listeners are called {one.name or 'nothing'}")
            if one.address == other.address and one.address.port:
                raise ValueError(f"{one.address} is listed twice")
    return found


def _listener(text: str) -> NamedAddress:
    name, separator, address = text.rpartition("://")
    if separator and not _LISTENER_NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not host:port or NAME://host:port")
    return NamedAddress(name.upper(), parse_address(address))


def _address(text: str) -> Address:
    if "," in text:
        raise ValueError(f"{text!r} is a list; write one host:port")
    return _listener(text).address


def _name(text: str) -> str:
    if not _LISTENER_NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a listener's name: letters, digits, - and _")
    return text.upper()


def _names(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("it is empty; leave the setting out instead")
    return found


def _listener_names(text: str) -> tuple[str, ...]:
    return tuple(map(_name, _names(text)))


def _names_or_none(text: str) -> tuple[str, ...]:
    return _names(text) if text.strip() else ()


def _protocol(text: str) -> SecurityProtocol:
    try:
        return SecurityProtocol[text.upper()]
    except KeyError:
        known = ", ".join(each.name for each in SecurityProtocol)
        raise ValueError(f"{text!r} is not a security protocol; there are {known}") from None


def _protocol_map(text: str) -> Mapping[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for part in _names(text):
        name, separator, protocol = part.partition(":")
        if not separator:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL")
        if _name(name) in found:
            raise ValueError(f"{name} is mapped twice")
        found[_name(name)] = _protocol(protocol)
    return MappingProxyType(found)


def _store_type(text: str) -> str:
    if text.upper() != "PEM":
        raise ValueError(f"{text!r} is not supported; convert it to PEM")
    return "PEM"


def _client_auth(text: str) -> ClientAuth:
    try:
        return ClientAuth(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is neither required, requested nor none") from None


def _tls_versions(text: str) -> tuple[str, ...]:
    found = _names(text)
    for each in found:
        if each not in VERSIONS:
            raise ValueError(f"{each!r} is not supported; there are {', '.join(VERSIONS)}")
    return found


def _endpoint_identification(text: str) -> bool:
    if text.lower() not in ("", "https"):
        raise ValueError(f"{text!r} is neither https nor empty")
    return bool(text)


def _mechanism(text: str) -> str:
    if text.upper() not in SASL_MECHANISMS:
        known = ", ".join(SASL_MECHANISMS)
        raise ValueError(f"{text!r} is not supported; there are {known}")
    return text.upper()


def _mechanisms(text: str) -> tuple[str, ...]:
    return tuple(map(_mechanism, _names(text)))


def addressed_voters(text: str) -> Mapping[ReplicaId, Address]:
    """The voters of a list in which each has its address; raises `ValueError`."""
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
        id = whole_number(number, NODE_ID_MAX)
        if id is None:
            raise ValueError(f"{part!r} is neither id nor id@host:port, like 1@127.0.0.1:9093")
        voter = ReplicaId(id)
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


def _hosts(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(","))
    for host in found:
        if not host or any(character in "/@ *" for character in host) or ":" in host.strip("[]"):
            raise ValueError(f"{host!r} is not a host, like mq.example.com; leave out the port")
    return tuple(host.strip("[]") for host in found)


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def _authorizer(text: str) -> bool:
    """Return True if there is an authorizer."""
    if text.strip() not in ("", STANDARD_AUTHORIZER):
        raise ValueError(f"{text!r} is not an authorizer here; there is {STANDARD_AUTHORIZER}")
    return bool(text.strip())


def _principals(text: str) -> frozenset[str]:
    found = frozenset(part.strip() for part in text.split(";") if part.strip())
    for each in found:
        kind, _, name = each.partition(":")
        if not kind or not name:
            raise ValueError(f"{each!r} is not a principal, like User:admin")
    return found


class Migration(StrEnum):
    """The steps from PLAINTEXT to a protocol with TLS, at one port and without a stop."""

    PREPARE = "prepare"
    SWITCH = "switch"


def _migration(text: str) -> Migration:
    try:
        return Migration(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither prepare nor switch") from None


def _log_format(text: str) -> LogFormat:
    try:
        return LogFormat(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is neither {' nor '.join(LogFormat)}") from None


def _log_levels(text: str) -> Mapping[str, int]:
    """The levels by the names of loggers; a level alone is that of all others."""
    found: dict[str, int] = {}
    for part in _names(text):
        name, _, level = part.rpartition("=")
        if name.strip().partition(".")[0] == log_levels.AUDIT:
            raise ValueError(f"{part}: the audit log has no level, it is always written")
        try:
            found[name.strip() or log_levels.ROOT] = log_levels.parse_level(level)
        except ValueError as error:
            raise ValueError(f"{error}; write INFO, or INFO,quorum=DEBUG") from None
    return MappingProxyType(found)


INTEGER: Final = Kind("integer", _integer, lowest=1)
TEXT: Final = Kind("text", _text)
BOOLEAN: Final = Kind("true or false", _boolean)
AUTHORIZER: Final = Kind("class name", _authorizer)
PRINCIPALS: Final = Kind("list of principals", _principals)
PATH: Final = Kind("path", _path)
ROLE: Final = Kind("role", _role)
CLUSTER_ID: Final = Kind("uuid", _cluster_id)
LISTENER: Final = Kind("host:port", _address)
LISTENERS: Final = Kind("list of NAME://host:port", _listeners)
NAME: Final = Kind("name", _name)
NAMES: Final = Kind("list of names", _names)
NAMES_OR_NONE: Final = Kind("list of names", _names_or_none)
LISTENER_NAMES: Final = Kind("list of names", _listener_names)
MIGRATION: Final = Kind("prepare or switch", _migration)
PROTOCOL: Final = Kind(", ".join(each.name for each in SecurityProtocol), _protocol)
PROTOCOL_MAP: Final = Kind("list of NAME:PROTOCOL", _protocol_map)
STORE_TYPE: Final = Kind("PEM", _store_type)
CLIENT_AUTH: Final = Kind(", ".join(each.value for each in ClientAuth), _client_auth)
MAPPING_RULES: Final = Kind("list of rules", parse_rules)
TLS_VERSIONS: Final = Kind("list of " + ", ".join(VERSIONS), _tls_versions)
ENDPOINT_IDENTIFICATION: Final = Kind("https or empty", _endpoint_identification)
MECHANISM: Final = Kind("SASL mechanism", _mechanism)
MECHANISMS: Final = Kind("list of SASL mechanisms", _mechanisms)
LOG_FORMAT: Final = Kind(" or ".join(LogFormat), _log_format)
LOG_LEVELS: Final = Kind("list of LEVEL or LOGGER=LEVEL", _log_levels)
PASSWORD: Final = Kind("password", lambda text: Secret(_text(text)), is_secret=True)
METADATA_VERSION: Final = Kind(
    f"{METADATA_VERSION_MIN} to {METADATA_VERSION_MAX}, or a release", level_of_release
)
VOTERS: Final = Kind("list of id or id@host:port", _voters)
SERVERS: Final = Kind("host:port list", _servers)
DURATION: Final = Kind("duration", parse_duration_ms, "ms", 1, 3_600_000)
DURATION_OR_NONE: Final = Kind("duration", parse_duration_ms, "ms", 0, 365 * 24 * 3_600_000)
HOSTS: Final = Kind("list of hosts", _hosts)
SIZE: Final = Kind("size", parse_size_bytes, "bytes", lowest=1)
