"""`metaquorum doctor`: what is wrong with a cluster, a stopped node or its settings."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admin.cli.options import (
    DURATION,
    BadInput,
    Exit,
    Target,
    output_option,
    say,
    show,
    with_target,
)

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from admin.monitoring.health_rules import Reason
    from quorum.transport.address import Address


@click.command()
@click.option(
    "--dir",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="The data folder (log.dir) of a stopped node, instead of a cluster; repeatable.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="The settings of a node, a .toml or .properties file, instead of a cluster.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --config: a setting that wins over the environment and the file.",
)
@click.option(
    "--backups",
    "place",
    metavar="FOLDER|s3://...",
    help="The place of backups, beside the cluster if one is named.",
)
@click.option(
    "--backup-age",
    "age_max_ms",
    type=DURATION,
    default="24h",
    show_default=True,
    help="With --backups: the newest backup may be this old.",
)
@with_target
@output_option
async def command(
    target: Target,
    folders: Sequence[Path],
    file: Path | None,
    overrides: Sequence[str],
    place: str | None,
    age_max_ms: int,
    output: str,
) -> Exit:
    """Say what is wrong, why it matters, and the command that mends it.

    Examines a cluster by the rules of `GET /v1/quorum/health` and a connection to each node, the
    folders and settings of a stopped node, or the age of backups. Nothing is changed. Exit code 3:
    not healthy.
    """
    from admin.monitoring.health_rules import is_healthy

    if overrides and file is None:
        raise click.UsageError("--override goes with --config.")
    found: list[Reason] = []
    if folders or file is not None:
        found += _of_node(folders, file, overrides)
    elif place is None or target.servers or target.controllers:
        found += await _of_cluster(target)
    if place is not None:
        found += _of_backups(place, age_max_ms)
    show(found, output, _as_text, _as_data)
    if not found:
        say("Nothing is wrong.")
    return Exit.DONE if is_healthy(found) else Exit.NOT_FINISHED


async def _of_cluster(target: Target) -> "Sequence[Reason]":
    from dataclasses import replace

    from admin.capabilities.health import DescribeHealth
    from admin.client.node_probes import PROBE_MS, node_probes
    from admin.faults import NoLeader
    from admin.monitoring.health_rules import Facts, reasons, reasons_of_probes

    def connect(address: "Address") -> "AdminClient":
        return replace(
            target,
            servers=(address,),
            controllers=None,
            timeout_ms=min(target.timeout_ms, PROBE_MS),
            is_silent=True,
        ).client()

    try:
        async with target.client() as client:
            health = await client.ask(DescribeHealth())
            probes = await node_probes(
                client,
                connect,
                of_brokers=target.addresses is target.servers,
                reachable={each.id for each in health.servers if each.reachable},
                within_ms=target.timeout_ms,
            )
    except NoLeader:
        # A broker knows this and no more.
        return reasons(Facts(leader_id=None))
    return [*health.reasons, *reasons_of_probes(probes)]


def _of_node(
    folders: Sequence[Path], file: Path | None, overrides: Sequence[str]
) -> "list[Reason]":
    from admin.monitoring.health_rules import reasons_of_folder, reasons_of_settings
    from admin.tools.doctor import folder_facts, settings_facts

    if file is not None:
        try:
            file.open("rb").close()
        except OSError as error:
            raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    found = [each for folder in folders for each in reasons_of_folder(folder_facts(folder))]
    if file is not None:
        found += reasons_of_settings(settings_facts(file, os.environ, overrides))
    return found


def _of_backups(place: str, age_max_ms: int) -> "list[Reason]":
    from admin.monitoring.health_rules import reasons_of_backups
    from admin.tools.doctor import backup_facts

    return list(reasons_of_backups(backup_facts(place, age_max_ms)))


def _as_data(found: "Sequence[Reason]") -> dict[str, Any]:
    from msgspec import to_builtins

    return {"reasons": [to_builtins(each) for each in found]}


def _as_text(found: "Sequence[Reason]") -> str:
    return "\n\n".join(
        f"{each.severity.value.upper()} {each.rule}: {_ended(each.sentence)}\n"
        f"  Why it matters: {each.why}.\n"
        f"  To mend it:     {each.command}"
        for each in found
    )


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith("?") else f"{sentence}."
