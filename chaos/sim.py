"""Runs of the simulation for a user: many seeds, one, or a case; and what is said of them."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress

from admin.settings import InvalidSetting
from chaos.case import Case, InvalidCase, read_case
from chaos.cli import SEEDS
from chaos.cluster.profile import ClusterProfile
from chaos.coverage import lines as coverage_lines
from chaos.outcome import Failure, Outcome, commit, run, silence
from chaos.shrink import Failed, Shrinking
from chaos.simulation import determinism
from chaos.simulation.named_profiles import drawn
from chaos.simulation.own_machine import NoMachine
from chaos.simulation.profile import Profile
from chaos.simulation.user_settings import UserSettings, read_settings
from chaos.story.diagram import svg
from quorum.clocks import monotonic_ms

SEEDS_AT_ONCE: Final = 4
"""The number of seeds that a worker process takes at a time."""
SHRINKING_SECONDS_MAX: Final = 45
"""Of processor time, so that a busy machine finds the same as an idle one."""
LIMIT_MORE_MS: Final = 3_000
"""A run that is to fail in the same way gets as long as the first one, and this."""
NEVER_SHRUNK: Final = "harness"
WAVE_MAX: Final = 256
UNSPECIFIC: Final = frozenset({"harness", "liveness", "R23"})
"""Failures that say less about their cause than others."""
FAILURES_NAMED_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: the profile of each seed."""

    name: str
    settings: UserSettings | None = None
    machine: str | None = None
    options: tuple[str, ...] = ()
    """The options of the command that name all this."""

    @classmethod
    def of(cls, name: str, settings: Path | None, machine: str | None) -> "Plan":
        """The plan that these options name; a mistake in them is told in one sentence."""
        silence()
        options = ["--profile", name]
        try:
            if machine is not None:
                determinism.check(machine)
                options += ["--machine", machine]
            read = None if settings is None else read_settings(settings)
        except NoMachine as error:
            raise click.UsageError(f"--machine: {error}") from None
        except InvalidSetting as error:
            raise click.UsageError(f"--settings: {error}") from None
        if settings is not None:
            options += ["--settings", str(settings)]
        return cls(name, read, machine, tuple(options))

    def profile(self, seed: int) -> Profile:
        """The profile of one seed."""
        # A machine of the user's stands on the quorum alone.
        is_own = self.machine is not None and self.name == "everything"
        profile = drawn(seed, "quorum" if is_own else self.name)
        if self.machine is not None:
            profile = replace(profile, machine=self.machine)
        return profile if self.settings is None else self.settings.applied_to(profile)

    def run(self, seed: int) -> Outcome:
        """Run one seed."""
        silence()
        return run(self.profile(seed))

    def command(self, *more: str) -> str:
        """The command line that runs this plan."""
        return shlex.join(["metaquorum", "chaos", "sim", *self.options, *more])


@dataclass(frozen=True, slots=True)
class Telling:
    """How a failure is told."""

    save: Path | None = None
    """The case file; by default it is named after the seed."""
    shrinks: bool = True
    has_trace: bool = False


@dataclass(slots=True)
class Totals:
    """The sum of all runs."""

    seeds: int = 0
    virtual_ms: int = 0
    committed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
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
            self.roles += outcome.report.roles

    def line(self, seconds: float, jobs: int) -> str:
        """The summary of runs that took `seconds` of real time."""
        virtual = self.virtual_ms / 1_000
        busy = _used_seconds(RUSAGE_SELF, RUSAGE_CHILDREN)
        return (
            f"{self.seeds} seeds in {seconds:,.0f} s on {jobs} cores: {virtual:,.0f} s of virtual "
            f"time, {virtual / busy:,.0f} times that of a processor; {self.committed:,} records "
            f"committed, {len(self.failures)} failed"
        )


def _used_seconds(*who: int) -> float:
    """The processor time used so far, by default by this process alone."""
    used = [getrusage(each) for each in who or (RUSAGE_SELF,)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def run_many(
    plan: Plan,
    *,
    base: int,
    seeds: int | None,
    minutes: float | None,
    jobs: int | None,
    keep_going: bool,
    telling: Telling,
) -> None:
    """Run seeds, and say what came of them; ends with exit code 1 if one failed.

    Without `keep_going` the first seeds that fail are the last ones.
    """
    jobs = jobs or os.cpu_count() or 1
    limit = seeds if seeds is not None or minutes is not None else SEEDS
    until_ms = None if minutes is None else monotonic_ms() + int(minutes * 60_000)
    totals, start_ms = Totals(), monotonic_ms()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("seeds", total=limit)
        for wave in waves(base, limit, jobs):
            for outcome in outcomes(plan.run, wave, jobs):
                totals.add(outcome)
                what = f"seeds, {len(totals.failures)} failed" if totals.failures else "seeds"
                progress.update(task, advance=1, description=what)
            is_late = until_ms is not None and monotonic_ms() >= until_ms
            if is_late or (totals.failures and not keep_going):
                break
    seconds = (monotonic_ms() - start_ms) / 1_000
    if totals.failures:
        # The shortest run is the easiest to make smaller, and to understand.
        tell(min(totals.failures, key=_length), plan, telling)
        click.echo()
    for each in coverage_lines(totals.counts, totals.roles):
        click.echo(each)
    last = base + totals.seeds - 1
    click.echo(f"commit {commit()}, {plan.command()}, seeds {base} to {last}")
    click.echo(totals.line(seconds, jobs))
    if totals.failures:
        named = [f"{each.profile.seed} ({each.rule})" for each in totals.failures]
        failed = ", ".join(named[:FAILURES_NAMED_MAX])
        raise click.ClickException(f"these seeds failed: {failed}")


def waves(base: int, limit: int | None, jobs: int) -> Iterator[Sequence[int]]:
    """The seeds, up to a limit: a few first, as most faults are found soon, then more and more."""
    seeds = count(base) if limit is None else iter(range(base, base + limit))
    size = jobs * SEEDS_AT_ONCE
    while wave := [*islice(seeds, size)]:
        yield wave
        size = min(2 * size, WAVE_MAX)


def outcomes(
    run_seed: Callable[[int], Outcome], seeds: Sequence[int], jobs: int
) -> Iterator[Outcome]:
    """The outcome of each seed, in order."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, seeds, chunksize=max(1, min(SEEDS_AT_ONCE, len(seeds) // 8)))


def _length(failure: Failure) -> tuple[bool, int]:
    """An order of failures: a broken promise first, then the run with the fewest events."""
    return failure.rule in UNSPECIFIC, failure.events


def run_one(plan: Plan, seed: int, telling: Telling) -> None:
    """Run one seed, and print what came of it."""
    profile = plan.profile(seed)
    outcome = run(profile)
    if outcome.failure is not None:
        tell(outcome.failure, plan, telling)
        raise click.ClickException(outcome.failure.text)
    report = outcome.report
    assert report is not None
    click.echo(f"{profile}\n{report.committed} records committed, hash {report.trace_hash}")
    for each in coverage_lines(report.counts, report.roles):
        click.echo(each)


def run_cases(paths: Sequence[Path], telling: Telling) -> None:
    """Run cases again; ends with exit code 1 if one still fails."""
    silence()
    failed = []
    for path in paths:
        try:
            case = read_case(path)
            outcome = run(case.profile, recorded=True)
        except (InvalidCase, OSError, NoMachine) as error:
            raise click.UsageError(f"--case: {error}") from None
        failure = outcome.failure
        # Less may happen in a run of a product without the fault: that is no failure of a case.
        if failure is None or failure.rule == NEVER_SHRUNK:
            click.echo(f"{path}: passes; it violated {case.rule} at commit {case.commit}")
            continue
        failed.append(path)
        _print_failure(failure, telling)
    if failed:
        raise click.ClickException(f"these cases fail: {', '.join(map(str, failed))}")


def tell(failure: Failure, plan: Plan, telling: Telling) -> None:
    """Make a failing run smaller, tell its story, and keep it."""
    seed = failure.profile.seed
    click.echo(f"seed {seed} fails: {failure.text}")
    found = failure.profile
    if telling.shrinks and failure.rule != NEVER_SHRUNK:
        found = smallest(failure)
    told = run(found, recorded=True).failure
    assert told is not None, "the same profile is the same run"
    _print_failure(told, telling)
    path = telling.save or Path(f"chaos-{told.rule}-seed-{seed}.json")
    case = Case(profile=told.profile, rule=told.rule, text=told.text, commit=commit())
    path.write_text(case.to_json(), encoding="utf-8")
    picture = path.with_suffix(".svg")
    if told.story is not None:
        picture.write_text(svg(told.story), encoding="utf-8")
        click.echo(f"diagram: {picture}")
    click.echo(f"again: {shlex.join(['metaquorum', 'chaos', 'sim', '--case', str(path)])}")
    whole = plan.command("--seed", str(seed), "--no-shrink", "--trace")
    click.echo(f"the whole run: {whole}")


def _print_failure(failure: Failure, telling: Telling) -> None:
    if telling.has_trace:
        click.echo(f"{failure}\n")
    profile = failure.profile
    strikes = "\n".join(f"  {each}" for each in profile.strikes) or "  none"
    rates = f"\nalways: {profile.rates}" if str(profile.rates) else ""
    kind = "a cluster" if isinstance(profile, ClusterProfile) else "a quorum"
    click.echo(f"\n{kind} of {profile.voters} voters and {profile.observers} observers")
    click.echo(f"faults:\n{strikes}{rates}\n\n{failure.story}\n")


def smallest(failure: Failure) -> Profile:
    """The smallest profile that was found to violate the same promise."""
    limit_ms = None if failure.rule == "liveness" else failure.at_ms + LIMIT_MORE_MS
    until = _used_seconds() + SHRINKING_SECONDS_MAX
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("making it smaller", total=None)

        def attempt(profile: Profile) -> Failed | None:
            progress.advance(task)
            fails = run(profile, limit_ms=limit_ms).failure
            if fails is None or fails.rule != failure.rule:
                return None
            return Failed(fails.at_ms, fails.events)

        shrinking = Shrinking(attempt, lambda: _used_seconds() >= until)
        return shrinking.smallest(failure.profile, Failed(failure.at_ms, failure.events))
