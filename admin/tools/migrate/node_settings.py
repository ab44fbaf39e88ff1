"""The settings of our controllers, as far as those of Kafka's tell them. Pure functions.

A controller of Kafka describes its settings (KIP-919), but hides passwords, and everything that its
authorizer alone knows, such as `super.users`. What it shows is taken over where our controllers
have the same setting; the operator adds the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from admin.setting_kinds import PATH, Role
from admin.settings import InvalidSetting, of_listener, setting_named
from admin.tools.migrate.state import Look
from quorum.persistent_state import LISTENER_NAME
from quorum.transport.security.credentials import ScramMechanism

HERE: Final = "DATA"
"""Stands for a folder that the operator chooses."""
_OWN: Final = frozenset(
    {
        *("process.roles", "node.id", "cluster.id", "listeners", "advertised.listeners"),
        *("controller.listener.names", "log.dir", "bootstrap.servers"),
    }
)
"""The settings that each node has for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """The settings of Kafka's controllers, as ours would have them."""

    values: Mapping[str, str]
    to_add: tuple[str, ...]
    """Names of those that are secret or differ from machine to machine, and are set there."""
    unsupported: Mapping[str, str]
    """By name: the reason why ours cannot have what is set there."""


def taken_over(kafkas: Mapping[str, str | None], listener: str) -> TakenOver:
    """Return what our controllers take over of Kafka's settings; None stands for a hidden value.

    `listener` is the name of the listener of controllers: settings of others are left out.
    """
    values, to_add, unsupported = {}, [], {}
    # Kafka's listeners have a login module for each mechanism, ours need none for SCRAM; only a
    # node that logs in by it has one.
    idle = {
        of_listener(listener, "sasl.jaas.config", each.mechanism)
        for each in ScramMechanism
        if each.mechanism != kafkas.get("sasl.mechanism.controller.protocol")
    }
    for name, value in sorted(kafkas.items()):
        setting = setting_named(name)
        is_of_other = name.startswith("listener.name.") and not name.startswith(
            of_listener(listener, "")
        )
        if (
            setting is None
            or is_of_other
            or name in _OWN
            or not setting.applies_to(Role.CONTROLLER)
        ):
            continue
        if name in idle:
            continue
        if value is None or setting.kind is PATH:
            to_add.append(name)
            continue
        try:
            setting.parse(value)
        except InvalidSetting as error:
            unsupported[name] = str(error)
        else:
            values[name] = value
    return TakenOver(values=values, to_add=tuple(to_add), unsupported=unsupported)


def listener_of(look: Look) -> str:
    """Return the name of the listener of controllers."""
    names = {each.listener for each in look.quorum.voters}
    return min(names) if names else LISTENER_NAME


def settings_of(look: Look, id: int, folder: str = HERE) -> dict[str, str]:
    """The settings with which one of our controllers joins the cluster as an observer."""
    quorum, name = look.quorum, listener_of(look)
    servers = [each.address for each in quorum.voters if each.address is not None]
    servers += [address for other, address in sorted(look.wanted.items()) if other != id]
    return {
        "process.roles": "controller",
        "node.id": str(id),
        "cluster.id": str(quorum.cluster_id),
        "controller.listener.names": name,
        "listeners": f"{name}://{look.wanted[id]}",
        "log.dir": folder,
        "bootstrap.servers": ",".join(map(str, dict.fromkeys(servers))),
        **taken_over(look.kafka_settings, name).values,
    }


def lines_to_add(look: Look) -> list[str]:
    """The end of the settings of one of our controllers: comments that name what to add."""
    to_add = taken_over(look.kafka_settings, listener_of(look)).to_add
    if not to_add:
        return []
    return [
        "# To be added; docs/migration.md, Secured clusters:",
        *(f"# {name}=" for name in to_add),
    ]
