"""The texts of a migration: tables, findings, settings to copy. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from admin.cli.output import Columns, columns
from admin.settings import setting_named
from admin.tools.migrate.findings import is_blocked, release_of
from admin.tools.migrate.node_settings import lines_to_add, settings_of
from admin.tools.migrate.planner import next_of_change
from admin.tools.migrate.state import (
    BrokerSettings,
    BrokerState,
    Contents,
    Controller,
    Done,
    Finding,
    Kind,
    Look,
    Probe,
    QuorumState,
    Wait,
    Weight,
)
from admin.units import show_duration, show_size
from quorum.transport.address import Address
from statemachine.features.features import KRAFT_VERSION, RELEASES
from statemachine.vocabulary import METADATA_VERSION


def plan_text(look: Look, found: Sequence[Finding], *, command: str) -> str:
    """The whole plan."""
    return "\n".join(
        [
            summary(look.quorum, look.contents),
            "",
            controllers_table(look.quorum, look.probes),
            "",
            *_brokers(look.contents.brokers),
            *(line for each in found for line in _finding(each)),
            _verdict(look, list(found), command),
        ]
    )


def summary(quorum: QuorumState, contents: Contents) -> str:
    """One line about the cluster, and one about its contents."""
    level = contents.levels.get(METADATA_VERSION, 0)
    lines = [
        f"Cluster {quorum.cluster_id}: metadata.version {level} "
        f"({RELEASES.get(level, 'not known here')}), kraft.version "
        f"{contents.levels.get(KRAFT_VERSION, 0)}"
    ]
    if contents.log_bytes:
        lines.append(
            f"Its metadata, {show_size(contents.log_bytes)}: {contents.topics} topics with "
            f"{contents.partitions} partitions, {contents.acls} ACLs, "
            f"{contents.scram_credentials} SCRAM credentials, "
            f"{contents.delegation_tokens} delegation tokens"
        )
    return "\n".join(lines)


def controllers_table(quorum: QuorumState, probes: Mapping[int, Probe]) -> str:
    """A table of the controllers."""

    def release(each: Controller) -> str:
        probe = probes.get(each.id)
        if probe is None or probe.kind is None:
            lives = each.member.is_reachable and probe is not None and probe.address != each.address
            # Nobody was asked at its own address: --controllers has another one for its id.
            return str(each.kind) if lives else "does not answer"
        return str(each.kind) if probe.kind is Kind.OURS else f"Kafka {release_of(probe.levels)}"

    cells: Columns[Controller] = {
        "CONTROLLER": lambda each: each.id,
        "RUNS": release,
        "ADDRESS": lambda each: each.address or "-",
        "ROLE": _role,
        "LAG": lambda each: "-" if each.member.lag is None else each.member.lag,
        "LAST FETCH": _fetched,
    }
    return columns(quorum.controllers, cells)


def _role(controller: Controller) -> str:
    if controller.member.is_leader:
        return "leader"
    return "voter" if controller.member.is_voter else "observer"


def _fetched(controller: Controller) -> str:
    ago_ms = controller.member.fetched_ms_ago
    if controller.member.is_leader or ago_ms is None:
        return "-"
    return f"{show_duration(ago_ms)} ago"


def _brokers(brokers: Sequence[BrokerState]) -> list[str]:
    if not brokers:
        return []
    cells: Columns[BrokerState] = {
        "BROKER": lambda each: each.id,
        "RUNS": lambda each: f"Kafka {release_of(each.levels)}" if each.levels else "-",
        "ADDRESS": lambda each: ",".join(map(str, each.addresses)) or "-",
        "STATE": lambda each: "fenced" if each.fenced else "alive",
    }
    return [columns(brokers, cells), ""]


def _finding(found: Finding) -> Iterator[str]:
    title = "IN THE WAY" if found.weight is Weight.BLOCKS else "NOTE"
    yield f"{title}: {found.sentence}."
    yield f"  {found.remedy}."
    yield ""


def _verdict(look: Look, found: list[Finding], command: str) -> str:
    if is_blocked(found):
        return "The migration cannot begin: clear what stands in the way, and plan again."
    verb = "start" if look.into is Kind.OURS else "back"
    first = next_of_change(look.quorum, look.wanted, look.settings)
    if isinstance(first, Done):
        return f"Nothing stands in the way. {first}"
    does = f"Nothing stands in the way. `{command} migrate {verb}`"
    if isinstance(first, Wait):
        # The remedy is that of a note above.
        return f"{does} waits first: {first.reason}."
    return f"{does} begins with: {first}."


def settings_text(look: Look) -> str:
    """The settings of our controllers, to copy into their files."""
    parts = []
    for id in sorted(look.wanted):
        lines = [f"{name}={_shown(name, value)}" for name, value in settings_of(look, id).items()]
        parts.append("\n".join([f"# controller {id}", *lines, *lines_to_add(look)]))
    return "\n\n".join(parts)


def _shown(name: str, value: str) -> str:
    setting = setting_named(name)
    return "..." if setting is not None and setting.kind.is_secret else value


def brokers_text(settings: BrokerSettings) -> str:
    """Say what the new line replaces at each broker, and how the brokers are restarted."""
    return "\n".join(
        [
            "The line for the brokers takes the place of controller.quorum.voters and "
            "controller.quorum.bootstrap.servers, which now have:",
            *(
                f"  broker {each.id}: {settings.configured.get(each.id) or 'not known'}"
                for each in settings.brokers
            ),
            "Restart the brokers one by one, the next one when all replicas are in sync again.",
        ]
    )


def status_text(
    quorum: QuorumState,
    contents: Contents,
    probes: Mapping[int, Probe],
    settings: BrokerSettings,
    *,
    forward: Mapping[int, Address],
    back: Mapping[int, Address],
) -> str:
    """The state of a migration, and what either direction would do next."""
    lines = [
        summary(quorum, contents),
        "",
        controllers_table(quorum, probes),
        "",
        *_brokers(contents.brokers),
        f"start: {next_of_change(quorum, forward, settings)}",
    ]
    if back:
        lines.append(f"back:  {next_of_change(quorum, back, settings)}")
    return "\n".join(lines)


def plan_data(look: Look, found: Sequence[Finding]) -> dict[str, Any]:
    """The plan as data."""
    return {
        **state_data(look.quorum, look.contents, look.probes),
        "into": str(look.into),
        "blocked": is_blocked(list(found)),
        "findings": [
            {
                "weight": str(each.weight),
                "sentence": each.sentence,
                "remedy": each.remedy,
            }
            for each in found
        ],
    }


def state_data(
    quorum: QuorumState, contents: Contents, probes: Mapping[int, Probe]
) -> dict[str, Any]:
    """The state of a migration as data."""
    return {
        "cluster_id": quorum.cluster_id,
        "levels": dict(sorted(contents.levels.items())),
        "controllers": [_controller_data(each, probes.get(each.id)) for each in quorum.controllers],
        "brokers": [{"broker_id": each.id, "fenced": each.fenced} for each in contents.brokers],
    }


def _controller_data(controller: Controller, probe: Probe | None) -> dict[str, Any]:
    return {
        "replica_id": controller.id,
        "kind": str(controller.kind),
        "address": None if controller.address is None else str(controller.address),
        "role": _role(controller),
        "lag": controller.member.lag,
        "answers": probe is not None and probe.kind is not None,
    }
