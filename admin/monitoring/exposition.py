"""The text of a scrape: samples in the order of the table, by the official client library."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, ProcessCollector, generate_latest
from prometheus_client.core import Metric as Family

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
    """The exposition of these samples and of the process."""
    families: dict[str, Family] = {}
    for each in samples:
        row = METRICS[each.name]
        family = families.get(each.name)
        if family is None:
            family = families[each.name] = _family(row)
        labels = dict(zip(row.labels, each.labels, strict=True))
        if isinstance(each.value, Histogram):
            _add_histogram(family, row, labels, each.value)
        else:
            family.add_sample(row.name, labels, each.value)
    for family in _of_process():
        families[family.samples[0].name] = family
    ordered = [families[name] for name in METRICS if name in families]
    return generate_latest(_Families(ordered))


def _family(row: Metric) -> Family:
    return Family(row.name.removesuffix("_total"), row.help, row.kind)


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


def _of_process() -> Iterator[Family]:
    """Yield what the library knows of the process, with the texts of the table."""
    for found in _PROCESS.collect():
        for sample in found.samples:
            row = METRICS.get(sample.name)
            if row is not None:
                family = _family(row)
                family.add_sample(sample.name, {}, sample.value)
                yield family


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)
