"""The text of throttle configurations and their owners in transcripts of moves."""

from collections.abc import Iterator
from typing import Final

from statemachine import commands
from statemachine.image.image import Image
from statemachine.reassignment.move import OwnedKey
from statemachine.reassignment.throttle import LISTS, RATES
from statemachine.records import kafka_records, own_records
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE, Ownership
from tests.statemachine.support.config_requests import APPEND, DELETE, SET, change

SIDES: Final = {
    **{name: f"{name.split('.')[0]} rate" for name in RATES},
    **{name: f"{name.split('.')[0]} list" for name in LISTS},
}
"""The short names of the four configurations."""


def resource(kind: int, name: str) -> str:
    """The name of a resource."""
    return f"{'broker' if kind == BROKER_RESOURCE else 'topic'} {name}"


def told_key(key: OwnedKey) -> str:
    """The configuration by its short name."""
    return f"{SIDES[key[1]]} of {resource(*key[0])}"


def configured(record: kafka_records.Config) -> str:
    """The text of a configuration record."""
    value = "not set" if record.value is None else record.value
    side = SIDES.get(record.name)
    if side is None:
        return f"{record.name} is {value}"
    return f"{resource(record.resource_type, record.resource_name)}: {side} is {value}"


def owned(record: own_records.ConfigOwned) -> str | None:
    """The text of an owner record; None if the configuration beside it says enough."""
    whose = told_key(((record.resource_type, record.resource_name), record.name))
    if record.owned == Ownership.LEFT_TO_USER:
        return f"move {record.move} has lost the {whose} to a user"
    if record.owned == Ownership.OWNED and record.previous is not None:
        return f"move {record.move} takes the {whose}, which was {record.previous}"
    return None


def throttles(image: Image) -> Iterator[str]:
    """The configurations that are set, and their owners."""
    for (kind, name), configs in sorted(image.configs.items()):
        for config, side in SIDES.items():
            value = configs.get(config)
            if value is None:
                continue
            found = image.owned.get(((kind, name), config))
            holders = () if found is None else found.holders
            moves = ", ".join(f"move {each}" for each in holders) or "a user"
            before = "" if found is None or found.previous is None else f", was {found.previous}"
            yield f"{resource(kind, name)}: {side} {value}, set by {moves}{before}"


def wished(words: list[str]) -> commands.ConfigChange:
    """A throttle set by a user: `broker 2 leader rate 500`, `topic t follower list +0:4`."""
    kind, name, side, what, value = words
    (config,) = (each for each, called in SIDES.items() if called == f"{side} {what}")
    target = (BROKER_RESOURCE if kind == "broker" else TOPIC_RESOURCE, name)
    if value == "none":
        return change(target, (config, DELETE, None))
    if value.startswith("+"):
        return change(target, (config, APPEND, value[1:]))
    return change(target, (config, SET, value))
