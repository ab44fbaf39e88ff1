"""The run of one seed and its outcome, in a form that can be sent between processes."""

import gc
import logging
import subprocess
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chaos.cluster.profile import ClusterProfile
from chaos.cluster.run import ClusterSimulation
from chaos.simulation.own_machine import NoMachine
from chaos.simulation.profile import Profile
from chaos.simulation.run import Report, Simulation
from chaos.story.recorder import RecordedTrace, Recorder
from chaos.story.story import Story, story_of
from chaos.violation import HarnessError, Violation
from quorum.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason why a run failed, with everything needed to understand it."""

    rule: str
    """The invariant, "liveness", or "harness"."""
    text: str
    profile: Profile
    at_ms: int
    """The virtual time of the failure."""
    events: int
    """The number of events until then."""
    last_events: str
    nodes: str
    trace: str
    story: Story | None = None

    def __str__(self) -> str:
        return (
            f"seed {self.profile.seed} fails: {self.text}\n"
            f"{origin()}\n"
            f"profile: {self.profile}\n\n"
            f"the last events:\n{self.last_events}\n\n{self.nodes}\n\n{self.trace}"
        ).rstrip("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one profile: a report or a failure; neither if the run was cut short."""

    seed: int
    report: Report | None = None
    failure: Failure | None = None


def run(profile: Profile, *, limit_ms: int | None = None, recorded: bool = False) -> Outcome:
    """Run a profile; whatever goes wrong is an outcome. `recorded`: a failure has its story.

    After `limit_ms` of virtual time the run ends with neither a report nor a failure. Raises
    `NoMachine` if the user's state machine cannot be used at all.
    """
    # Objects live as long as the run; the garbage collector would take a tenth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _run(profile, limit_ms, recorded)
    finally:
        # A controller freezes all objects after it has loaded its image. Unfreeze them here:
        # otherwise the memory of a finished run is never released.
        if gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
        if collects:
            gc.enable()


def simulation_of(profile: Profile) -> Simulation:
    """The simulation for a profile: a quorum alone, or a cluster on top of it."""
    if isinstance(profile, ClusterProfile):
        return ClusterSimulation(profile)
    return Simulation(profile)


class Expired(BaseException):
    """A run is longer than its limit. Not an `Exception`, so that no code in it can catch it."""


def _expire() -> None:
    raise Expired


def _run(profile: Profile, limit_ms: int | None, recorded: bool) -> Outcome:
    simulation = simulation_of(profile)
    world, recorder = simulation.world, None
    if recorded:
        recorder = Recorder(world.timeline, world.everyone)
        world.trace, world.invariants.observer = RecordedTrace(recorder), recorder
    if limit_ms is not None:
        world.timeline.after(limit_ms, _expire)
    try:
        return Outcome(seed=profile.seed, report=simulation.run())
    except Expired:
        return Outcome(seed=profile.seed)
    except NoMachine:
        raise
    except Exception as error:  # noqa: BLE001 - it is the outcome of the run
        rule, text = _named(error)
        nodes = [f"{process}" for process in world.processes.values()]
        nodes += [f"disk of {m.config.node_id}: {m.durable}" for m in world.machines.values()]
        story = None
        if recorder is not None:
            now_ms, everyone = world.timeline.now_ms, world.everyone
            story = story_of(recorder.events, rule, text, everyone, now_ms)
        failure = Failure(
            rule=rule,
            text=text,
            profile=profile,
            at_ms=world.timeline.now_ms,
            events=world.trace.added,
            last_events=world.trace.last_events(),
            nodes="\n".join(nodes),
            trace="".join(traceback.format_exception(error)),
            story=story,
        )
        return Outcome(seed=profile.seed, failure=failure)


def _named(error: Exception) -> tuple[str, str]:
    """The rule that an error stands for, and its text."""
    match error:
        case Violation():
            return error.rule, str(error)
        case HarnessError():
            return "harness", str(error)
        case _:
            # An assertion of the product, or an error that it does not expect.
            name, place = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}: {place.line}"
            return name, f"{name} {error} at {where}"


@cache
def origin() -> str:
    """The release of this code and, in a checkout of it, the commit."""
    here, release = Path(__file__).parent, f"metaquorum {VERSION}"
    # What is installed may lie in a checkout of something else.
    if not (here.parent / ".git").exists():
        return release
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        described = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    except OSError:
        return release
    commit = described.stdout.strip()
    return f"{release}, commit {commit}" if commit else release


def silence() -> None:
    """Drop the product's log output; the trace of a failing run has the events."""
    for name in ("quorum", "broker", "controller"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
