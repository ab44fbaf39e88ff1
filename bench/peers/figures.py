"""What is compared with other replicated logs, what ours must reach, and the table that says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

OURS: Final = "metaquorum"
ETCD: Final = "etcd"
PYSYNCOBJ: Final = "PySyncObj"
SIDES: Final = (OURS, ETCD, PYSYNCOBJ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit of ours: a factor of the medians of others, or a value.

    A factor above 1 is for what is to be large.
    """

    words: str
    factor: float | None = None
    value: float | None = None
    beside: tuple[str, ...] = (ETCD,)

    def is_met(self, ours: float, others: Mapping[str, float], *, large: bool) -> bool:
        """Whether a median of ours keeps it; others that were not measured do not count."""
        if self.value is not None:
            return ours <= self.value
        assert self.factor is not None
        limits = [self.factor * others[side] for side in self.beside if side in others]
        if large:
            return all(ours >= limit for limit in limits)
        return all(ours <= limit for limit in limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. `step` is what `--only` names to measure it."""

    what: str
    unit: str
    step: str
    large: bool = False
    must: Bound | None = None
    aim: Bound | None = None


def _more(step: str, what: str, must: float, aim: float, *more: str) -> Figure:
    return Figure(
        what=what,
        unit="1/s",
        step=step,
        large=True,
        must=Bound(words=f"{must:g} x etcd", factor=must, beside=(ETCD, *more)),
        aim=Bound(words=f"{aim:g} x etcd", factor=aim),
    )


def _less(step: str, what: str, unit: str, must: float, aim: float) -> Figure:
    return Figure(
        what=what,
        unit=unit,
        step=step,
        must=Bound(words=f"{must:g} of etcd", factor=must),
        aim=Bound(words=f"{aim:g} of etcd", factor=aim),
    )


def _at_most(step: str, what: str, unit: str, must: float, aim: float) -> Figure:
    return Figure(
        what=what,
        unit=unit,
        step=step,
        must=Bound(words=f"{must:g} {unit}", value=must),
        aim=Bound(words=f"{aim:g} {unit}", value=aim),
    )


FIGURES: Final[Mapping[str, Figure]] = {
    "commits-1": _more("commits", "commits, 1 outstanding", 1.5, 2.5),
    "commits-128": _more("commits", "commits, 128 connections", 2.0, 3.0, PYSYNCOBJ),
    "p99-128": _less("commits", "... p99 there", "ms", 0.5, 0.25),
    "cpu-128": _less("commits", "... servers' processor time for 10,000", "s", 0.5, 0.3),
    "commits-512": _more("commits", "commits, 512 connections", 2.0, 4.0),
    "slow-1": _more("slow-fsync", "1 ms added to every fsync: 1 outstanding", 0.95, 1.1),
    "slow-128": _more("slow-fsync", "... 128 connections", 1.5, 2.5),
    "killed": _at_most("killed", "fail-over, leader killed: median", "s", 0.5, 0.3),
    "killed-worst": _at_most("killed", "... worst", "s", 2.5, 1.5),
    "cut-off": _at_most(
        "cut-off", "fail-over, leader silently cut off, 1 s time-outs: median", "s", 1.5, 1.0
    ),
    "idle": _at_most("idle", "idle: processor time of a node", "%", 1.0, 0.35),
    "restart": _at_most("restart", "restart with 1,000,000 records in the log", "s", 3.0, 1.8),
}

STEPS: Final = tuple(dict.fromkeys(figure.step for figure in FIGURES.values()))

Measured = Mapping[str, Mapping[str, Sequence[float]]]
"""By side and by the key of the figure."""


def table(measured: Measured) -> str:
    """One line per figure that was measured: medians, and lowest to highest."""
    lines = [
        f"| what | unit | {' | '.join(SIDES)} | to etcd | must | aim | met |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for key, figure in FIGURES.items():
        samples = {side: measured.get(side, {}).get(key, ()) for side in SIDES}
        if not any(samples.values()):
            continue
        shown = " | ".join(_shown(samples[side]) for side in SIDES)
        lines.append(
            f"| {figure.what} | {figure.unit} | {shown} | {_ratio(samples)} "
            f"| {_words(figure.must)} | {_words(figure.aim)} | {met(figure, samples)} |"
        )
    return "\n".join(lines)


def met(figure: Figure, samples: Mapping[str, Sequence[float]]) -> str:
    """The best that was reached: the aim, what it must be, or neither."""
    ours = samples[OURS]
    others = {side: median(found) for side, found in samples.items() if found and side != OURS}
    if not ours or figure.must is None or figure.aim is None:
        return ""
    if figure.must.factor is not None and ETCD not in others:
        return ""
    if figure.aim.is_met(median(ours), others, large=figure.large):
        return "aim"
    return "must" if figure.must.is_met(median(ours), others, large=figure.large) else "no"


def described(command: str, facts: Mapping[str, str], measured: Measured) -> str:
    """All that a run writes into the document."""
    listed = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    return f"`{command}`\n\n{listed}\n\n{table(measured)}\n"


def _ratio(samples: Mapping[str, Sequence[float]]) -> str:
    if not samples[OURS] or not samples[ETCD] or not median(samples[ETCD]):
        return "–"
    return f"{median(samples[OURS]) / median(samples[ETCD]):.2f}"


def _words(bound: Bound | None) -> str:
    return "" if bound is None else bound.words


def _shown(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = f" ({_number(min(values))}–{_number(max(values))})" if len(values) > 1 else ""
    return f"{_number(median(values))}{spread}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
