"""The figures compared with Kafka's controllers, their targets, and the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.rivals import Side

NONE_MS: Final = 100.0
"""A silence no longer than this counts as none."""
AS_KAFKA: Final = 1.1
"""The tolerance: medians of the same figure differ by this much between runs."""
FASTER: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A target: a share of Kafka's median, or a value. `words` describe it in the table."""

    words: str
    share: float | None = None
    value: float | None = None

    def is_met(self, ours: float, kafkas: float) -> bool:
        """True if our median meets the target."""
        if self.value is not None:
            return ours <= self.value
        assert self.share is not None
        return ours <= self.share * kafkas


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. A figure without bounds is for information only."""

    what: str
    unit: str
    must: Bound | None = None
    aim: Bound | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """The values measured for one figure on one side."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.values)

    def __str__(self) -> str:
        if not self.values:
            return "–"
        lowest, highest = min(self.values), max(self.values)
        return f"{_shown(self.median)} ({_shown(lowest)}–{_shown(highest)})"


Measured = Mapping[Side, Mapping[str, Sequence[float]]]
"""The values of each side by the key of the figure."""

_AS_KAFKA: Final = Bound(words="as Kafka", share=AS_KAFKA)
_HALF: Final = Bound(words="half", share=0.5)
_FIFTH: Final = Bound(words="a fifth", share=0.2)

FIGURES: Final[Mapping[str, Figure]] = {
    "start": Figure(
        what="broker: start of its process to unfenced",
        unit="ms",
        must=_AS_KAFKA,
        aim=Bound(words="faster", share=FASTER),
    ),
    "start-again": Figure(what="... when it comes back right after a clean stop", unit="ms"),
    "topic": Figure(
        what="topic of 100 partitions: request to a record acknowledged in each",
        unit="ms",
        must=_HALF,
        aim=_FIFTH,
    ),
    "topic-answered": Figure(what="... of it, to the answer", unit="ms"),
    "topic-shown": Figure(what="... to every leader known on every broker", unit="ms"),
    "controller-killed": Figure(
        what="producer's longest silence, active controller killed",
        unit="ms",
        must=_AS_KAFKA,
        aim=Bound(words="none", value=NONE_MS),
    ),
    "quiet": Figure(what="... the same while nothing is killed", unit="ms"),
    "create-again": Figure(what="... kill to a topic created", unit="ms"),
    "broker-killed": Figure(
        what="producer's longest silence, broker killed",
        unit="ms",
        must=_AS_KAFKA,
        aim=Bound(words="shorter", share=FASTER),
    ),
    "reassignment": Figure(
        what="reassignment of 200 empty partitions: request to verified",
        unit="ms",
        must=_HALF,
        aim=_FIFTH,
    ),
    "reassignment-answered": Figure(what="... of it, to the answer", unit="ms"),
    "idle": Figure(
        what="processor time of three idle controllers, three brokers",
        unit="s/min",
        must=_HALF,
        aim=Bound(words="a tenth", share=0.1),
    ),
}


def table(measured: Measured) -> str:
    """One line per figure that was measured on both sides: medians, lowest and highest values."""
    lines = [
        "| what | unit | ours | Kafka's | ratio | must | aim | met |",
        "| --- | --- | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for key, figure in FIGURES.items():
        ours, kafkas = (Samples(measured[side].get(key, ())) for side in Side)
        if not ours.values and not kafkas.values:
            continue
        lines.append(
            f"| {figure.what} | {figure.unit} | {ours} | {kafkas} | {_ratio(ours, kafkas)} "
            f"| {_words(figure.must)} | {_words(figure.aim)} | {met(figure, ours, kafkas)} |"
        )
    return "\n".join(lines)


def met(figure: Figure, ours: Samples, kafkas: Samples) -> str:
    """The better target that was met: `aim`, `must`, or neither."""
    if figure.must is None or figure.aim is None or not ours.values or not kafkas.values:
        return ""
    if figure.aim.is_met(ours.median, kafkas.median):
        return "aim"
    return "must" if figure.must.is_met(ours.median, kafkas.median) else "no"


def _ratio(ours: Samples, kafkas: Samples) -> str:
    if not ours.values or not kafkas.values or not kafkas.median:
        return "–"
    return f"{ours.median / kafkas.median:.2f}"


def _words(bound: Bound | None) -> str:
    return "" if bound is None else bound.words


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
