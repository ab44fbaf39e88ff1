"""Metrics in Prometheus's protobuf form (io.prometheus.client.MetricFamily), for native histograms.

Prometheus asks for this form when it takes native histograms. A message of protobuf is a sequence
of fields: a number with the type of what follows, and the value
(https://protobuf.dev/programming-guides/encoding). The client library for Python writes text only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from struct import Struct
from types import MappingProxyType
from typing import Final

from admin.monitoring.metric_table import Kind, Metric, Sample
from quorum.histogram import SCHEMA, Histogram, NativeHistogram
from quorum.records.varint import uvarint, zigzag

CONTENT_TYPE: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)

_VARINT, _EIGHT_BYTES, _BYTES = 0, 1, 2
_DOUBLE: Final = Struct("<d")
_TYPES: Final[Mapping[Kind, int]] = MappingProxyType(
    {Kind.COUNTER: 0, Kind.GAUGE: 1, Kind.HISTOGRAM: 4}
)
# Fields of MetricFamily, Metric, LabelPair, Histogram, Bucket and BucketSpan.
_NAME, _HELP, _TYPE, _METRIC = 1, 2, 3, 4
_LABEL, _HISTOGRAM = 1, 7
_OF_KIND: Final[Mapping[Kind, int]] = MappingProxyType({Kind.GAUGE: 2, Kind.COUNTER: 3})
_LABEL_NAME, _LABEL_VALUE = 1, 2
_VALUE = 1
_COUNT, _SUM, _BUCKET = 1, 2, 3
_SCHEMA, _ZERO_THRESHOLD, _ZERO_COUNT, _SPAN, _DELTA = 5, 6, 7, 12, 13
_CUMULATIVE, _UPPER_BOUND = 1, 2
_OFFSET, _LENGTH = 1, 2

ZERO_THRESHOLD: Final = 2.0**-128
"""Prometheus's default: what is closer to zero counts as zero."""


_MEDIA: Final = ("application/vnd.google.protobuf", "proto=io.prometheus.client.metricfamily")


def is_preferred(accept: str) -> bool:
    """Return True if an Accept header prefers this form to all others that it names."""
    best = {True: 0.0, False: 0.0}
    for each in accept.split(","):
        media, *parameters = map(str.strip, each.lower().split(";"))
        weight = next((word[2:] for word in parameters if word.startswith("q=")), "1")
        is_ours = media == _MEDIA[0] and {_MEDIA[1], "encoding=delimited"} <= {*parameters}
        if re.fullmatch(r"[01](\.[0-9]{0,3})?", weight):
            best[is_ours] = max(best[is_ours], float(weight))
    return best[True] > 0 and best[True] >= best[False]


def family(row: Metric, samples: Sequence[Sample]) -> bytes:
    """One metric with all its series: a message behind its length."""
    message = b"".join(
        (
            _text(_NAME, row.name),
            _text(_HELP, row.help),
            _number(_TYPE, _TYPES[row.kind]),
            *(_message(_METRIC, _series(row, each)) for each in samples),
        )
    )
    return uvarint(len(message)) + message


def _series(row: Metric, sample: Sample) -> bytes:
    labels = (
        _message(_LABEL, _text(_LABEL_NAME, name) + _text(_LABEL_VALUE, value))
        for name, value in zip(row.labels, sample.labels, strict=True)
    )
    if isinstance(sample.value, Histogram):
        value = _message(_HISTOGRAM, b"".join(_histogram(sample.value)))
    else:
        value = _message(_OF_KIND[row.kind], _double(_VALUE, sample.value))
    return b"".join((*labels, value))


def _histogram(found: Histogram) -> Iterator[bytes]:
    """Yield the fields of a histogram: its classic buckets, and its native ones if it has them.

    The native ones are read first: the counts may grow meanwhile, and a native histogram is
    invalid if its buckets have more than its count.
    """
    native = dict(found.native) if isinstance(found, NativeHistogram) else None
    counts = tuple(found.counts)
    total = sum(counts)
    yield _number(_COUNT, total)
    yield _double(_SUM, found.sum)
    so_far = 0
    for bound, count in zip((*found.bounds, float("inf")), counts, strict=True):
        so_far += count
        yield _message(_BUCKET, _number(_CUMULATIVE, so_far) + _double(_UPPER_BOUND, bound))
    if native is not None:
        yield from _native(native, total - sum(native.values()))


def _native(counts: Mapping[int, int], zeros: int) -> Iterator[bytes]:
    yield _number(_SCHEMA, zigzag(SCHEMA))
    yield _double(_ZERO_THRESHOLD, ZERO_THRESHOLD)
    yield _number(_ZERO_COUNT, zeros)
    buckets = sorted(counts)
    end = 0
    for first, length in _runs(buckets):
        yield _message(_SPAN, _number(_OFFSET, zigzag(first - end)) + _number(_LENGTH, length))
        end = first + length
    if not buckets:
        # Without a span it would be taken for a classic histogram.
        yield _message(_SPAN, _number(_OFFSET, 0) + _number(_LENGTH, 0))
    for before, count in pairwise((0, *(counts[each] for each in buckets))):
        yield _number(_DELTA, zigzag(count - before))


def _runs(buckets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first bucket and the length of each run of consecutive ones."""
    for _, run in groupby(enumerate(buckets), key=lambda each: each[1] - each[0]):
        found = [bucket for _, bucket in run]
        yield found[0], len(found)


def _key(field: int, kind: int) -> bytes:
    return uvarint(field << 3 | kind)


def _number(field: int, number: int) -> bytes:
    return _key(field, _VARINT) + uvarint(number)


def _double(field: int, number: float) -> bytes:
    return _key(field, _EIGHT_BYTES) + _DOUBLE.pack(number)


def _message(field: int, message: bytes) -> bytes:
    return _key(field, _BYTES) + uvarint(len(message)) + message


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())
