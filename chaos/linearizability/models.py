"""Sequential models of the responses that clients may get, one for each kind of key.

Input of `chaos.linearizability.checker`. A model maps a state, a request and its answer (None if
unknown) to the possible next states; there are none if the answer is impossible.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from chaos.linearizability.checker import Key, Model

Replicas: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Refused, for a reason outside the model."""

    reason: str


# One partition: AlterPartitionReassignments and ListPartitionReassignments (KIP-455).


@dataclass(frozen=True, slots=True)
class Reassign:
    """Reassign the partition to these replicas."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the reassignment under way."""


@dataclass(frozen=True, slots=True)
class List:
    """Ask for the reassignment under way."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The reassignment is under way, or complete, or nothing was to be done."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The reassignment is cancelled, and these are the replicas."""

    replicas: Replicas


@dataclass(frozen=True, slots=True)
class NothingUnderWay:
    """NO_REASSIGNMENT_IN_PROGRESS, or an empty list."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The partition is on its way to these replicas."""

    target: Replicas


class PartitionState(NamedTuple):
    """The replicas of a partition, and the target of its reassignment."""

    replicas: Replicas | None
    """The replicas while no reassignment is under way; None if unknown."""
    target: Replicas | None = None


def after_partition(
    state: PartitionState,
    asked: Reassign | Cancel | List,
    answer: Accepted | Cancelled | NothingUnderWay | UnderWay | Refused | None,
) -> tuple[PartitionState, ...]:
    """See `linearizability.Model`."""
    match asked, answer:
        case List(), UnderWay(target):
            return (state,) if state.target == target else ()
        case ((List() | Cancel()), NothingUnderWay()):
            return (_at_rest(state),)
        case Cancel(), Cancelled(replicas):
            return () if state.target is None else (PartitionState(replicas),)
        case Cancel(), None:
            return (state,) if state.target is None else (PartitionState(None),)
        case Cancel(), Refused():
            return () if state.target is None else (state,)
        case Reassign(replicas), (Accepted() | None):
            return _directed(state, replicas)
        case _, (Refused() | None):
            return (state,)
        case _:
            return ()


def _at_rest(state: PartitionState) -> PartitionState:
    """Return the state after the reassignment under way has ended."""
    return state if state.target is None else PartitionState(state.target)


def _directed(state: PartitionState, replicas: Replicas) -> tuple[PartitionState, ...]:
    resting = _at_rest(state)
    if replicas in (state.target, resting.replicas):
        # The request changes nothing, even if the reassignment has ended by then.
        return (state,)
    return (PartitionState(None, replicas),)


# One name of a topic: CreateTopics, DeleteTopics and Metadata.


@dataclass(frozen=True, slots=True)
class Create:
    """Create a topic of this name."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the topic."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Look up the topic."""


@dataclass(frozen=True, slots=True)
class Exists:
    """The topic exists, with this id."""

    topic_id: str | None
    """None if the answer does not contain it."""


@dataclass(frozen=True, slots=True)
class Created:
    """The topic was created by this request."""

    topic_id: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The topic was deleted by this request."""


@dataclass(frozen=True, slots=True)
class Absent:
    """UNKNOWN_TOPIC_OR_PARTITION."""


class TopicState(NamedTuple):
    """The topic of this name, if there is one."""

    exists: bool
    topic_id: str | None = None
    """None if no answer contained it."""


def after_topic(
    state: TopicState,
    asked: Create | Delete | Describe,
    answer: Exists | Created | Deleted | Absent | Refused | None,
) -> tuple[TopicState, ...]:
    """See `linearizability.Model`."""
    match asked, answer:
        case Create(), Created(topic_id):
            return () if state.exists else (TopicState(True, topic_id),)
        case Create(), None:
            return (state,) if state.exists else (TopicState(True),)
        case Delete(), (Deleted() | None):
            is_right = state.exists or answer is None
            return (TopicState(False),) if is_right else ()
        case ((Create() | Describe()), Exists(topic_id)):
            return _identified(state, topic_id)
        case ((Delete() | Describe()), Absent()):
            return () if state.exists else (state,)
        case _, (Refused() | None):
            return (state,)
        case _:
            return ()


def _identified(state: TopicState, topic_id: str | None) -> tuple[TopicState, ...]:
    if not state.exists:
        return ()
    if topic_id is None:
        return (state,)
    return (TopicState(True, topic_id),) if state.topic_id in (None, topic_id) else ()


# One configuration of one resource: IncrementalAlterConfigs and DescribeConfigs.


@dataclass(frozen=True, slots=True)
class Set:
    """Set the value; None deletes it."""

    value: str | None


@dataclass(frozen=True, slots=True)
class Get:
    """Read the value."""


@dataclass(frozen=True, slots=True)
class Done:
    """The request succeeded."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value; None if it is not set."""

    value: str | None


def after_config(
    state: str | None, asked: Set | Get, answer: Done | Value | Refused | None
) -> tuple[str | None, ...]:
    """See `linearizability.Model`. The state is the value."""
    match asked, answer:
        case Set(value), (Done() | None):
            return (value,)
        case Get(), Value(value):
            return (state,) if value == state else ()
        case _, (Refused() | None):
            return (state,)
        case _:
            return ()


# One user: AlterUserScramCredentials. A removal says whether there was a credential.


@dataclass(frozen=True, slots=True)
class AddUser:
    """Set the credential of the user."""


@dataclass(frozen=True, slots=True)
class RemoveUser:
    """Remove the credential of the user."""


def after_user(
    state: bool, asked: AddUser | RemoveUser, answer: Done | Absent | Refused | None
) -> tuple[bool, ...]:
    """See `linearizability.Model`. The state is whether the user has a credential."""
    match asked, answer:
        case AddUser(), (Done() | None):
            return (True,)
        case RemoveUser(), Done():
            return (False,) if state else ()
        case RemoveUser(), Absent():
            return () if state else (False,)
        case RemoveUser(), None:
            return (False,)
        case _, Refused():
            return (state,)
        case _:
            return ()


# One move: pause, resume and status.


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause the move."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume the move."""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the state of the move."""


@dataclass(frozen=True, slots=True)
class Moving:
    """The state of the move."""

    phase: str


@dataclass(frozen=True, slots=True)
class Over:
    """The move has ended and cannot be paused or resumed."""


RUNNING: Final = "running"
PAUSED: Final = "paused"
ENDED: Final = "ended"


def after_move(
    state: str, asked: Pause | Resume | Look, answer: Done | Moving | Over | Refused | None
) -> tuple[str, ...]:
    """See `linearizability.Model`. The state is the phase, and any may turn into "ended"."""
    match asked, answer:
        case ((Pause() | Resume()), (Done() | None)):
            if state == ENDED:
                return () if answer is not None else (state,)
            return (PAUSED if isinstance(asked, Pause) else RUNNING,)
        case ((Pause() | Resume()), Over()):
            return (ENDED,)
        case Look(), Moving(phase):
            return (phase,) if phase in (state, ENDED) else ()
        case _, (Refused() | None):
            return (state,)
        case _:
            return ()


KINDS: Final[dict[str, Callable[[], Model]]] = {
    "partition": lambda: Model(PartitionState(None), after_partition),
    "topic": lambda: Model(TopicState(False), after_topic),
    "config": lambda: Model(None, after_config),
    "move": lambda: Model(RUNNING, after_move),
    "user": lambda: Model(False, after_user),
}


def model_of(key: Key) -> Model:
    """The model of the kind that a key begins with, for a cluster that was empty before."""
    return KINDS[key[0]]()
