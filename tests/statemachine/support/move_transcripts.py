"""The text of answers, records, partitions and progress in transcripts of moves."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from statemachine import commands
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.move_queries import summaries
from statemachine.reassignment.progress import progress_of
from statemachine.records import kafka_records, own_records
from statemachine.slices import whole
from statemachine.vocabulary import RECOVERED, MoveKind, MoveOutcome, MoveState
from tests.statemachine.support.throttle_transcripts import configured, owned, told_key

SHOWN = ("replicas", "isr", "elr", "last_known_elr", "adding", "removing", "target", "leader")


def answered(answer: commands.Answer) -> list[str]:
    """The answer, part by part, where there is one to be shown."""
    match answer:
        case commands.MoveStarted():
            return list(_started(answer))
        case commands.MovesAltered():
            return [_moved(each) for each in answer.moves] or ["accepted"]
        case commands.MovesCancelled():
            named = [_moved(each) for each in answer.moves]
            return named + [_cancelled(each) for each in answer.partitions]
        case commands.ConfigsAltered():
            return [verdict(each.error, each.message) for each in answer.resources]
        case commands.TopicsDeleted() | commands.PartitionsCreated():
            return [verdict(each.error, each.message) for each in answer.topics]
        case commands.BrokersCordoned():
            return [verdict(each.error, each.message) for each in answer.brokers]
        case commands.Done():
            return [verdict(answer.error, answer.message)]
        case _:
            if isinstance(answer, commands.Result) and answer.error is not Error.NONE:
                return [verdict(answer.error, answer.message)]
            return [verdict(part.error, part.message) for part in getattr(answer, "partitions", ())]


def verdict(error: Error, message: str) -> str:
    """The result for one part of a request."""
    if error is Error.NONE:
        return "accepted"
    said = f"{error.name} ({message})"
    # This one tells the leader that has asked what its request has come to.
    return f"accepted: {said}" if error is Error.NEW_LEADER_ELECTED else f"refused: {said}"


def _started(answer: commands.MoveStarted) -> Iterator[str]:
    if answer.error is not Error.NONE:
        yield verdict(answer.error, answer.message)
    elif answer.foreseen:
        yield f"no move begins; of {answer.accepted} partition(s) it would be:"
        yield from (
            f"{each.topic}-{each.partition} has {listed(each.replicas)}" for each in answer.foreseen
        )
    elif not answer.accepted:
        yield f"as under way already: move {answer.move_id}" if answer.move_id else "no move begins"
    else:
        yield f"move {answer.move_id} begins, of {answer.accepted} partition(s)"
    for each in answer.refused:
        yield f"{each.topic}-{each.partition} {verdict(each.error, each.message)}"


def _moved(each: commands.MoveAltered) -> str:
    return f"move {each.move_id} {verdict(each.error, each.message)}"


def _cancelled(each: commands.ReassignmentAltered) -> str:
    name = each.topic if each.partition < 0 else f"{each.topic}-{each.partition}"
    if each.error is Error.NONE:
        return f"{name} now has {listed(each.replicas)}"
    return f"{name} {verdict(each.error, each.message)}"


def recorded(record: kafka_records.Record, *, named: bool) -> str | None:
    """The text of a record, or None if another one beside it says enough."""
    match record:
        case kafka_records.PartitionChange():
            said = changed(record)
            return f"t-{record.partition_id}: {said}" if named else said
        case kafka_records.Partition():
            return f"t-{record.partition_id} is created on {listed(record.replicas)}"
        case kafka_records.Config():
            return configured(record)
        case kafka_records.RemoveTopic():
            return "topic t is deleted"
        case kafka_records.RegisterBroker():
            return f"broker {record.broker_id} registers with epoch {record.broker_epoch}"
        case kafka_records.UnregisterBroker():
            return f"broker {record.broker_id} is not registered any more"
        case kafka_records.BrokerRegistrationChange():
            return f"broker {record.broker_id} is {_state(record)}"
        case _:
            return _of_moves(record)


def _state(record: kafka_records.BrokerRegistrationChange) -> str:
    if record.cordoned or record.leaving:
        words = {1: ["cordoned"], -1: ["cordoned no more"], 0: []}[record.cordoned]
        words += {1: ["to be unregistered"], -1: ["to stay"], 0: []}[record.leaving]
        return ", and ".join(words)
    if record.fenced:
        return "fenced" if record.fenced > 0 else "unfenced"
    return "stopping"


def _of_moves(record: kafka_records.Record) -> str | None:
    match record:
        case own_records.MoveBegun():
            kind = "" if record.kind == MoveKind.REASSIGN else f", a {MoveKind(record.kind).name}"
            who = f", asked for by {record.who}" if record.who else ""
            rate = record.throttle_bytes_per_s
            throttled = f", at {rate} bytes/s" if rate else ""
            return f"move {record.id} begins{kind.lower()}{who}{throttled}"
        case own_records.MovePart():
            return None
        case own_records.MoveChanged():
            return f"move {record.id} {_standing(record)}"
        case own_records.MoveEnded():
            return f"move {record.id} ends: {MoveOutcome(record.outcome).name.lower()}"
        case own_records.MovesPaused():
            how = "go on" if not record.paused else "are paused" + _after(record)
            return f"all moves {how}, says {record.who}"
        case own_records.ConfigOwned():
            return owned(record)
        case own_records.Remembered():
            return f"the answer to key {record.key}"
        case _:
            return f"{type(record).__name__}"


def _standing(record: own_records.MoveChanged) -> str:
    if record.state == MoveState.PAUSED:
        return f"is paused{_after(record)} by {record.who}"
    if record.state == MoveState.PAUSED_BY_ITSELF:
        return f"rests by itself: {record.detail}"
    if record.throttle_bytes_per_s is not None:
        rate = record.throttle_bytes_per_s
        return f"is throttled to {rate} bytes/s" if rate else "is throttled no more"
    if record.priority is not None:
        return f"has priority {record.priority}"
    return "goes on"


def _after(record: own_records.MoveChanged | own_records.MovesPaused) -> str:
    return "" if record.stops_copying else " after the steps under way"


def changed(change: kafka_records.PartitionChange) -> str:
    """The text of a record, without unchanged fields."""
    said = [(name, getattr(change, name)) for name in SHOWN]
    parts = [
        f"{name.replace('_', ' ')} {listed(value)}" for name, value in said if value is not None
    ]
    if change.recovery is not None:
        parts.append("recovered" if change.recovery == RECOVERED else "recovering")
    return ", ".join(parts)


def told_of(partition: PartitionRegistration, number: int = 0) -> str:
    """The partition, in the order in which one asks about it."""
    parts = [f"replicas {listed(partition.replicas)}", f"isr {listed(partition.isr)}"]
    parts += [
        f"{name.replace('_', ' ')} {listed(getattr(partition, name))}"
        for name in ("elr", "last_known_elr", "adding", "removing")
        if getattr(partition, name)
    ]
    if partition.target and partition.target != partition.aimed:
        parts.append(f"on its way to {listed(partition.target)}")
    leader = "nobody" if partition.leader < 0 else str(partition.leader)
    parts[-1] += f", led by {leader}"
    if partition.recovery != RECOVERED:
        parts.append("recovering")
    epochs = f"leader epoch {partition.leader_epoch}, partition epoch {partition.partition_epoch}"
    return f"t-{number}: {', '.join(parts)} ({epochs})"


def standings(image: Image, now_ms: int) -> Iterator[str]:
    """The progress of each partition that is being reassigned."""
    for topic, number in image.index.partitions(image.index.moving):
        found = progress_of(image, topic, number)
        assert found is not None
        why = "" if found.reason is None else f": {found.reason.value}, {found.detail}"
        since = f", for {(now_ms - found.since_ms) // 1000} s" if found.since_ms else ""
        step = f"step {found.step} of {found.of}"
        yield f"{topic.name}-{number}: {step}, {found.state.value}{since}{why}"


def moves_of(image: Image) -> Iterator[str]:
    """Every move that is listed, and where its partitions are."""
    for each in whole(summaries(image, sorted(image.moves))):
        outcome = each.move.outcome
        counts = {"waiting": each.waiting, "stepping": each.stepping, "completed": each.completed}
        counts |= asdict(each.move.left)
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        state = MoveState(each.move.state).name.lower().replace("_", " ")
        ended = f"ended: {outcome.name.lower()}" if outcome is not None else state
        lost = "".join(f"; {told_key(key)} is a user's" for key in each.lost)
        yield f"move {each.move.id} ({ended}): {told}{lost}"


def listed(value: Any) -> str:
    """Ids as one would say them."""
    if not isinstance(value, tuple):
        return "nobody" if value == -1 else str(value)
    return " ".join(map(str, value)) or "none"
