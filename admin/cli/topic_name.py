"""How a command is told which topic: `TOPIC`, or `--topic TOPIC` as Kafka's scripts have it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click


def topic_name(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the argument `topic`, from exactly one of the two places."""

    @click.argument("topic", required=False)
    @click.option("--topic", "named", metavar="TOPIC", help="The topic, in place of the argument.")
    @wraps(command)
    def with_topic(*args: Any, topic: str | None, named: str | None, **kwargs: Any) -> None:
        if topic is not None and named is not None:
            raise click.UsageError(f"the topic is named twice: {topic}, and --topic {named}")
        chosen = topic if named is None else named
        if not chosen:
            raise click.UsageError("name the topic: TOPIC, or --topic TOPIC")
        command(*args, topic=chosen, **kwargs)

    return with_topic
