"""The questions about configurations as Kafka's requests, and their answers as our values.

As `admin/client/topics.py`: each function makes a `Question` or reads an answer; nothing here asks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from admin.client.asking import Question, whole
from admin.client.channels import Form
from quorum.protocol.apis import ApiKey

TOPIC: Final = 2
BROKER: Final = 4
ALL_BROKERS: Final = ""
"""Names what all brokers have in common."""

_SET: Final = 0
_DELETE: Final = 1
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "file of the broker",
    5: "default",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfo:
    """One configuration in force, and who says so."""

    name: str
    value: str | None
    """None for what must not be shown."""
    source: str


def describe_configs(kind: int, name: str) -> Question:
    """Describe the configurations of a topic or a broker (KIP-226)."""

    def fill(form: Form) -> Any:
        resource = form.part(
            "DescribeConfigsResource",
            resource_type=kind,
            resource_name=name,
            configuration_keys=None,
        )
        return form.request(
            resources=(resource,), include_synonyms=False, include_documentation=False
        )

    return Question(
        api_key=ApiKey.DESCRIBE_CONFIGS,
        fill=fill,
        judge=lambda response: whole(response.results[0]),
        failing=f"the configurations of {_named(kind, name)} cannot be described",
    )


def read_configs(response: Any) -> tuple[ConfigInfo, ...]:
    """The configurations of the one resource that was asked for, by name."""
    found = (
        ConfigInfo(
            name=each.name,
            value=each.value,
            source=_SOURCES.get(each.config_source, f"source {each.config_source}"),
        )
        for each in response.results[0].configs
    )
    return tuple(sorted(found, key=lambda each: each.name))


def alter_configs(
    kind: int, name: str, values: Mapping[str, str], removed: Collection[str]
) -> Question:
    """Some configurations get these values, others are removed; the rest stays (KIP-339)."""

    def fill(form: Form) -> Any:
        ops: list[tuple[str, int, str | None]] = [
            (each, _SET, value) for each, value in sorted(values.items())
        ]
        ops += [(each, _DELETE, None) for each in sorted(removed)]
        resource = form.part(
            "AlterConfigsResource",
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                form.part("AlterableConfig", name=each, config_operation=operation, value=value)
                for each, operation, value in ops
            ),
        )
        return form.request(resources=(resource,), validate_only=False)

    return Question(
        api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        fill=fill,
        judge=lambda response: whole(response.responses[0]),
        failing=f"the configurations of {_named(kind, name)} cannot be changed",
    )


def _named(kind: int, name: str) -> str:
    if kind == TOPIC:
        return f"topic {name}"
    return "all brokers" if name == ALL_BROKERS else f"broker {name}"
