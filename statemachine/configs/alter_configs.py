"""IncrementalAlterConfigs and AlterConfigs: each resource is changed or refused by itself.

The effects of a change are in the same batch: a partition without a leader gets one once unclean
elections are allowed, and a reassignment that only waited for a lower min ISR or another completion
rule completes. The backlog of the scheduler has those beyond the limit of one
decision. Kafka's controller holds such elections at intervals, and has no such moves.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from statemachine import commands
from statemachine.configs.broker_configs import ALL_LOG_DIRS, CORDONED_LOG_DIRS
from statemachine.configs.definitions import ConfigType, parts
from statemachine.configs.effective import MIN_ISR, UNCLEAN_ELECTION, unclean_election_allowed
from statemachine.configs.resources import conflict, definition, resource_refusal, value_refusal
from statemachine.errors import Error, Refusal
from statemachine.features.features import release_name
from statemachine.image.partition_table import Topic
from statemachine.limits import PARTITIONS_FREED_BY_CONFIGS_MAX
from statemachine.partitions.change_builder import change_partition, clear_elr
from statemachine.partitions.elr import affected_partitions
from statemachine.partitions.leader_election import election_for
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import throttle
from statemachine.reassignment.settings import COMPLETION_RULE
from statemachine.records import kafka_records
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    LEVEL_CORDONED_DIRECTORIES,
    NO_LEADER,
    Resource,
)

_Values: TypeAlias = Mapping[str, str | None]
"""The values of configurations after a change, by name; None is "removed"."""

_OPERATIONS: Final = {each.value: each for each in commands.ConfigOperation}
_AMENDING: Final = (commands.ConfigOperation.APPEND.value, commands.ConfigOperation.SUBTRACT.value)


def alter_configs(
    pending: PendingDecision, command: commands.IncrementalAlterConfigs
) -> commands.ConfigsAltered:
    """Change the configurations of each resource, or refuse them (KIP-339)."""
    counts = Counter((each.resource_type, each.resource_name) for each in command.changes)
    answers: dict[Resource, commands.ConfigAltered] = {}
    for change in command.changes:
        kind, name = resource = change.resource_type, change.resource_name
        if resource in answers:
            continue
        refusal = (
            _set(pending, resource, change, forwarded=command.forwarded)
            if counts[resource] == 1
            else Refusal(Error.INVALID_REQUEST, "the resource is named more than once")
        )
        answers[resource] = commands.ConfigAltered.from_refusal(
            refusal, resource_type=kind, resource_name=name
        )
    _take_effect(pending)
    return commands.ConfigsAltered(resources=tuple(answers.values()))


def _set(
    pending: PendingDecision,
    resource: Resource,
    change: commands.ConfigChange,
    *,
    forwarded: bool,
) -> Refusal | None:
    """Record the changes of one resource, all of them or none."""
    refusal = resource_refusal(pending.image, resource)
    if refusal is not None:
        return refusal
    current = pending.configs.get(resource, {})
    values = _values(change, current)
    if isinstance(values, Refusal):
        return values
    for name, value in values.items():
        if value is not None and value != current.get(name):
            refusal = value_refusal(pending.image, resource, name, value)
            if refusal is not None:
                return refusal
    if resource[0] == BROKER_RESOURCE and CORDONED_LOG_DIRS in values:
        refusal = _cordon_refusal(pending, resource[1], current, values, forwarded=forwarded)
        if refusal is not None:
            return refusal
    after = {name: value for name, value in {**current, **values}.items() if value is not None}
    sets_min_isr = MIN_ISR in values
    refusal = conflict(resource, current, after, sets_min_isr=sets_min_isr, has_elr=pending.has_elr)
    if refusal is None:
        _tell_moves(pending, resource, change, values)
        if resource[0] != BROKER_RESOURCE:
            # A broker reads a key store again when its path is set to what it was (KAFKA-14136).
            values = {name: value for name, value in values.items() if value != current.get(name)}
        pending.set_configs(resource, values)
    return refusal


def _cordon_refusal(
    pending: PendingDecision,
    broker: str,
    current: Mapping[str, str],
    values: _Values,
    *,
    forwarded: bool,
) -> Refusal | None:
    """Return the reason to refuse the cordoned directories of a broker, or None (KIP-1066)."""
    if pending.level < LEVEL_CORDONED_DIRECTORIES:
        needed = release_name(LEVEL_CORDONED_DIRECTORIES)
        return Refusal(
            Error.INVALID_CONFIG,
            f"The {CORDONED_LOG_DIRS} configuration value cannot be set because it requires"
            f" metadata.version >= {needed}",
        )
    asked = parts(values[CORDONED_LOG_DIRS] or "")
    registered = pending.image.brokers.get(int(broker)) if broker else None
    if registered is not None and registered.is_embedded:
        if asked in ([], [ALL_LOG_DIRS]):
            return None
        return Refusal(
            Error.INVALID_CONFIG,
            f"broker {broker} is an embedded broker with one log directory: {CORDONED_LOG_DIRS}"
            f" can be {ALL_LOG_DIRS}, which cordons it, or empty",
        )
    known = {*parts(current.get(CORDONED_LOG_DIRS, "")), ALL_LOG_DIRS}
    # Kafka's controllers refuse * too, which needs no knowledge of the directories.
    if forwarded or known.issuperset(asked):
        return None
    return Refusal(
        Error.INVALID_CONFIG,
        f"controllers do not know the log directories of broker {broker}: through them"
        f" {CORDONED_LOG_DIRS} can become {ALL_LOG_DIRS} or lose entries; send any other value"
        " to the broker",
    )


def _tell_moves(
    pending: PendingDecision, resource: Resource, change: commands.ConfigChange, values: _Values
) -> None:
    """Leave what a user sets to the user; a list that a user only amends stays with its moves."""
    held = {
        name: owned.previous
        for name in values
        if (owned := pending.owned((resource, name))).holders
    }
    if not held:
        return
    current = pending.configs.get(resource, {})
    users = {name: value for name, value in {**current, **held}.items() if value is not None}
    without_moves = _values(change, users)
    assert not isinstance(without_moves, Refusal), without_moves
    amended = {op.name for op in change.ops if op.operation in _AMENDING}
    for name in held:
        if name in amended:
            throttle.amend(pending, (resource, name), without_moves[name])
        elif not change.is_whole or values[name] != current.get(name):
            throttle.leave_to_user(pending, (resource, name))


# --- the values of one resource after a change ---------------------------------------------------


def _values(change: commands.ConfigChange, current: Mapping[str, str]) -> _Values | Refusal:
    """Return the values after the change, including unchanged ones, or the reason to refuse it."""
    counts = Counter(op.name for op in change.ops)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        return Refusal(Error.INVALID_REQUEST, f"{', '.join(repeated)} is named more than once")
    kind = change.resource_type
    values: dict[str, str | None] = {}
    for op in change.ops:
        refusal = _op_refusal(kind, op)
        if refusal is not None:
            return refusal
        values[op.name] = _after(kind, current.get(op.name), op)
    if change.is_whole:
        values |= dict.fromkeys(sorted(current.keys() - values.keys()))
    return values


def _op_refusal(kind: int, op: commands.ConfigOp) -> Refusal | None:
    operation = _OPERATIONS.get(op.operation)
    if operation is None:
        known = ", ".join(f"{each.value} ({each.name})" for each in commands.ConfigOperation)
        return Refusal(
            Error.INVALID_REQUEST, f"operation {op.operation} on {op.name} is none of {known}"
        )
    if operation is commands.ConfigOperation.DELETE:
        return None
    if op.value is None:
        return Refusal(Error.INVALID_REQUEST, f"{operation.name} of {op.name} needs a value")
    if operation is not commands.ConfigOperation.SET:
        known_as = definition(kind, op.name)
        if known_as is None or known_as.type is not ConfigType.LIST:
            return Refusal(
                Error.INVALID_CONFIG,
                f"{operation.name} needs a list, and {op.name} is not a list: use SET",
            )
    return None


def _after(kind: int, current: str | None, op: commands.ConfigOp) -> str | None:
    """Return the value after this valid operation."""
    if op.operation == commands.ConfigOperation.DELETE:
        return None
    assert op.value is not None
    if op.operation == commands.ConfigOperation.SET:
        return op.value
    if current is None:
        known_as = definition(kind, op.name)
        current = None if known_as is None else known_as.default
    there, named = parts(current or ""), dict.fromkeys(parts(op.value))
    if op.operation == commands.ConfigOperation.APPEND:
        return ",".join(dict.fromkeys((*there, *named)))
    return ",".join(part for part in there if part not in named)


# --- the effects of a change ---------------------------------------------------------------------


def _take_effect(pending: PendingDecision) -> None:
    configs = [each for each in pending.records if isinstance(each, kafka_records.Config)]
    freed = islice(
        _freed(
            pending,
            _resources(configs, UNCLEAN_ELECTION),
            [*_resources(configs, MIN_ISR), *_resources(configs, COMPLETION_RULE)],
        ),
        PARTITIONS_FREED_BY_CONFIGS_MAX,
    )
    for topic, number in list(freed):
        partition = pending.partition(topic, number)
        assert partition is not None
        election = election_for(pending, topic)
        change_partition(pending, topic, number, partition, election=election)
    if pending.has_elr:
        clear_elr(pending, _resources(configs, MIN_ISR))


def _resources(changed: Iterable[kafka_records.Config], name: str) -> list[Resource]:
    return [(each.resource_type, each.resource_name) for each in changed if each.name == name]


def _freed(
    pending: PendingDecision, unclean: Sequence[Resource], completing: Sequence[Resource]
) -> Iterator[tuple[Topic, int]]:
    """Yield the partitions that the changes may allow to elect a leader or to complete a step."""
    index = pending.image.index
    leaderless = index.leader_of.get(NO_LEADER)
    if leaderless is not None:
        for topic, number in affected_partitions(pending.image, unclean, leaderless):
            if unclean_election_allowed(pending, topic.name):
                yield topic, number
    yield from affected_partitions(pending.image, completing, index.moving)
