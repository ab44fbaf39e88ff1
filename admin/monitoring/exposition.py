"""The answer to a scrape: samples in the order of the table, by the official client library.

That library writes text. Native histograms need the protobuf form (`protobuf_exposition`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    ProcessCollector,
    generate_latest,
    write_to_textfile,
)
from prometheus_client.core import Metric as Family

from admin.monitoring import protobuf_exposition
from admin.monitoring.metric_table import METRICS, Metric, Sample
from quorum.histogram import Histogram

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class _Families:
    """Families as `generate_latest` takes them."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def text_of(samples: Iterable[Sample]) -> bytes:
    """The exposition of these samples and of the process, as text."""
    return generate_latest(_families((*samples, *_of_process())))


def write_text_file(path: Path, samples: Iterable[Sample]) -> None:
    """Replace a file for the node exporter's textfile collector; raises `OSError`.

    It has these samples alone: the exporter has metrics of its own process.
    """
    write_to_textfile(str(path), _families(samples))


def _families(samples: Iterable[Sample]) -> _Families:
    return _Families(_family(*each) for each in _in_order(samples))


def protobuf_of(samples: Iterable[Sample]) -> bytes:
    """The exposition of these samples and of the process, as delimited protobuf messages."""
    everything = (*samples, *_of_process())
    return b"".join(protobuf_exposition.family(*each) for each in _in_order(everything))


def _in_order(samples: Iterable[Sample]) -> Iterator[tuple[Metric, Sequence[Sample]]]:
    """Yield each metric that has samples, in the order of the table."""
    found: dict[str, list[Sample]] = {}
    for each in samples:
        found.setdefault(each.name, []).append(each)
    return ((METRICS[name], found[name]) for name in METRICS if name in found)


def _family(row: Metric, samples: Sequence[Sample]) -> Family:
    family = Family(row.name.removesuffix("_total"), row.help, row.kind)
    for each in samples:
        labels = dict(zip(row.labels, each.labels, strict=True))
        if isinstance(each.value, Histogram):
            _add_histogram(family, row, labels, each.value)
        else:
            family.add_sample(row.name, labels, each.value)
    return family


def _add_histogram(
    family: Family, row: Metric, labels: Mapping[str, str], found: Histogram
) -> None:
    total, counts = 0, tuple(found.counts)
    for bound, count in zip((*found.bounds, float("inf")), counts, strict=True):
        total += count
        family.add_sample(f"{row.name}_bucket", {**labels, "le": _bound(bound)}, total)
    family.add_sample(f"{row.name}_count", dict(labels), total)
    family.add_sample(f"{row.name}_sum", dict(labels), found.sum)


_PROCESS: Final = ProcessCollector(registry=None)


def _of_process() -> Iterator[Sample]:
    """Yield what the library knows of the process and the table has."""
    for found in _PROCESS.collect():
        for sample in found.samples:
            if sample.name in METRICS:
                yield Sample(sample.name, sample.value)


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)
