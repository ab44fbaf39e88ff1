"""The commands of `metaquorum chaos`; in a checkout, the package `chaos` runs with more of them.

A command imports what it runs: the simulation is the whole product. What breaks real processes is
in `chaos.processes.command`.
"""

from pathlib import Path
from typing import Final

import click

from chaos.profile_names import PROFILES, SEEDS

SEEDS_MAX: Final = 10_000_000
IMAGES_MAX: Final = 10_000_000

HELP: Final = "\n".join(
    [
        "Run the quorum, or a cluster, under faults; exit with 1 if a promise is broken.",
        "",
        "Time, network and disks are virtual. The first failure ends the runs: it is made smaller, "
        "told as a story, and kept as a case (JSON) and a sequence diagram (SVG).",
        "",
        "\b",
        "Profiles:",
        *(f"  {name:<16} {what}" for name, what in PROFILES.items()),
    ]
)

FILE: Final = click.Path(path_type=Path, dir_okay=False)
READ: Final = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.group()
def main() -> None:
    """Break the quorum on purpose: in virtual time (sim), or real processes (run)."""


@main.command(help=HELP)
@click.option("--seed", type=click.IntRange(min=0), help="Run this seed only.")
@click.option(
    "--seeds", type=click.IntRange(1, SEEDS_MAX), help=f"Run so many seeds.  [default: {SEEDS}]"
)
@click.option("--base", type=click.IntRange(min=0), default=0, help="The first seed.")
@click.option("--minutes", type=click.FloatRange(min=0.01), help="Run seeds for so long.")
@click.option("--jobs", type=click.IntRange(1, 1_000), help="Processes at a time.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="The kind of runs and their faults.  [default: everything]",
)
@click.option("--settings", type=READ, help="Settings of nodes, .properties or .toml, to use.")
@click.option("--machine", metavar="MODULE:CLASS", help="Run your own state machine on the quorum.")
@click.option("--case", "cases", type=READ, multiple=True, help="Run the case of this file again.")
@click.option("--save", type=FILE, help="Keep the first failure as a case in this file.")
@click.option("--keep-going", is_flag=True, help="Run all seeds, also after one has failed.")
@click.option("--no-shrink", is_flag=True, help="Do not look for a smaller run that fails.")
@click.option("--trace", is_flag=True, help="Print the last events of a failing run as well.")
def sim(
    seed: int | None,
    seeds: int | None,
    base: int,
    minutes: float | None,
    jobs: int | None,
    profile: str | None,
    settings: Path | None,
    machine: str | None,
    cases: tuple[Path, ...],
    save: Path | None,
    keep_going: bool,
    no_shrink: bool,
    trace: bool,
) -> None:
    """See `HELP`."""
    from chaos import sim as runs

    if cases and (seed, seeds, minutes, profile, settings, machine) != (None,) * 6:
        raise click.UsageError("--case has all that is run: it takes no seed, profile or settings")
    if seed is not None and (seeds, minutes) != (None, None):
        raise click.UsageError("--seed is one run: it takes neither --seeds nor --minutes")
    telling = runs.Telling(save=save, shrinks=not no_shrink, has_trace=trace)
    if cases:
        runs.run_cases(cases, telling)
        return
    plan = runs.Plan.of(profile or "everything", settings, machine)
    if seed is not None:
        runs.run_one(plan, seed, telling)
    else:
        runs.run_many(
            plan,
            base=base,
            seeds=seeds,
            minutes=minutes,
            jobs=jobs,
            keep_going=keep_going,
            telling=telling,
        )


@main.command("crashes")
@click.option(
    "--images", type=click.IntRange(1, IMAGES_MAX), default=10_000, help="The number of images."
)
@click.option("--base", type=click.IntRange(min=0), default=0, help="The first seed.")
def crash(images: int, base: int) -> None:
    """Cut the power at every disk operation of a node, and recover each possible disk image."""
    from rich.console import Console
    from rich.progress import Progress

    from chaos.disk.crash_points import Lost, Tally, crash_images
    from chaos.outcome import silence

    silence()
    tally = Tally()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("crash images", total=images)
        try:
            for tally in crash_images(images, base=base):
                progress.update(task, completed=tally.images)
        except Lost as lost:
            raise click.ClickException(str(lost)) from lost
    click.echo(str(tally))
