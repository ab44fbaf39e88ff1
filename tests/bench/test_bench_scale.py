"""The measured cluster is valid, and its figures are judged."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.fencing import fence
from bench.scale import ROWS, Measured, a_cluster, memory_mb, met, table, write_snapshot
from quorum.log.checkpoint import read_checkpoint
from statemachine.image.snapshot import load
from tests.statemachine.support.reference_checks import check_image

FOUND = Measured(
    imported_mb=60,
    rss_mb=250,
    peak_mb=1_300,
    checked_s=0.75,
    loaded_s=0.75,
    slice_ms=3,
    pause_ms=12,
    snapshot_s=9,
    isr_ms=11,
    isr_count=6_000,
    fence_s=0.3,
    fence_stop_ms=4,
    fence_held=6_000,
    fence_led=2_000,
    rss_after_mb=260,
)


def test_the_loaded_cluster_is_valid_and_of_the_requested_size(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(write_snapshot(a_cluster(1_250, 7), tmp_path))
    image = load(checkpoint.records(), checkpoint.id.offset)
    check_image(image)
    assert sum(len(topic.partitions) for topic in image.topics.values()) == 1_250
    assert [len(keys) for keys in image.index.isr_of.values()] == pytest.approx(
        [1_250 * 3 / 7] * 7, rel=0.1
    )


def test_a_broker_is_fenced_as_the_product_does_it(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(write_snapshot(a_cluster(500, 5), tmp_path))
    image = load(checkpoint.records(), checkpoint.id.offset)
    held, led = (len(part[3]) for part in (image.index.replicas_of, image.index.leader_of))
    found = fence(image, 3)
    check_image(image)
    assert (found.held, found.led) == (held, led)
    assert 0 < led < held
    assert image.brokers[3].fenced
    assert not image.index.leader_of[3]
    assert 0 < found.stop_ms <= found.seconds * 1e3


@pytest.mark.parametrize(("value", "reached"), [(300, "aim"), (301, "must"), (401, "no")])
def test_a_figure_is_judged_by_its_bounds(value: float, reached: str) -> None:
    assert met(ROWS[0], value) == reached
    assert met(ROWS[1], value) == ""


def test_the_table_tells_each_figure_beside_what_it_must_be() -> None:
    lines = table(replace(FOUND, isr_ms=1.5)).splitlines()
    assert "| memory of the process (RSS), loaded | MB | 250 | 400 | 300 | aim |" in lines
    assert "| load: the file checked, then read | s | 1.5 | 3 | 1.5 | aim |" in lines
    assert "| ... at its highest | MB | 1,300 |  |  |  |" in lines
    assert len(lines) == 2 + len(ROWS)


def test_memory_is_read_in_megabytes() -> None:
    assert 1 < memory_mb("VmRSS") <= memory_mb("VmHWM") < 100_000
