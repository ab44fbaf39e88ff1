"""The commands of `python -m chaos`; `make sim` calls them."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import click
from rich.console import Console
from rich.progress import Progress

from chaos.disk.crash_points import Lost, Tally, crash_images
from chaos.mutants.catalogue import MUTANTS
from chaos.mutants.runner import SEEDS_MAX as MUTANT_SEEDS_MAX
from chaos.mutants.runner import document as table
from chaos.mutants.runner import judged
from chaos.outcome import Failure, Outcome, drawn, run, silence
from chaos.shrink import Kept, shrink
from chaos.simulation.profile import Profile

SEEDS_MAX = 10_000_000
IMAGES_MAX = 10_000_000
SEEDS_AT_ONCE = 4
"""The number of seeds that a worker process takes at a time."""


@dataclass(slots=True)
class Totals:
    """The sum of all runs."""

    seeds: int = 0
    virtual_ms: int = 0
    committed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one run."""
        self.seeds += 1
        if outcome.failure is not None:
            self.failures.append(outcome.failure)
        if outcome.report is not None:
            self.virtual_ms += outcome.report.virtual_ms
            self.committed += outcome.report.committed
            self.counts += outcome.report.counts

    def line(self, seconds: float, jobs: int) -> str:
        """Return the summary line of a run that took `seconds` of real time."""
        virtual = self.virtual_ms / 1_000
        used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        busy = sum(each.ru_utime + each.ru_stime for each in used)
        return (
            f"{self.seeds} seeds in {seconds:,.0f} s on {jobs} cores: {virtual:,.0f} s of virtual "
            f"time, {virtual / busy:,.0f} times that of a processor; {self.committed:,} records "
            f"committed, {len(self.failures)} failed"
        )


@click.group()
def main() -> None:
    """Break the quorum on purpose, in virtual time; the same seed is always the same run."""
    silence()


KINDS = ("quorum", "cluster", "both", "hostile", "hostile-cluster")


@main.command("crashes")
@click.option(
    "--images", type=click.IntRange(1, IMAGES_MAX), default=10_000, help="The number of images."
)
@click.option("--base", type=click.IntRange(min=0), default=0, help="The first seed.")
def crash(images: int, base: int) -> None:
    """Cut the power at every disk operation of a node, and recover each possible disk image."""
    tally = Tally()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("crash images", total=images)
        try:
            for tally in crash_images(images, base=base):
                progress.update(task, completed=tally.images)
        except Lost as lost:
            raise click.ClickException(str(lost)) from lost
    click.echo(str(tally))


@main.command("run")
@click.option("--seed", type=click.IntRange(min=0), help="Run this seed only.")
@click.option(
    "--seeds", type=click.IntRange(1, SEEDS_MAX), default=200, help="The number of seeds."
)
@click.option("--base", type=click.IntRange(min=0), default=0, help="The first seed.")
@click.option("--jobs", type=click.IntRange(1, 1_000), default=None, help="Processes at a time.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="quorum",
    show_default=True,
    help="Simulate a quorum alone, a whole cluster, or both in turn; with a hostile node.",
)
@click.option("--strikes", help="With --seed: run only the strikes at these positions.")
@click.option("--rates", help="With --seed: keep only these background fault rates.")
def run_seeds(
    seed: int | None,
    seeds: int,
    base: int,
    jobs: int | None,
    kind: str,
    strikes: str | None,
    rates: str | None,
) -> None:
    """Run one seed, or many; exit with 1 if a seed fails."""
    if seed is not None:
        tell_one(profile_of(seed, strikes, rates, kind), shrinks=strikes is None and rates is None)
        return
    if strikes is not None or rates is not None:
        raise click.UsageError("--strikes and --rates need --seed")
    jobs = jobs or os.cpu_count() or 1
    totals = Totals()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("seeds", total=seeds)
        for outcome in outcomes(range(base, base + seeds), jobs, kind):
            totals.add(outcome)
            progress.advance(task)
        seconds = progress.tasks[0].elapsed or 0.0
    for failure in totals.failures[:1]:
        click.echo(str(failure))
    click.echo(totals.line(seconds, jobs))
    if totals.failures:
        failed = ", ".join(f"{each.profile.seed} ({each.rule})" for each in totals.failures[:50])
        raise click.ClickException(f"these seeds failed: {failed}")


@main.command("mutants")
@click.option(
    "--seeds", type=click.IntRange(1, SEEDS_MAX), default=MUTANT_SEEDS_MAX, show_default=True
)
@click.option("--jobs", type=click.IntRange(1, 1_000), default=None, help="Processes at a time.")
@click.option("--only", default="", help="Run only mutants with this text in their name.")
@click.option(
    "--kind", type=click.Choice(KINDS), default="both", help="Run only mutants of this kind of run."
)
@click.option(
    "--write",
    "document",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the results into the table of this document.",
)
def run_mutants(seeds: int, jobs: int | None, only: str, kind: str, document: Path | None) -> None:
    """Run each mutant in its own process; exit with 1 if one is not caught."""
    mutants = [each for each in MUTANTS if only in each.name and kind in ("both", each.kind)]
    if not mutants:
        raise click.UsageError(f"no mutant of {kind} has {only!r} in its name")
    verdicts = []
    for verdict in judged(mutants, seeds=seeds, jobs=jobs or os.cpu_count() or 1):
        verdicts.append(verdict)
        click.echo(str(verdict))
    if document is not None:
        before = document.read_text(encoding="utf-8") if document.exists() else ""
        try:
            text = table(verdicts, before, [each.name for each in MUTANTS])
        except KeyError as missing:
            text_missing = f"{missing} was not run, and {document} has no row for it"
            raise click.ClickException(text_missing) from missing
        document.write_text(text, encoding="utf-8")
    missed = [each for each in verdicts if not each.is_caught]
    for each in missed:
        click.echo(f"\n{each.mutant}:\n{each.output}", err=True)
    if missed:
        raise click.ClickException(f"{len(missed)} of {len(verdicts)} mutants are not caught")


def outcomes(seeds: range, jobs: int, kind: str = "quorum") -> Iterator[Outcome]:
    """The outcome of each seed, in order."""
    of_kind = partial(run_seed, kind=kind)
    if jobs == 1:
        yield from map(of_kind, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(of_kind, seeds, chunksize=SEEDS_AT_ONCE)


def run_seed(seed: int, kind: str = "quorum") -> Outcome:
    """Run the profile of this seed."""
    return run(drawn(seed, kind))


def profile_of(seed: int, strikes: str | None, rates: str | None, kind: str = "quorum") -> Profile:
    """Return the profile of a seed, reduced to the given strikes and rates."""
    profile = drawn(seed, kind)
    if strikes is None and rates is None:
        return profile
    kept = Kept.all_of(profile)
    places = kept.strikes if strikes is None else tuple(map(int, _parts(strikes)))
    names = kept.rates if rates is None else tuple(_parts(rates))
    unknown = {*map(str, {*places} - {*kept.strikes}), *({*names} - {*kept.rates})}
    if unknown:
        raise click.UsageError(f"seed {seed} has no {', '.join(sorted(unknown))}")
    return Kept(places, names).of(profile)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def tell_one(profile: Profile, *, shrinks: bool) -> None:
    """Run one profile and print its result."""
    outcome = run(profile)
    if outcome.report is not None:
        report = outcome.report
        click.echo(f"{profile}\n{report.committed} records committed, hash {report.trace_hash}")
        return
    failure = outcome.failure
    assert failure is not None
    click.echo(str(failure))
    if shrinks and failure.rule != "harness":
        kept = shrink(profile, lambda less: _fails_with(less, failure.rule))
        click.echo(f"smaller: {kept.command(profile.seed, profile.kind)}")
        for place in kept.strikes:
            click.echo(f"  {profile.strikes[place]}")
    raise click.ClickException(failure.text)


def _fails_with(profile: Profile, rule: str) -> bool:
    failure = run(profile).failure
    return failure is not None and failure.rule == rule
