"""`metaquorum backup`: copy the metadata of a running cluster, and check the copies."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    DURATION,
    RATE_OR_NONE,
    Exit,
    Parsed,
    Target,
    WholeNumber,
    add_options,
    output_option,
    run,
    say,
    show,
    with_target,
    write,
    write_data,
)
from admin.cli.output import columns, labelled
from admin.units import parse_duration_ms, show_duration, show_size, show_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from admin.backup.manifest import Manifest
    from admin.backup.run import Outcome, Retention
    from admin.backup.schedule import Schedule
    from admin.backup.verification import Verified
    from admin.cli.output import Columns
    from admin.client.admin_client import AdminClient
    from admin.client.metadata_source import Source
    from quorum.transport.address import Address

EVERY_MS_MIN: Final = 1_000
THROTTLE: Final = 16_000_000
"""Bytes per second: a backup of a million partitions takes eight seconds, of which the leader
spends a thirtieth on it."""


def _age_ms(text: str) -> int:
    age_ms = parse_duration_ms(text)
    if text.strip().isdecimal() or age_ms < 1:
        raise ValueError(f"{text!r} is no age: write 30d, 12h or 90min")
    return age_ms


_keeping: Final = add_options(
    click.option("--keep", type=WholeNumber(min=1), help="Keep only this many newest backups."),
    click.option(
        "--keep-for",
        "keep_ms",
        type=Parsed("duration", _age_ms),
        help="Remove older backups: 30d; never the newest.",
    ),
)


@click.group(invoke_without_command=True)
@click.option(
    "--to",
    "place",
    metavar="FOLDER|s3://...",
    help="The folder, or the URI of a folder in an object store, for the backups.",
)
@click.option(
    "--from-folder",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Read the data folder of a stopped node, of a broker too, instead of a running cluster.",
)
@click.option("--every", "every_ms", type=DURATION, help="Make one again and again, as 5min.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="With --every: the form of the log on stderr.",
)
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --every: write metrics there for Prometheus's node exporter, as NAME.prom.",
)
@_keeping
@click.option(
    "--throttle",
    type=RATE_OR_NONE,
    default=THROTTLE,
    show_default="16MB",
    help="Bytes per second to fetch, so that the leader has time for others; 0 is no limit.",
)
@with_target
@click.pass_context
def command(
    ctx: click.Context,
    target: Target,
    place: str | None,
    folder: Path | None,
    every_ms: int | None,
    log_format: str,
    metrics_file: Path | None,
    keep: int | None,
    keep_ms: int | None,
    throttle: int,
) -> None:
    """Back up the metadata of a running cluster.

    Fetches the newest snapshot and the log behind it from the leader, as an observer does, and
    checks them; any node may be named. A further run into the same place fetches only what is
    new. Everything that was committed when it began is in a backup; of a leader of Kafka's, what
    that knew to be committed. An interrupted run leaves the earlier backups as they were. With
    --every it goes on after a failure, and logs each backup as `backup-made` or `backup-failed`.

    `backup verify` checks a backup, `metaquorum restore` founds a cluster from it
    (docs/recovery.md). With --from-folder the log of a stopped node is taken, if no controller is
    left. A backup holds credentials: keep it as safe as the controllers' folders. The
    client needs CLUSTER_ACTION on the cluster.
    """
    if ctx.invoked_subcommand is not None:
        return
    if place is None:
        raise click.UsageError("name the place for the backup: --to FOLDER, or --to s3://...")
    if folder is not None and every_ms is not None:
        raise click.UsageError("--every goes with a running cluster, not with --from-folder.")
    if folder is None:
        # A usage error without any.
        _ = target.addresses
    if every_ms is not None and every_ms < EVERY_MS_MIN:
        raise click.UsageError(f"--every takes a pause of at least {EVERY_MS_MIN}ms.")
    if metrics_file is not None and every_ms is None:
        raise click.UsageError("--metrics-file goes with --every.")
    from admin.backup.run import Retention

    wanted = _Wanted(place, folder, Retention(keep, keep_ms), 0 if folder is not None else throttle)
    if every_ms is None:
        run(_back_up(target, wanted))
    else:
        from admin.backup.schedule import Schedule

        schedule = Schedule(every_ms=every_ms, metrics_file=metrics_file)
        # The log alone is on stderr.
        silent = replace(target, is_silent=True)
        run(_back_up_again_and_again(silent, wanted, schedule, log_format))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options of a backup."""

    place: str
    folder: Path | None
    retention: "Retention"
    throttle: int


async def _back_up(target: Target, wanted: _Wanted) -> None:
    from quorum.clocks import monotonic_ms

    begun_ms = monotonic_ms()
    outcome = await _back_up_once(target, wanted)
    for remark in outcome.remarks:
        say(f"Note: {remark}.")
    write(_line(outcome, monotonic_ms() - begun_ms))


async def _back_up_again_and_again(
    target: Target, wanted: _Wanted, schedule: "Schedule", log_format: str
) -> None:
    import logging

    from admin.backup.object_storage import storage_of
    from quorum.clocks import monotonic_ms
    from quorum.process_log import LogFormat, handler

    logging.basicConfig(level=logging.INFO, handlers=[handler(LogFormat(log_format))])

    async def once() -> str:
        begun_ms = monotonic_ms()
        outcome = await _back_up_once(target, wanted)
        remarks = (f"{each}." for each in outcome.remarks)
        return " ".join((_line(outcome, monotonic_ms() - begun_ms), *remarks))

    await schedule.run(once, storage_of(wanted.place))


async def _back_up_once(target: Target, wanted: _Wanted) -> "Outcome":
    from admin.backup.object_storage import storage_of
    from admin.backup.run import Pace, back_up
    from quorum.clocks import wall_ms

    storage = storage_of(wanted.place)
    async with _source(target, wanted.folder) as source:
        return await back_up(
            source,
            storage,
            now_ms=wall_ms(),
            retention=wanted.retention,
            pace=Pace(wanted.throttle),
            patience_ms=target.timeout_ms,
        )


@asynccontextmanager
async def _source(target: Target, folder: Path | None) -> "AsyncIterator[Source]":
    """The running cluster, or the folder of a stopped node."""
    if folder is not None:
        from admin.backup.folder_source import folder_source

        with folder_source(folder) as source:
            yield source
        return
    from admin.client.channels import Channels
    from admin.client.metadata_source import MetadataSource
    from admin.faults import AdminError

    async with target.client() as client:
        controllers, cluster_id = await _controllers(target, client)
    if cluster_id is None:
        raise AdminError("the cluster has no id yet: it has not been founded")
    not_before = await _committed(replace(target, servers=None, controllers=tuple(controllers)))
    channels = Channels("backup", target.config.security)
    try:
        yield MetadataSource(
            channels,
            controllers,
            cluster_id=cluster_id,
            patience_ms=target.timeout_ms,
            not_before=not_before,
        )
    finally:
        await channels.close()


async def _committed(controllers: Target) -> int:
    """The offset below which everything is committed, as a leader says whom a majority confirms.

    A leader that was cut off from the others may serve its log for three seconds more. It is 0 for
    controllers of Kafka, which confirm nothing.
    """
    from admin.faults import Incompatible, Refused
    from quorum.protocol.errors import ErrorCode

    async with controllers.client() as client:
        try:
            return (await client.topics(())).as_of or 0
        except Incompatible:
            return 0
        except Refused as error:
            # One of ours that follows one of Kafka.
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                return 0
            raise


async def _controllers(
    target: Target, client: "AdminClient"
) -> "tuple[Sequence[Address], str | None]":
    """The addresses of the controllers, which brokers know as well, and the id of the cluster."""
    from admin.faults import AdminError, Incompatible

    if not target.controllers:
        quorum = await client.describe_quorum()
        found = [address for each in quorum.addresses.values() for _, address in each]
        if not found:
            raise AdminError(
                "these brokers do not say where the controllers listen: name some with "
                "--bootstrap-controller"
            )
        return found, quorum.cluster_id
    try:
        # It needs the same right as the log, DescribeCluster at a controller another one.
        return target.controllers, (await client.discover_brokers()).cluster_id
    except Incompatible:
        # Kafka's controllers do not know it.
        return target.controllers, (await client.describe_cluster()).cluster_id


def _line(outcome: "Outcome", took_ms: int) -> str:
    manifest, previous = outcome.manifest, outcome.previous
    since = "anew" if previous is None else f"since {previous.id}"
    removed = f", {len(outcome.removed)} old ones removed" if outcome.removed else ""
    return (
        f"Backup {manifest.id} of cluster {manifest.cluster_id} as of offset "
        f"{manifest.end_offset}, epoch {manifest.epoch}: {show_size(outcome.fetched_bytes)} "
        f"fetched {since} in {took_ms / 1_000:.1f} s{removed}."
    )


_place: Final = click.argument("place", metavar="FOLDER|s3://...")
_id: Final = click.argument("id", required=False, metavar="[BACKUP]")


@command.command("list")
@_place
@output_option
def list_(place: str, output: str) -> None:
    """List the backups of a place."""
    run(_list(place, output))


async def _list(place: str, output: str) -> None:
    from admin.backup.manifest import BackupDamaged
    from admin.backup.object_storage import storage_of
    from admin.backup.storage import backup_ids, read_manifest

    storage = storage_of(place)
    found: list[Manifest] = []
    for id_ in backup_ids(storage):
        try:
            found.append(read_manifest(storage, id_))
        except BackupDamaged as error:
            say(f"Error: {error}")
    show(found, output, lambda found: columns(found, _BACKUPS), lambda found: _as_list(found))
    if not found and output == "table":
        say(f"{storage} holds no backup.")


def _as_list(found: "Sequence[Manifest]") -> "Mapping[str, Any]":
    import msgspec

    return {"backups": msgspec.to_builtins(found)}


_BACKUPS: Final["Columns[Manifest]"] = {
    "Backup": lambda each: each.id,
    "Taken": lambda each: _time(each.taken_ms),
    "Cluster": lambda each: each.cluster_id,
    "EndOffset": lambda each: each.end_offset,
    "Epoch": lambda each: each.epoch,
    "LastRecord": lambda each: _time(each.last_record_ms),
    "Bytes": lambda each: each.size_bytes,
}


def _time(time_ms: int) -> str:
    return "-" if time_ms < 0 else show_time(time_ms)


@command.command("show")
@_place
@_id
@output_option
def show_(place: str, id: str | None, output: str) -> None:
    """Show what a backup is as of: the newest one, unless BACKUP names another."""
    run(_show(place, id, output))


async def _show(place: str, id_: str | None, output: str) -> None:
    import msgspec

    from admin.backup.object_storage import storage_of
    from admin.backup.storage import find_manifest

    manifest = find_manifest(storage_of(place), id_)
    show(manifest, output, described, msgspec.to_builtins)


def _age(manifest: "Manifest") -> str:
    from quorum.clocks import wall_ms

    return show_duration(max(0, wall_ms() - manifest.taken_ms))


def described(manifest: "Manifest") -> str:
    """A manifest, a line for each fact."""
    voters = [
        f"{each.id} at {', '.join(f'{host}:{port}' for _, host, port in each.endpoints) or '?'}"
        for each in manifest.voters
    ]
    levels = [f"{name} {level}" for name, level in manifest.features.items()]
    files = len(manifest.files)
    return labelled(
        [
            ("Backup", manifest.id),
            ("Cluster", manifest.cluster_id),
            ("Taken", f"{show_time(manifest.taken_ms)}, {_age(manifest)} ago"),
            ("EndOffset", f"{manifest.end_offset} of epoch {manifest.epoch}"),
            ("LastRecord", _time(manifest.last_record_ms)),
            ("Voters", "; ".join(voters) or ", ".join(map(str, manifest.voter_ids)) or "-"),
            ("Levels", ", ".join([*levels, f"kraft.version {manifest.kraft_version}"])),
            ("Snapshot", "-" if manifest.snapshot is None else manifest.snapshot.end_offset),
            ("Files", f"{files}, {show_size(manifest.size_bytes)}"),
        ],
        width=14,
    )


@command.command("verify")
@_place
@_id
@output_option
@click.pass_context
def verify_(ctx: click.Context, place: str, id: str | None, output: str) -> None:
    """Check every byte of a backup, and that this release can restore it.

    Checks the newest backup, unless BACKUP names another. Exit code 1: it is damaged, or cannot be
    restored.
    """
    ctx.exit(run(_verify(place, id, output)))


async def _verify(place: str, id_: str | None, output: str) -> Exit:
    from admin.backup.object_storage import storage_of
    from admin.backup.storage import find_manifest
    from admin.backup.verification import verify

    storage = storage_of(place)
    verified = verify(storage, find_manifest(storage, id_))
    if output == "table":
        write(_sound(verified))
    else:
        write_data(_as_data(verified), output)
    return Exit.DONE


def _sound(verified: "Verified") -> str:
    manifest, image = verified.manifest, verified.image
    return (
        f"Backup {manifest.id} is sound: {len(manifest.files)} files, "
        f"{show_size(manifest.size_bytes)}, up to offset {manifest.end_offset} of epoch "
        f"{manifest.epoch}; {len(image.brokers)} brokers, {len(image.topics)} topics, "
        f"{verified.partitions} partitions."
    )


def _as_data(verified: "Verified") -> "Mapping[str, Any]":
    manifest, image = verified.manifest, verified.image
    return {
        "id": manifest.id,
        "end_offset": manifest.end_offset,
        "epoch": manifest.epoch,
        "brokers": len(image.brokers),
        "topics": len(image.topics),
        "partitions": verified.partitions,
    }
