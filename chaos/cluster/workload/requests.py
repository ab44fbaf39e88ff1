"""Requests of clients to controllers, and the meaning of each answer for a client history.

A request is a command or a query; an answer of the product becomes one of
`chaos.linearizability.models`. L7: every answer is one that the request allows.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple
from uuid import UUID

from chaos.cluster import controller_apis
from chaos.cluster.process import ControllerProcess
from chaos.cluster.rpc import Respond, Serve, Server
from chaos.linearizability import models
from chaos.linearizability.checker import Key
from chaos.violation import Violation
from controller.ports import Unavailable
from statemachine import commands
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.reassignment.copies import move_copies
from statemachine.reassignment.move_queries import reassigned, summary_of
from statemachine.slices import whole
from statemachine.vocabulary import TOPIC_RESOURCE, MoveState, Replicas

MOVE_ERRORS: Final = frozenset(
    {
        Error.NONE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.INVALID_REPLICA_ASSIGNMENT,
        Error.NO_REASSIGNMENT_IN_PROGRESS,
    }
)
TOPIC_ERRORS: Final = frozenset(
    {
        Error.NONE,
        Error.TOPIC_ALREADY_EXISTS,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.INVALID_REPLICATION_FACTOR,
    }
)


class Request(NamedTuple):
    """One request, and the interpretation of its answer."""

    key: Key | None
    """The key of its history; None if the request is in no history."""
    operation: Hashable
    serve: Serve
    understood: Callable[[Any], Hashable]
    may_repeat: bool = False
    """True if it may be repeated although it may have been carried out."""
    idempotency_key: str = ""


def require_of(answer: Any, kind: type, error: Error, allowed: frozenset[Error]) -> None:
    """L7: the answer has this type, and one of these errors."""
    if not isinstance(answer, kind) or error not in allowed:
        raise Violation("L7", f"{answer}, but only {sorted(e.name for e in allowed)} are allowed")


def require_not_too_large(unavailable: Unavailable) -> None:
    """L7: no request here is too large."""
    if unavailable is Unavailable.TOO_LARGE:
        raise Violation("L7", f"a request is too large: {unavailable}")


def essence(answer: Any) -> Hashable:
    """The part of an answer that a repeated request with an idempotency key must repeat.

    The current state of partitions is not part of it.
    """
    match answer:
        case commands.MoveStarted():
            return answer.move_id, answer.error, answer.accepted, answer.refused_count
        case commands.ReassignmentsAltered():
            return answer.move_id, tuple(each.error for each in answer.partitions)
        case commands.MovesAltered():
            return tuple((each.move_id, each.error) for each in answer.moves)
        case commands.MovesCancelled():
            return tuple((each.topic, each.partition, each.error) for each in answer.partitions)
        case _:
            raise Violation("L7", f"{answer} is not an answer to a request with a key")


# --- reassignments ---------------------------------------------------------------------------


def reassign(
    topic: str, number: int, replicas: Replicas | None, *, who: str, key: str = "", rate: int = 0
) -> Request:
    """Reassign a partition at a copy rate; None cancels the reassignment."""
    part = commands.Reassignment(topic=topic, partition=number, replicas=replicas)
    command = commands.AlterReassignments(reassignments=(part,), who=who, throttle_bytes_per_s=rate)
    operation = models.Cancel() if replicas is None else models.Reassign(replicas)

    def understood(answer: Any) -> Hashable:
        if isinstance(answer, commands.Done):
            raise Violation("L7", f"a new key is refused: {answer.message}")
        require_of(answer, commands.ReassignmentsAltered, answer.partitions[0].error, MOVE_ERRORS)
        (found,) = answer.partitions
        if found.error is Error.NO_REASSIGNMENT_IN_PROGRESS:
            return models.NothingUnderWay()
        if found.error is not Error.NONE:
            return models.Refused(found.error.name)
        if replicas is not None:
            return models.Accepted()
        # A repeated answer shows the current replicas, not those right after the cancel.
        return None if answer.repeated else models.Cancelled(found.replicas)

    serve = controller_apis.command(_keyed(command, key) if key else command)
    return Request(("partition", topic, str(number)), operation, serve, understood, bool(key), key)


def list_partition(topic: str, number: int) -> Request:
    """List the reassignment of a partition."""

    def read(image: Image) -> Hashable:
        (found,) = whole(reassigned(image, ((topic, number),)))
        return models.NothingUnderWay() if found is None else models.UnderWay(found[2].final)

    return _query(("partition", topic, str(number)), models.List(), read)


# --- topics ----------------------------------------------------------------------------------


def create(
    name: str,
    topic_id: UUID,
    *,
    partitions: int,
    factor: int,
    configs: tuple[tuple[str, str | None], ...] = (),
) -> Request:
    """Create a topic."""
    new = commands.NewTopic(
        name=name,
        topic_id=topic_id,
        partition_count=partitions,
        replication_factor=factor,
        configs=configs,
    )

    def understood(answer: Any) -> Hashable:
        require_of(answer, commands.TopicsCreated, answer.topics[0].error, TOPIC_ERRORS)
        match answer.topics[0].error:
            case Error.NONE:
                return models.Created(topic_id.hex)
            case Error.TOPIC_ALREADY_EXISTS:
                return models.Exists(None)
            case error:
                return models.Refused(error.name)

    serve = controller_apis.command(commands.CreateTopics(topics=(new,)))
    return Request(("topic", name), models.Create(), serve, understood)


def delete(name: str) -> Request:
    """Delete a topic."""

    def understood(answer: Any) -> Hashable:
        require_of(answer, commands.TopicsDeleted, answer.topics[0].error, TOPIC_ERRORS)
        is_absent = answer.topics[0].error is Error.UNKNOWN_TOPIC_OR_PARTITION
        return models.Absent() if is_absent else models.Deleted()

    serve = controller_apis.command(commands.DeleteTopics(topics=(name,)))
    return Request(("topic", name), models.Delete(), serve, understood)


def describe(name: str) -> Request:
    """Look up a topic by name."""

    def read(image: Image) -> Hashable:
        found = image.topic_ids.get(name)
        return models.Absent() if found is None else models.Exists(found.hex)

    return _query(("topic", name), models.Describe(), read)


# --- configurations --------------------------------------------------------------------------


def configure(kind: int, resource: str, name: str, value: str | None) -> Request:
    """Set a configuration value; None deletes it."""
    operation = commands.ConfigOperation.DELETE if value is None else commands.ConfigOperation.SET
    op = commands.ConfigOp(name=name, operation=operation, value=value)
    change = commands.ConfigChange(resource_type=kind, resource_name=resource, ops=(op,))
    allowed = frozenset({Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_CONFIG})

    def understood(answer: Any) -> Hashable:
        require_of(answer, commands.ConfigsAltered, answer.resources[0].error, allowed)
        error = answer.resources[0].error
        return models.Done() if error is Error.NONE else models.Refused(error.name)

    serve = controller_apis.command(commands.IncrementalAlterConfigs(changes=(change,)))
    return Request(("config", resource, name), models.Set(value), serve, understood)


def config_of(topic: str, name: str) -> Request:
    """Read a configuration value."""

    def read(image: Image) -> Hashable:
        return models.Value(image.configs.get((TOPIC_RESOURCE, topic), {}).get(name))

    return _query(("config", topic, name), models.Get(), read)


# --- moves -----------------------------------------------------------------------------------


def begin(
    parts: tuple[tuple[str, int, Replicas], ...],
    began: Callable[[int], None],
    *,
    who: str,
    key: str,
    rate: int = 0,
) -> Request:
    """Begin a move of these partitions; `began` gets its id, 0 if nothing had to change."""
    reassignments = tuple(
        commands.Reassignment(topic=topic, partition=number, replicas=replicas)
        for topic, number, replicas in parts
    )
    command = commands.BeginMove(reassignments=reassignments, who=who, throttle_bytes_per_s=rate)
    allowed = frozenset({Error.NONE, Error.INVALID_REQUEST, Error.INVALID_REPLICA_ASSIGNMENT})

    def understood(answer: Any) -> Hashable:
        require_of(answer, commands.MoveStarted, answer.error, allowed)
        if answer.move_id:
            began(answer.move_id)
        return models.Done()

    return Request(
        None, parts, controller_apis.command(_keyed(command, key)), understood, True, key
    )


def pause(move_id: int, *, who: str, key: str, after_step: bool = False) -> Request:
    """Pause the move, at once or after the steps under way."""
    command = commands.PauseMoves(moves=(move_id,), who=who, after_step=after_step)
    return _altered(move_id, models.Pause(), command, key)


def resume(move_id: int, *, who: str, key: str) -> Request:
    """Resume the move."""
    command = commands.PauseMoves(moves=(move_id,), who=who, paused=False)
    return _altered(move_id, models.Resume(), command, key)


def set_priority(move_id: int, priority: int, *, key: str) -> Request:
    """Set the priority of the move."""
    altered = commands.AlterMove(move_id=move_id, priority=priority)
    return _altered(move_id, None, altered, key)._replace(key=None)


def throttle(move_id: int, rate: int, *, key: str) -> Request:
    """Limit the bytes per second that the move copies; 0 removes the limit."""
    altered = commands.AlterMove(move_id=move_id, throttle_bytes_per_s=rate)
    return _altered(move_id, None, altered, key)._replace(key=None)


def bytes_left(move_id: int) -> Request:
    """Read how much the move has left to copy."""

    def serve(process: Server, respond: Respond) -> None:
        assert isinstance(process, ControllerProcess)
        copies = process.controller.reported_copies()
        process.controller.query_long(lambda image: move_copies(image, move_id, copies), respond)

    def understood(left: Any) -> Hashable:
        if min(left.bytes_left, left.bytes_per_s, left.known, left.unknown) < 0:
            raise Violation("L7", f"the move {move_id} has {left} left to copy")
        return models.Done()

    return Request(None, ("left of", move_id), serve, understood, may_repeat=True)


def cancel_move(move_id: int, *, key: str) -> Request:
    """Cancel the move; each partition returns to its state before the step under way."""

    def understood(answer: Any) -> Hashable:
        require_of(answer, commands.MovesCancelled, Error.NONE, frozenset({Error.NONE}))
        return models.Done()

    command = commands.CancelMoves(moves=(move_id,))
    return Request(
        None, move_id, controller_apis.command(_keyed(command, key)), understood, True, key
    )


def describe_move(move_id: int) -> Request:
    """Read the state of a move."""

    def read(image: Image) -> Hashable:
        found = whole(summary_of(image, move_id))
        if found is None or found.move.outcome is not None:
            return models.Moving(models.ENDED)
        is_paused = found.move.state == MoveState.PAUSED
        return models.Moving(models.PAUSED if is_paused else models.RUNNING)

    return _query(("move", str(move_id)), models.Look(), read)


def _altered(
    move_id: int, operation: Hashable, command: commands.KeyedCommand, key: str
) -> Request:
    allowed = frozenset({Error.NONE, Error.INVALID_REQUEST})

    def understood(answer: Any) -> Hashable:
        require_of(answer, commands.MovesAltered, answer.moves[0].error, allowed)
        (found,) = answer.moves
        if found.error is Error.NONE:
            return models.Done()
        has_ended = "has ended" in found.message
        return models.Over() if has_ended else models.Refused(found.message)

    serve = controller_apis.command(_keyed(command, key))
    return Request(("move", str(move_id)), operation, serve, understood, True, key)


def _keyed(command: commands.KeyedCommand, key: str) -> commands.IdempotentCommand:
    return commands.IdempotentCommand(key=key, fingerprint=key.encode()[:64], command=command)


def _query(key: Key, operation: Hashable, read: Callable[[Image], Hashable]) -> Request:
    def serve(process: Server, respond: Respond) -> None:
        assert isinstance(process, ControllerProcess)
        process.controller.query(read, respond)

    def understood(answer: Any) -> Hashable:
        found: Hashable = answer
        return found

    return Request(key, operation, serve, understood, may_repeat=True)
