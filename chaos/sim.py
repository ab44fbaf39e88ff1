"""Runs of the simulation for a user: many seeds, one, or a case; and what is said of them."""

import os
import re
import shlex
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress

from admin.settings import InvalidSetting
from chaos.case import Case, InvalidCase, limit_ms_of, read_case
from chaos.cluster.profile import ClusterProfile
from chaos.coverage import lines as coverage_lines
from chaos.outcome import Failure, Outcome, origin, run, silence
from chaos.profile_names import PROFILES, SEEDS
from chaos.shrink import Failed, Shrinking
from chaos.simulation import determinism
from chaos.simulation.named_profiles import drawn
from chaos.simulation.own_machine import NoMachine
from chaos.simulation.profile import Profile
from chaos.simulation.user_settings import UserSettings, read_settings
from chaos.story.diagram import svg
from chaos.story.story import Story
from quorum.clocks import monotonic_ms

SEEDS_AT_ONCE: Final = 4
"""The number of seeds that a worker process takes at a time."""
SHRINKING_SECONDS_MAX: Final = 45
"""Of processor time, so that a busy machine finds the same as an idle one."""
NUMBER: Final = re.compile(r"\d+")
NEVER_SHRUNK: Final = "harness"
WAVE_MAX: Final = 256
ON_A_QUORUM: Final = PROFILES.keys() - {"cluster", "hostile-cluster"}
"""Profiles under which a state machine of the user's can run; "everything" then has no cluster."""
UNSPECIFIC: Final = frozenset({"harness", "liveness", "R23"})
"""Failures that say less about their cause than others."""
FAILURES_NAMED_MAX: Final = 50
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as of a shell."""


@dataclass(slots=True)
class Interrupt:
    """The state of Ctrl-C: the first one ends the work in order, the second one at once."""

    has_come: bool = False


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let Ctrl-C set a flag meanwhile."""
    interrupt = Interrupt()

    def note(number: int, _: object) -> None:
        interrupt.has_come = True
        signal.signal(number, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _end_at_interrupt() -> None:
    """Let Ctrl-C end a process that runs seeds at once, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs that a command asks for: the profile of each seed."""

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
        if machine is not None and name not in ON_A_QUORUM:
            raise click.UsageError(f"--machine runs on a quorum alone, not on --profile {name}")
        if settings is not None:
            options += ["--settings", str(settings)]
        return cls(name, read, machine, tuple(options))

    def profile(self, seed: int) -> Profile:
        """The profile of one seed."""
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
    """The options of the report of a failure."""

    save: Path | None = None
    """The case file; by default it is named after the seed."""
    shrinks: bool = True
    has_trace: bool = False

    def __post_init__(self) -> None:
        if self.save is not None and not self.save.absolute().parent.is_dir():
            raise click.UsageError(f"--save: there is no folder {self.save.absolute().parent}")


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

    Without `keep_going` the first seeds that fail are the last ones. After Ctrl-C the summary says
    what was done, and the exit code is `INTERRUPTED` unless a seed failed.
    """
    jobs = jobs or os.cpu_count() or 1
    limit = seeds if seeds is not None or minutes is not None else SEEDS
    until_ms = None if minutes is None else monotonic_ms() + int(minutes * 60_000)
    totals, start_ms = Totals(), monotonic_ms()
    progress = Progress(console=Console(stderr=True), transient=True)
    with progress, interruptible() as interrupt:
        task = progress.add_task("seeds", total=limit)
        for wave in waves(base, limit, jobs):
            for outcome in until_interrupted(outcomes(plan.run, wave, jobs), interrupt):
                totals.add(outcome)
                what = f"seeds, {len(totals.failures)} failed" if totals.failures else "seeds"
                progress.update(task, advance=1, description=what)
            is_late = until_ms is not None and monotonic_ms() >= until_ms
            if is_late or interrupt.has_come or (totals.failures and not keep_going):
                break
    seconds = (monotonic_ms() - start_ms) / 1_000
    if totals.failures:
        # The shortest run is the easiest to make smaller, and to understand.
        tell(min(totals.failures, key=_length), plan, telling)
        click.echo()
    for each in coverage_lines(totals.counts, totals.roles):
        click.echo(each)
    last = base + totals.seeds - 1
    click.echo(f"{origin()}: {plan.command()}, seeds {base} to {last}")
    click.echo(totals.line(seconds, jobs))
    if totals.failures:
        named = [f"{each.profile.seed} ({each.rule})" for each in totals.failures]
        failed = ", ".join(named[:FAILURES_NAMED_MAX])
        raise click.ClickException(f"these seeds failed: {failed}")
    if interrupt.has_come:
        click.echo("interrupted: the other seeds did not run", err=True)
        raise SystemExit(INTERRUPTED)


def waves(base: int, limit: int | None, jobs: int) -> Iterator[Sequence[int]]:
    """The seeds, up to a limit: a few first, as most faults are found soon, then more and more."""
    seeds = count(base) if limit is None else iter(range(base, base + limit))
    size = jobs * SEEDS_AT_ONCE
    while wave := [*islice(seeds, size)]:
        yield wave
        size = min(2 * size, WAVE_MAX)


def until_interrupted(found: Iterator[Outcome], interrupt: Interrupt) -> Iterator[Outcome]:
    """These outcomes until Ctrl-C, which also ends the processes that run seeds."""
    try:
        for outcome in found:
            yield outcome
            if interrupt.has_come:
                return
    except BrokenProcessPool:
        if not interrupt.has_come:
            raise


def outcomes(
    run_seed: Callable[[int], Outcome], seeds: Sequence[int], jobs: int
) -> Iterator[Outcome]:
    """The outcome of each seed, in order."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=_end_at_interrupt) as pool:
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
            outcome = run(case.profile, limit_ms=case.limit_ms, recorded=True)
        except (InvalidCase, OSError, NoMachine) as error:
            raise click.UsageError(f"--case: {error}") from None
        failure = outcome.failure
        # Less may happen in a run of a product without the fault: that is no failure of a case.
        if failure is None or failure.rule == NEVER_SHRUNK:
            click.echo(f"{path}: passes; it violated {case.rule} in {case.made_by}")
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
    case = Case(
        profile=told.profile, rule=told.rule, text=told.text, at_ms=told.at_ms, made_by=origin()
    )
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
    click.echo(f"\n{_replicas(profile, failure.story)}")
    click.echo(f"faults:\n{strikes}{rates}\n\n{failure.story}\n")


def _replicas(profile: Profile, story: Story | None) -> str:
    """The replicas of a run in words."""
    ids = [] if story is None else [*map(str, story.replicas)]
    voters, others = ", ".join(ids[: profile.voters]), ", ".join(ids[profile.voters :])
    if isinstance(profile, ClusterProfile):
        return f"a cluster of the controllers {voters} and the brokers {others}"
    return f"a quorum of the voters {voters}" + (f" and the observers {others}" if others else "")


def _kind(failure: Failure) -> tuple[str, str]:
    """The promise that is broken; if that is liveness, also which part of it."""
    words = NUMBER.sub("", failure.text) if failure.rule == "liveness" else ""
    return failure.rule, words


def smallest(failure: Failure) -> Profile:
    """The smallest profile that was found to violate the same promise."""
    limit_ms, kind = limit_ms_of(failure.rule, failure.at_ms), _kind(failure)
    until = _used_seconds() + SHRINKING_SECONDS_MAX
    progress = Progress(console=Console(stderr=True), transient=True)
    with progress, interruptible() as interrupt:
        task = progress.add_task("making it smaller (Ctrl-C takes the smallest so far)", total=None)

        def attempt(profile: Profile) -> Failed | None:
            progress.advance(task)
            fails = run(profile, limit_ms=limit_ms).failure
            if fails is None or _kind(fails) != kind:
                return None
            return Failed(fails.at_ms, fails.events)

        shrinking = Shrinking(attempt, lambda: interrupt.has_come or _used_seconds() >= until)
        return shrinking.smallest(failure.profile, Failed(failure.at_ms, failure.events))
