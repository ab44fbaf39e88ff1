"""The sequential models (`chaos.linearizability.models`), against the state machine itself.

Its answers are right by definition: the history stays linearizable however far the operations
overlap, and whichever answers are lost.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.linearizability import models as told
from chaos.linearizability.checker import Key, Operation, Verdict, judged, verdict
from statemachine import commands
from statemachine.errors import Error
from statemachine.vocabulary import TOPIC_RESOURCE
from tests.statemachine.support.world import World
from tests.support.parameters import at_most_in_quick

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
Said: TypeAlias = tuple[Key, Hashable, Hashable]
"""The key, what was asked, what was answered."""

PARTITION = ("partition", "t", "0")
BROKERS = 5
REPLICAS = st.permutations(range(1, BROKERS + 1)).flatmap(
    lambda ids: st.integers(1, 3).map(lambda count: tuple(ids[:count]))
)


def on_a_partition(draw: Draw, world: World) -> Said | None:
    """Moves, cancels and listings; or the leader says who is in sync, which no client sees."""
    match draw(st.sampled_from(["reassign", "cancel", "list", "list", "sync", "sync"])):
        case "reassign":
            replicas = draw(REPLICAS)
            error = world.reassign(*replicas).error
            answer = told.Refused(error.name) if error.code else told.Accepted()
            return PARTITION, told.Reassign(replicas), answer
        case "cancel":
            answered = world.cancel()
            if answered.error is Error.NO_REASSIGNMENT_IN_PROGRESS:
                return PARTITION, told.Cancel(), told.NothingUnderWay()
            if answered.error.code:
                return PARTITION, told.Cancel(), told.Refused(answered.error.name)
            return PARTITION, told.Cancel(), told.Cancelled(answered.replicas)
        case "list":
            found = world.partition()
            is_listed = bool(found.adding or found.removing or found.target)
            listed = told.UnderWay(found.target) if is_listed else told.NothingUnderWay()
            return PARTITION, told.List(), listed
        case _:
            found = world.partition()
            others = draw(st.lists(st.sampled_from(found.replicas), unique=True))
            world.sync(found.leader, *(each for each in others if each != found.leader))
            return None


def on_a_topic(draw: Draw, world: World) -> Said | None:
    """Two names, created, deleted and looked for."""
    name = draw(st.sampled_from("ab"))
    key = ("topic", name)
    match draw(st.sampled_from(["create", "delete", "describe"])):
        case "create":
            topic_id = UUID(int=world.image.end_offset << 64 | ord(name))
            new = commands.NewTopic(name=name, topic_id=topic_id, partition_count=1)
            asked = commands.CreateTopics(topics=(new,), default_replication_factor=1)
            (created,) = _parts(world.ask(asked), "topics")
            if created.error is Error.TOPIC_ALREADY_EXISTS:
                return key, told.Create(), told.Exists(None)
            assert created.error is Error.NONE, created
            return key, told.Create(), told.Created(str(created.topic_id))
        case "delete":
            (deleted,) = _parts(world.ask(commands.DeleteTopics(topics=(name,))), "topics")
            answer = told.Absent() if deleted.error.code else told.Deleted()
            return key, told.Delete(), answer
        case _:
            found = world.image.topic_ids.get(name)
            return key, told.Describe(), told.Exists(str(found)) if found else told.Absent()


def on_a_config(draw: Draw, world: World) -> Said | None:
    """One configuration of the topic: set, removed and read."""
    name = "min.insync.replicas"
    key = ("config", "t", name)
    if draw(st.booleans()):
        configs = world.image.configs.get((TOPIC_RESOURCE, "t"), {})
        return key, told.Get(), told.Value(configs.get(name))
    value = draw(st.sampled_from([None, "1", "2", "-7"]))
    operation = 1 if value is None else 0
    change = commands.ConfigChange(
        resource_type=TOPIC_RESOURCE,
        resource_name="t",
        ops=(commands.ConfigOp(name=name, operation=operation, value=value),),
    )
    asked = commands.IncrementalAlterConfigs(changes=(change,), validate_only=False)
    (altered,) = _parts(world.ask(asked), "resources")
    answer = told.Refused(altered.error.name) if altered.error.code else told.Done()
    return key, told.Set(value), answer


def _parts(decision: commands.Decision, name: str) -> Any:
    return getattr(decision.answer, name)


def a_history(draw: Draw, length: int) -> list[Operation]:
    """Events at the times 10, 20, ..., as a history with wider times and without some answers."""
    world = World(broker_count=BROKERS)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    # The model knows nothing of who had it before.
    history = []
    for moment in range(10, 10 * length, 10):
        said = draw(st.sampled_from([on_a_partition, on_a_partition, on_a_topic, on_a_config]))(
            draw, world
        )
        if said is None:
            continue
        key, asked, answer = said
        is_lost = draw(st.sampled_from([False] * 7 + [True]))
        returned = moment + draw(st.integers(0, 45))
        history.append(
            Operation(
                key=key,
                asked=asked,
                called=moment - draw(st.integers(0, 45)),
                returned=None if is_lost else returned,
                answer=None if is_lost else answer,
            )
        )
    return history


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(40))
@given(data=st.data())
def test_sequential_answers_of_the_state_machine_are_linearizable(data: st.DataObject) -> None:
    findings = judged(a_history(data.draw, length=30), told.model_of)
    assert verdict(findings) is Verdict.YES, "\n".join(map(str, findings))
