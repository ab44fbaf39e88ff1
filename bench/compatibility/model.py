"""The table of compatibility: clients, their calls, and the expected result at each place.

A call that must fail names its reason. The run fails if a call that must work does not, if one that
must fail works, or if it fails in other words than its reason expects.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bench.compatibility.site import Site


class Place(StrEnum):
    """The nodes that a client is given as its bootstrap servers."""

    EMBEDDED = "embedded brokers"
    KAFKA = "Kafka's brokers"
    CONTROLLERS = "controllers"


BROKERS: Final = (Place.EMBEDDED, Place.KAFKA)
EVERYWHERE: Final = tuple(Place)


class Failed(Exception):
    """The call failed, or did not do what it said; the text is the client's or the judge's."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason of a "no": a footnote of the page, and a pattern of the client's own words."""

    text: str
    said: str
    by_chance: bool = False
    """True: it depends on chance, and the call may also work."""


@dataclass(slots=True)
class Case:
    """One call at one place, with a name that nothing else in the cluster has."""

    site: Site
    place: Place
    servers: str
    """The bootstrap servers, `host:port,...`."""
    name: str
    """The name of the topic, user, group or transactional id of this call."""
    folder: Path
    """A folder for files of the call; it exists."""
    acks: str = "all"
    codec: str = "none"
    codecs: Sequence[str] = ("none",)
    """The codecs in which the records of a topic to be read are written."""
    values: Sequence[str] = ()
    """The records to write, or those that must be read."""
    broker: int = 0
    """A broker that is registered and fenced."""

    @property
    def brokers(self) -> Sequence[int]:
        """The ids of the brokers."""
        return self.site.brokers


NOWHERE: Final[Mapping[Place, Reason]] = MappingProxyType({})


def nothing(_: Case) -> None:
    """Neither prepare nor clean up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that clients do with a cluster: what is there before, and what must be true then.

    `judge` raises `Failed`; it is given the output of the client.
    """

    label: str
    judge: Callable[[Case, str], None]
    prepare: Callable[[Case], None] = nothing
    clean_up: Callable[[Case], None] = nothing
    given: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the case that the operation sets."""
    no: Mapping[Place, Reason] = field(default_factory=lambda: NOWHERE)
    """The places where it must fail, whichever client asks."""
    only_reads: bool = False
    """True: a broker may answer from an older state, so that the call is repeated for a while."""


Act = Callable[[Case], Any]
"""The call itself: performed here by a library, or the words for a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation by one client."""

    operation: Operation
    act: Act
    places: Sequence[Place] = EVERYWHERE
    """The places at which the client offers the call."""
    no: Mapping[Place, Reason] = field(default_factory=lambda: NOWHERE)
    """The places where it must fail, besides those of the operation."""
    program: str = ""
    """The program of a client that consists of several; empty: the client's own name."""

    def refusal(self, place: Place) -> Reason | None:
        """The reason for which it must fail there; None if it must work."""
        return self.no.get(place, self.operation.no.get(place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client in one version, with its calls."""

    name: str
    version: str
    calls: Sequence[Call]
    start: Callable[[Path], AbstractContextManager[Callable[[Case, Act], str]]]
    """Start it, with a folder for its files; the result carries out an act within its time limit,
    and returns the output or raises `Failed`."""
    codecs: Sequence[str] = ("none", "gzip", "snappy", "lz4", "zstd")
    """The codecs that it can decompress."""
