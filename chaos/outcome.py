"""The run of one seed and its outcome, in a form that can be sent between processes."""

import gc
import logging
import subprocess
import traceback
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from chaos.cluster.profile import ClusterProfile
from chaos.cluster.run import ClusterSimulation
from chaos.simulation.profile import Profile, hostility_of
from chaos.simulation.run import Report, Simulation
from chaos.violation import HarnessError, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason why a run failed, with everything needed to understand it."""

    rule: str
    """The invariant, "liveness", or "harness"."""
    text: str
    profile: Profile
    last_events: str
    nodes: str
    trace: str

    def __str__(self) -> str:
        return (
            f"seed {self.profile.seed} fails: {self.text}\n"
            f"commit {commit()}\n"
            f"profile: {self.profile}\n\n"
            f"the last events:\n{self.last_events}\n\n{self.nodes}\n\n{self.trace}\n"
            f"again: make sim SEED={self.profile.seed} KIND={self.profile.kind}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one profile: a report or a failure."""

    seed: int
    report: Report | None = None
    failure: Failure | None = None


def run(profile: Profile) -> Outcome:
    """Run a profile; a violated invariant is an outcome, any other error is raised."""
    # Objects live as long as the run; the garbage collector would take a tenth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _run(profile)
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


def drawn(seed: int, kind: str) -> Profile:
    """The profile of this seed and kind; with "both", every other seed is a whole cluster.

    The kinds that are hostile have a hostile node in every run, the others in a few.
    """
    is_cluster = kind in ("cluster", "hostile-cluster") or (kind == "both" and seed % 2 == 1)
    profile = ClusterProfile.drawn(seed) if is_cluster else Profile.drawn(seed)
    if kind in ("hostile", "hostile-cluster"):
        return replace(profile, hostility=hostility_of(seed))
    return profile


def _run(profile: Profile) -> Outcome:
    simulation = simulation_of(profile)
    try:
        return Outcome(seed=profile.seed, report=simulation.run())
    except (Violation, HarnessError) as error:
        world = simulation.world
        nodes = [f"{process}" for process in world.processes.values()]
        nodes += [f"disk of {m.config.node_id}: {m.durable}" for m in world.machines.values()]
        failure = Failure(
            rule=error.rule if isinstance(error, Violation) else "harness",
            text=str(error),
            profile=profile,
            last_events=world.trace.last_events(),
            nodes="\n".join(nodes),
            trace="".join(traceback.format_exception(error)),
        )
        return Outcome(seed=profile.seed, failure=failure)


@cache
def commit() -> str:
    """Return the commit of this code, or the reason why it is unknown."""
    here = Path(__file__).parent
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        described = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown: there is no git"
    return described.stdout.strip() or f"unknown: {described.stderr.strip()}"


def silence() -> None:
    """Drop the product's log output; the trace of a failing run has the events."""
    for name in ("quorum", "broker", "controller"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
