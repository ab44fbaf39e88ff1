"""Requests to change configurations, for tests."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from statemachine import commands
from statemachine.commands import (
    ConfigChange,
    ConfigOp,
    ConfigOperation,
    IncrementalAlterConfigs,
)
from statemachine.errors import Error
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.statemachine.support.world import World

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
TOPIC: Final = (TOPIC_RESOURCE, "t")
ALL_BROKERS: Final = (BROKER_RESOURCE, "")


def change(resource: tuple[int, str], *ops: tuple[str, int, str | None]) -> ConfigChange:
    """Operations on one resource."""
    return ConfigChange(
        resource_type=resource[0],
        resource_name=resource[1],
        ops=tuple(
            ConfigOp(name=name, operation=operation, value=value) for name, operation, value in ops
        ),
    )


def replacement(resource: tuple[int, str], configs: Mapping[str, str | None]) -> ConfigChange:
    """All configurations of one resource."""
    ops = [(name, SET, value) for name, value in configs.items()]
    return replace(change(resource, *ops), is_whole=True)


def errors(decision: commands.Decision) -> list[Error]:
    """The error of each resource."""
    assert isinstance(decision.answer, commands.ConfigsAltered)
    return [each.error for each in decision.answer.resources]


def ask(world: World, *changes: ConfigChange, validate_only: bool = False) -> commands.Decision:
    """Decide and replay a change that must not be refused."""
    decision = world.ask(IncrementalAlterConfigs(changes=changes, validate_only=validate_only))
    assert set(errors(decision)) == {Error.NONE}, decision.answer
    return decision


def refused(world: World, resource: tuple[int, str], *ops: tuple[str, int, str | None]) -> str:
    """The message of a change that is refused, and leaves no trace."""
    decision = world.ask(IncrementalAlterConfigs(changes=(change(resource, *ops),)))
    assert isinstance(decision.answer, commands.ConfigsAltered)
    (answer,) = decision.answer.resources
    assert answer.error is not Error.NONE
    assert decision.records == ()
    return f"{answer.error.name}: {answer.message}"


def a_topic(world: World, replicas: tuple[int, ...] = (1, 2)) -> None:
    world.given(replicas=replicas, isr=replicas, leader=replicas[0])
