"""The command of a run: `python -m chaos.fuzz --listener broker --as user`, or `make fuzz`."""

import asyncio
import random
import shutil
import tempfile
from pathlib import Path
from typing import Final

import click

from chaos.fuzz.cluster import Caller
from chaos.fuzz.run import NodeEnded, Run, RunFailed, RunSettings, Target

FRAMES_MAX: Final = 100_000_000


@click.command()
@click.option(
    "--frames",
    type=click.IntRange(1, FRAMES_MAX),
    default=200_000,
    show_default=True,
    help="For each listener and caller.",
)
@click.option("--first", default=0, show_default=True, help="The number of the first frame.")
@click.option("--seed", type=int, help="Decides the frames; drawn and told if not given.")
@click.option(
    "--listener",
    "targets",
    type=click.Choice([each.value for each in Target]),
    multiple=True,
    help="Only this listener; may be given again. All if not given.",
)
@click.option(
    "--as",
    "callers",
    type=click.Choice([each.value for each in Caller]),
    multiple=True,
    help="Only as this caller; may be given again. All if not given.",
)
@click.option("--controllers", type=click.IntRange(1, 5), default=3, show_default=True)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where the folder of a run is made, that is, on which disk.",
)
@click.option("--keep", is_flag=True, help="Keep that folder, and say where it is.")
def main(
    frames: int,
    first: int,
    seed: int | None,
    targets: tuple[str, ...],
    callers: tuple[str, ...],
    controllers: int,
    folder: Path | None,
    keep: bool,
) -> None:
    """Send hostile frames to real nodes, and check that they do no harm."""
    chosen = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    failed = False
    for target in map(Target, targets or [each.value for each in Target]):
        for caller in map(Caller, callers or [each.value for each in Caller]):
            settings = RunSettings(
                seed=chosen,
                first=first,
                frames=frames,
                targets=[target],
                caller=caller,
                controllers=controllers,
            )
            failed |= not _passes(
                settings, Path(tempfile.mkdtemp(prefix="fuzz-", dir=folder)), keep
            )
    if failed:
        raise SystemExit(1)


def _passes(settings: RunSettings, folder: Path, keep: bool) -> bool:
    """Carry out a run and print its report; keep the folder if asked to, or if it has failed."""
    click.echo(f"seed {settings.seed}, folder {folder}", err=True)
    try:
        reports = asyncio.run(Run(settings, folder).carry_out())
    except (RunFailed, NodeEnded) as failure:
        where = f"seed {settings.seed}; the folder {folder} is kept"
        raise click.ClickException(f"{failure} ({where})") from None
    for report in reports:
        click.echo(report)
    passes = not any(each.problems for each in reports)
    if not keep and passes:
        shutil.rmtree(folder)
    return passes


if __name__ == "__main__":
    main()
