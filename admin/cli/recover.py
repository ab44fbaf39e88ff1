"""`metaquorum recover`: let a cluster go on whose majority is lost for good."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from admin.cli.options import (
    ADDRESSED_VOTERS,
    Parsed,
    command_config_option,
    piped_answer,
    run,
    say,
    security_of,
    write,
)

if TYPE_CHECKING:
    from admin.tools.living_nodes import Seen
    from admin.tools.recover.plan import Plan
    from quorum.core.vocabulary import ReplicaId
    from quorum.transport.address import Address
    from quorum.transport.security.protocols import ClientSecurity

Source = tuple["ReplicaId | None", Path]
"""A folder, and the id of its node if the folder has lost it."""


def _source(text: str) -> Source:
    from admin.setting_kinds import NODE_ID_MAX
    from admin.units import whole_number
    from quorum.core.vocabulary import ReplicaId

    number, separator, path = text.partition("=")
    id_ = whole_number(number, NODE_ID_MAX) if separator else None
    return (None, Path(text)) if id_ is None else (ReplicaId(id_), Path(path))


@click.command()
@click.argument(
    "sources", nargs=-1, required=True, metavar="FOLDER...", type=Parsed("folder", _source)
)
@click.option(
    "--voters",
    type=ADDRESSED_VOTERS,
    help="New addresses of these nodes.",
)
@command_config_option
@click.option("--cluster-id", help="The id of the cluster, if no folder has it.")
@click.option(
    "--yes-lose-data",
    "confirmed",
    metavar="CLUSTER_ID",
    help="Confirm for a script: the id of the cluster that goes on without what is lost.",
)
def command(
    sources: "Sequence[Source]",
    voters: "Mapping[ReplicaId, Address] | None",
    cluster_id: str | None,
    confirmed: str | None,
    command_config: Path | None,
) -> None:
    """Let a cluster go on whose majority is lost for good.

    Each FOLDER is the data folder (log.dir) of a stopped controller that is left. The log that ends
    furthest is kept; its node and the other ones become the voters. Shows what may be lost, and
    changes the folders only once you have typed the id of the cluster. What was in them stays
    beside the new log.

    Also the way back for nodes whose epochs are used up, or whose quorum-state is lost or damaged;
    for one whose meta.properties is, write its id before the folder: 1=/data/mq. Folders of a
    majority that can still start are refused: they lose nothing. So is everything while a voter of
    before answers at its address; the report says what is at the addresses of the others.
    """
    from admin.tools.adopt.source import AdoptError
    from admin.tools.founding import FolderBusy
    from admin.tools.recover.plan import make_plan
    from admin.tools.recover.report import afterwards, report
    from admin.tools.recover.survivors import RecoverError, held, read_to_recover
    from admin.tools.recover.writer import prepare, put_in_place
    from quorum.clocks import wall_ms
    from quorum.log.errors import StorageError

    folders = [folder for _, folder in sources]
    security = security_of(command_config)
    try:
        with ExitStack() as stack:
            for folder in folders:
                stack.enter_context(held(folder))
            found = [read_to_recover(folder, id_) for id_, folder in sources]
            plan = make_plan(found, voters, cluster_id)
            say(report(plan, _seen(plan, security)))
            _confirm(plan, confirmed)
            now_ms = wall_ms()
            prepare(plan, now_ms=now_ms)
            aside = put_in_place(plan, _suffix(now_ms))
    except (AdoptError, FolderBusy, RecoverError, StorageError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise click.ClickException(f"{where}{error.strerror or error}") from None
    write(f"The folders of cluster {plan.cluster_id} are ready. What was in them is kept:")
    for path in aside.values():
        write(f"  {path}")
    for line in afterwards(plan):
        write(f"- {line}")


def _seen(plan: "Plan", security: "ClientSecurity") -> "Seen":
    """Ask the addresses of the voters; raises `RecoverError` if one of them answers."""
    from admin.tools.living_nodes import look_for_nodes
    from admin.tools.recover.survivors import RecoverError

    seen = run(look_for_nodes(plan.places_before, plan.cluster_id, security))
    if seen.living:
        raise RecoverError(
            f"a controller of cluster {plan.cluster_id} answers at "
            f"{', '.join(map(str, seen.living))}: it is not lost. If a majority of the voters "
            f"{', '.join(map(str, sorted(plan.voters_before)))} runs, nothing need be done; else "
            "stop it, and give its folder too"
        )
    return seen


def _suffix(now_ms: int) -> str:
    from admin.backup.manifest import backup_id

    return backup_id(now_ms)


def _confirm(plan: "Plan", confirmed: str | None) -> None:
    """Ask for the cluster id, unless it is given; anything else ends the command."""
    if confirmed is None:
        confirmed = piped_answer(f"give --yes-lose-data {plan.cluster_id}")
    if confirmed is None:
        confirmed = click.prompt(
            "\nType the id of the cluster to go on, anything else to change nothing",
            err=True,
            default="",
            show_default=False,
        )
    if confirmed != plan.cluster_id:
        raise click.ClickException(
            f"{confirmed!r} is not the id of the cluster, {plan.cluster_id}: nothing was changed"
        )
