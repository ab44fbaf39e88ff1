"""The figures compared with other replicated logs, their targets, and the table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

OURS: Final = "metaquorum"
ETCD: Final = "etcd"
KAFKA: Final = "Kafka"
PYSYNCOBJ: Final = "PySyncObj"
SIDES: Final = (OURS, ETCD, KAFKA, PYSYNCOBJ)
COMPARED: Final = (ETCD, KAFKA)
"""The sides that have a column of ratios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A target: a factor of the medians of others, or a value.

    A factor above 1 is for figures where larger is better.
    """

    words: str
    factor: float | None = None
    value: float | None = None
    beside: tuple[str, ...] = (ETCD,)

    def is_met(self, ours: float, others: Mapping[str, float], *, large: bool) -> bool:
        """True if our median meets the target; sides that were not measured do not count."""
        if self.value is not None:
            return ours >= self.value if large else ours <= self.value
        assert self.factor is not None
        limits = [self.factor * others[side] for side in self.beside if side in others]
        if large:
            return all(ours >= limit for limit in limits)
        return all(ours <= limit for limit in limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. `step` is the step that measures it, for `--only`."""

    what: str
    unit: str
    step: str
    large: bool = False
    must: Bound | None = None
    aim: Bound | None = None
    worst_of: str | None = None
    """The table shows the highest of the values of this figure instead of a median."""
    counted: bool = False
    """True if the table gives the number of values, which may differ between the sides."""

    def of(self, values: Sequence[float]) -> float:
        """The value that represents all."""
        return median(values) if self.worst_of is None else max(values)

    def shown(self, values: Sequence[float]) -> str:
        """A cell of the table."""
        if not values:
            return "–"
        if self.worst_of is not None or len(values) == 1:
            return _number(self.of(values))
        spread = f"{_number(min(values))}–{_number(max(values))}"
        return f"{_number(median(values))} ({spread}{f' of {len(values)}' * self.counted})"


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


def _at_most(
    step: str,
    what: str,
    unit: str,
    must: float,
    aim: float,
    *,
    worst_of: str | None = None,
    counted: bool = False,
) -> Figure:
    return Figure(
        what=what,
        unit=unit,
        step=step,
        must=Bound(words=f"{must:g} {unit}", value=must),
        aim=Bound(words=f"{aim:g} {unit}", value=aim),
        worst_of=worst_of,
        counted=counted,
    )


FIGURES: Final[Mapping[str, Figure]] = {
    "commits-1": _more("commits", "commits, 1 outstanding", 1.5, 2.5),
    "commits-128": _more("commits", "commits, 128 connections", 2.0, 3.0, PYSYNCOBJ),
    "p99-128": _less("commits", "... p99 there", "ms", 0.5, 0.25),
    "cpu-128": _less("commits", "... servers' processor time for 10,000", "s", 0.5, 0.3),
    "commits-512": _more("commits", "commits, 512 connections", 2.0, 4.0),
    "slow-1": _more("slow-fsync", "1 ms added to every fsync: 1 outstanding", 0.95, 1.1),
    "slow-128": _more("slow-fsync", "... 128 connections", 1.5, 2.5),
    "killed": _at_most("killed", "fail-over, leader killed: median", "s", 0.5, 0.3, counted=True),
    "killed-worst": _at_most("killed", "... worst", "s", 2.5, 1.5, worst_of="killed"),
    "cut-off": _at_most(
        "cut-off",
        "fail-over, leader silently cut off, 1 s time-outs: median",
        "s",
        1.5,
        1.0,
        counted=True,
    ),
    "idle": _at_most("idle", "idle: processor time of a node", "%", 1.0, 0.35),
    "restart": _at_most("restart", "restart with 1,000,000 records in the log", "s", 3.0, 1.8),
}

STEPS: Final = tuple(dict.fromkeys(figure.step for figure in FIGURES.values()))

Measured = Mapping[str, Mapping[str, Sequence[float]]]
"""By side and by the key of the figure."""


def table(
    measured: Measured,
    left_out: Collection[str] = (),
    *,
    figures: Mapping[str, Figure] = FIGURES,
    sides: Sequence[str] = SIDES,
    compared: Sequence[str] = COMPARED,
) -> str:
    """One line per figure that was measured: medians, lowest and highest values.

    `left_out` are the sides that could not be measured; `compared` have a column of ratios.
    """
    heads = [*sides, *(f"to {side}" for side in compared)]
    lines = [
        f"| what | unit | {' | '.join(heads)} | must | aim | met |",
        f"| --- | --- |{' ---: |' * len(heads)} --- | --- | --- |",
    ]
    for key, figure in figures.items():
        key = figure.worst_of or key
        samples = {side: measured.get(side, {}).get(key, ()) for side in sides}
        if not any(samples.values()):
            continue
        cells = ["left out" if side in left_out else figure.shown(samples[side]) for side in sides]
        cells += [_ratio(figure, samples, side) for side in compared]
        lines.append(
            f"| {figure.what} | {figure.unit} | {' | '.join(cells)} "
            f"| {_words(figure.must)} | {_words(figure.aim)} | {met(figure, samples)} |"
        )
    return "\n".join(lines)


def met(figure: Figure, samples: Mapping[str, Sequence[float]]) -> str:
    """The better target that was met: `aim`, `must`, or neither."""
    ours = samples[OURS]
    others = {side: figure.of(found) for side, found in samples.items() if found and side != OURS}
    if not ours or figure.must is None or figure.aim is None:
        return ""
    if figure.must.factor is not None and figure.must.beside[0] not in others:
        return ""
    if figure.aim.is_met(figure.of(ours), others, large=figure.large):
        return "aim"
    return "must" if figure.must.is_met(figure.of(ours), others, large=figure.large) else "no"


def absences(left_out: Mapping[str, str]) -> dict[str, str]:
    """The facts of a run about the sides that were not measured; `left_out` has the reasons."""
    return {f"{side} is left out": why for side, why in left_out.items()}


def _ratio(figure: Figure, samples: Mapping[str, Sequence[float]], other: str) -> str:
    if not samples[OURS] or not samples[other] or not figure.of(samples[other]):
        return "–"
    ratio = figure.of(samples[OURS]) / figure.of(samples[other])
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def _words(bound: Bound | None) -> str:
    return "" if bound is None else bound.words


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
