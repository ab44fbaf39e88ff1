"""The figures compared with Kafka, and their targets."""

import pytest

from bench.figures import FIGURES, NONE_MS, Bound, Figure, Samples, met, table
from bench.rivals import Side
from bench.rounds import STEPS
from bench.silence import longest_silence

FIGURE = Figure(
    what="x",
    unit="ms",
    must=Bound(words="half", share=0.5),
    aim=Bound(words="a fifth", share=0.2),
)


@pytest.mark.parametrize(
    ("ours", "reached"), [(19.0, "aim"), (20.0, "aim"), (21.0, "must"), (50.0, "must"), (51, "no")]
)
def test_a_figure_is_judged_by_its_share_of_kafkas_median(ours: float, reached: str) -> None:
    assert met(FIGURE, Samples([ours]), Samples([100.0])) == reached


def test_a_silence_is_none_below_a_value_however_long_kafkas_is() -> None:
    figure = FIGURES["controller-killed"]
    assert met(figure, Samples([NONE_MS]), Samples([1.0])) == "aim"
    assert met(figure, Samples([NONE_MS + 1]), Samples([1_000.0])) == "must"
    assert met(figure, Samples([NONE_MS + 1]), Samples([50.0])) == "no"


def test_figures_that_one_side_lacks_are_not_judged() -> None:
    assert met(FIGURE, Samples([1.0]), Samples([])) == ""
    assert met(FIGURES["quiet"], Samples([1.0]), Samples([2.0])) == ""


def test_the_table_shows_medians_extremes_and_the_ratio() -> None:
    measured = {Side.OURS: {"topic": [30.0, 10.0, 20.5]}, Side.KAFKAS: {"topic": [1_000.0, 40.0]}}
    lines = table(measured).splitlines()
    assert len(lines) == 3
    assert "| 20.5 (10–30) | 520 (40–1,000) | 0.04 | half | a fifth | aim |" in lines[-1]


def test_a_figure_that_only_one_side_has_is_told_without_a_ratio() -> None:
    line = table({Side.OURS: {"idle": [1.0]}, Side.KAFKAS: {}}).splitlines()[-1]
    assert "| 1 (1–1) | – | – |" in line


def test_every_figure_that_must_be_reached_has_a_step_of_its_name() -> None:
    assert {key for key, figure in FIGURES.items() if figure.must is not None} == set(STEPS)


def test_a_silence_reaches_from_edge_to_edge() -> None:
    assert longest_silence([1.0, 2.0, 5.0], 0.0, 6.0) == 3.0
    assert longest_silence([], 0.0, 6.0) == 6.0
    assert longest_silence([5.5], 0.0, 6.0) == 5.5
    assert longest_silence([0.5], 0.0, 6.0) == 5.5


def test_acknowledgements_outside_a_period_do_not_shorten_its_silence() -> None:
    assert longest_silence([1.0, 9.0], 2.0, 8.0) == 6.0
