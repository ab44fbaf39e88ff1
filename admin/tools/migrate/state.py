"""The state of a migration as values: controllers, brokers, and the outcome of a step.

Nothing of a migration is stored elsewhere: the voters in the log and the registrations say how far
it has come, so that a command that was interrupted is simply given again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from admin.monitoring.health_rules import NOT_FETCHING_MS, Member
from quorum.core.vocabulary import NO_DIRECTORY
from quorum.transport.address import Address


class Kind(StrEnum):
    """The program of a controller."""

    OURS = "metaquorum"
    KAFKA = "Kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A controller, as the leader of the quorum sees it."""

    kind: Kind
    member: Member
    directory_id: UUID = NO_DIRECTORY
    address: Address | None = None
    """The address that it has registered or that the log names; None if neither does."""
    listener: str = ""
    """The name of its listener."""

    @property
    def id(self) -> int:
        """Its id."""
        return self.member.id

    @property
    def has_caught_up(self) -> bool:
        """True if it leads, or fetches and was level with the leader a moment ago."""
        member = self.member
        if not member.is_reachable:
            return False
        return member.is_leader or (member.lag_ms is not None and member.lag_ms < NOT_FETCHING_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The quorum as its leader describes it."""

    cluster_id: str | None
    controllers: tuple[Controller, ...]
    """Voters, and other controllers that have registered or observe, by rising id."""

    @property
    def leader(self) -> Controller | None:
        """The leader; None without one, and for a moment while it gives up its vote."""
        return next((each for each in self.controllers if each.member.is_leader), None)

    @property
    def voters(self) -> tuple[Controller, ...]:
        """The voters, by rising id."""
        return tuple(each for each in self.controllers if each.member.is_voter)

    def get(self, id: int) -> Controller | None:
        """The controller of this id, or None."""
        return next((each for each in self.controllers if each.id == id), None)

    def of(self, kind: Kind) -> tuple[Controller, ...]:
        """The controllers of one kind."""
        return tuple(each for each in self.controllers if each.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The answer of the node at an address, asked directly from this machine."""

    address: Address
    problem: str | None = None
    """The reason why there is no answer."""
    kind: Kind | None = None
    """None without an answer."""
    levels: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The levels of features that it supports: lowest and highest."""
    node_id: int | None = None
    """Its id; only our controllers say it."""
    cluster_id: str | None = None
    has_full_disk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A registered broker."""

    id: int
    epoch: int
    fenced: bool
    levels: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The levels of features that it supports."""
    addresses: tuple[Address, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The brokers, and where each of them looks for the controllers."""

    brokers: tuple[BrokerState, ...]
    configured: Mapping[int, str | None]
    """The controllers that each broker is configured with, in Kafka's syntax; None if it does not
    say."""
    confirmed: frozenset[int] = frozenset()
    """Brokers of which the operator says that they are configured right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The parts of the metadata that a migration has to look at."""

    levels: Mapping[str, int]
    """The levels of features in force, kraft.version included."""
    brokers: tuple[BrokerState, ...] = ()
    unsupported: tuple[str, ...] = ()
    """The contents of the log that our controllers do not know, a sentence each."""
    topics: int = 0
    partitions: int = 0
    reassigning: int = 0
    acls: int = 0
    scram_credentials: int = 0
    delegation_tokens: int = 0
    log_bytes: int = 0
    """The size of the newest snapshot and of the log behind it."""
    problem: str | None = None
    """The reason why the log was not read, so that the numbers are not known."""


class Weight(StrEnum):
    """The weight of a finding."""

    BLOCKS = "blocks"
    """The migration does not begin with it."""
    NOTE = "note"
    """It goes on; the operator should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that the plan has found, and what clears it."""

    weight: Weight
    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """All that the plan has found out."""

    into: Kind
    """The kind of controllers that are to vote in the end."""
    quorum: QuorumState
    contents: Contents
    wanted: Mapping[int, Address]
    """The controllers that are to vote in the end."""
    probes: Mapping[int, Probe]
    """By id, of all controllers, ours that do not run included."""
    settings: BrokerSettings
    silent_kafkas: Sequence[Probe] = ()
    """The addresses in --from where nobody answers, and that the quorum does not know either."""
    clock_ahead_ms: int | None = None
    """How far the clock of the leader is ahead of the one here; None if it is not known."""
    running_moves: Sequence[int] = ()
    """Moves of our own kind that are under way."""
    kafka_settings: Mapping[str, str | None] = field(default_factory=dict)
    """The settings in the file of one of Kafka's controllers; None for a value that it hides."""
    kafka_settings_problem: str | None = None
    """The reason why no controller of Kafka's tells them."""
    our_settings: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By id: the settings of those of our controllers that run and tell them."""
    our_settings_problems: Mapping[int, str] = field(default_factory=dict)
    """By id: the reason why the others do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter:
    """Make this observer a voter."""

    controller: Controller

    def __str__(self) -> str:
        return f"add controller {self.controller.id} ({self.controller.kind}) to the voters"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoter:
    """Remove this voter; it observes from then on. A leader gives up the lead."""

    controller: Controller

    def __str__(self) -> str:
        leads = ", which leads," if self.controller.member.is_leader else ""
        of = f"controller {self.controller.id} ({self.controller.kind}){leads}"
        return f"remove {of} from the voters"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLead:
    """Let this voter lead instead of the leader, which is one of ours."""

    leader: Controller
    to: Controller

    def __str__(self) -> str:
        return f"transfer the lead to controller {self.to.id} ({self.to.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing can be done before something else has happened."""

    reason: str
    """The condition, as a sentence."""
    remedy: str = ""
    """The operator's part; empty if it comes by itself."""

    def __str__(self) -> str:
        return f"{self.reason}. {self.remedy}" if self.remedy else self.reason


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


Step: TypeAlias = AddVoter | RemoveVoter | TransferLead | Wait | Done
