"""`metaquorum restore`: found a cluster from a backup."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from admin.cli.backup import described
from admin.cli.options import (
    ADDRESSED_VOTERS,
    command_config_option,
    command_line,
    run,
    security_of,
    write,
)
from admin.units import show_duration, show_time

if TYPE_CHECKING:
    from admin.backup.manifest import Manifest
    from admin.backup.restore import Plan
    from admin.backup.storage import Storage
    from quorum.core.vocabulary import ReplicaId
    from quorum.transport.address import Address
    from quorum.transport.security.protocols import ClientSecurity


@click.command()
@click.argument("place", metavar="FOLDER|s3://...")
@click.argument("id", required=False, metavar="[BACKUP]")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder for the folders of the controllers, controller-1 and so on.",
)
@click.option(
    "--controllers",
    type=ADDRESSED_VOTERS,
    help="The controllers; without it, the voters of the backup at their addresses.",
)
@command_config_option
@click.option(
    "--new-cluster",
    "is_new_cluster",
    is_flag=True,
    help="Found a cluster with an id of its own: the brokers of the old one cannot join it.",
)
def command(
    place: str,
    id: str | None,
    folder: Path,
    controllers: "Mapping[ReplicaId, Address] | None",
    is_new_cluster: bool,
    command_config: Path | None,
) -> None:
    """Found a cluster from a backup: the newest one, unless BACKUP names another.

    Makes the folders of its controllers and prints the commands that start them. Whatever was
    committed after the backup is lost; the command says as of when that is, and what to do with
    brokers that know more (docs/recovery.md). The controllers of before must never be started
    again: while a voter of any backup in the place answers at its address, the command refuses; it
    says what is at the others. A data folder with anything in it is refused.
    """
    security = security_of(command_config)
    run(_restore(place, id, folder, controllers, is_new_cluster, security))


async def _restore(
    place: str,
    id_: str | None,
    folder: Path,
    controllers: "Mapping[ReplicaId, Address] | None",
    is_new_cluster: bool,
    security: "ClientSecurity",
) -> None:
    from admin.backup.object_storage import storage_of
    from admin.backup.restore import make_plan, restore
    from admin.backup.storage import find_manifest, newest_manifest
    from admin.tools.founding import given_to_owner
    from quorum.clocks import wall_ms
    from quorum.log.errors import StorageError

    storage = storage_of(place)
    manifest = find_manifest(storage, id_)
    plan = make_plan(
        manifest,
        newest_manifest(storage) or manifest,
        folder,
        controllers,
        is_new_cluster=is_new_cluster,
        now_ms=wall_ms(),
    )
    seen = () if is_new_cluster else await _seen(plan, storage, security)
    new = [path for each in plan.controllers for path in (each.data, each.settings)]
    try:
        with given_to_owner(*new):
            fresh = restore(plan, storage, folder, now_ms=wall_ms())
    except StorageError as error:
        raise click.ClickException(str(error)) from None
    write(described(plan.manifest))
    write("")
    for line in _notes(plan, wall_ms() - plan.manifest.taken_ms):
        write(f"- {line}")
    if fresh:
        write(
            f"- The settings of {', '.join(str(each.id) for each in fresh)} are new, and have no "
            "TLS, SASL and authorizer: if the controllers of before had them, add theirs first. "
            "Without them whoever reaches a controller may do everything."
        )
    for line in seen:
        write(f"- {line}")
    write("")
    write("Start the controllers, each with one of these commands:")
    for each in plan.controllers:
        write(f"  {command_line()} start --config {each.settings}")


async def _seen(plan: "Plan", storage: "Storage", security: "ClientSecurity") -> "Sequence[str]":
    """Ask the addresses of the controllers and return a sentence about each; raises `BackupError`
    if a controller of before answers."""
    from admin.backup.manifest import BackupError
    from admin.tools.living_nodes import look_for_nodes

    places = {each.address for each in plan.controllers}
    voters, unknown = _voters_of(plan.manifest, storage)
    seen = await look_for_nodes({*places, *voters}, plan.cluster_id, security)
    if seen.living:
        raise BackupError(
            f"a node of cluster {plan.cluster_id} answers at {', '.join(map(str, seen.living))}: "
            "stop all controllers of before for good, or found a cluster beside theirs with "
            "--new-cluster"
        )
    return [*seen.lines(unknown)]


def _voters_of(manifest: "Manifest", storage: "Storage") -> "tuple[set[Address], set[int]]":
    """The addresses of the voters of this cluster in all backups that can be read, and the ids of
    those without one: since a backup was made, its voters may have been replaced."""
    from admin.backup.manifest import BackupDamaged
    from admin.backup.storage import backup_ids, read_manifest
    from quorum.transport.address import Address

    found = [manifest]
    for id_ in backup_ids(storage):
        with suppress(BackupDamaged):
            found.append(read_manifest(storage, id_))
    places: dict[int, set[Address]] = {}
    for each in found:
        if each.cluster_id != manifest.cluster_id:
            continue
        listeners = {voter.id: voter.endpoints for voter in each.voters}
        for voter_id in listeners or each.voter_ids:
            known = (Address(host, port) for _, host, port in listeners.get(voter_id, ()))
            places.setdefault(voter_id, set()).update(known)
    return set().union(*places.values()), {each for each, known in places.items() if not known}


def _notes(plan: "Plan", age_ms: int) -> list[str]:
    manifest = plan.manifest
    taken = show_time(manifest.taken_ms)
    notes = [
        f"Lost: everything that was committed after {taken} ({show_duration(max(0, age_ms))} ago), "
        f"at offset {manifest.end_offset} or later: topics that were created since are gone, and "
        "deleted ones are back.",
        f"The voters are {', '.join(f'{each.id} at {each.address}' for each in plan.controllers)}. "
        "Never start the controllers of before again: two sets would write two histories.",
    ]
    if plan.cluster_id != manifest.cluster_id:
        notes.append(
            f"The new cluster id is {plan.cluster_id}. The brokers of cluster "
            f"{manifest.cluster_id} are still registered, and fenced: see `metaquorum brokers "
            "unregister`."
        )
        return notes
    return [
        *notes,
        "Stop every broker before the controllers start, and move its metadata log "
        "(__cluster_metadata-0 in its metadata.log.dir, or the first of log.dirs; of an embedded "
        "broker boot-timestamp too) away: one that runs and knows more than the backup ends "
        "itself, and one of Kafka that is only restarted may go on with what is lost.",
        "Brokers of Kafka keep the data of partitions that the backup does not know, in folders "
        "whose names end in -stray; the embedded brokers delete it.",
    ]
