"""The protobuf form of a scrape, read by a decoder of its own, has what the text has."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from admin.monitoring.exposition import protobuf_of, text_of
from admin.monitoring.metric_table import Sample
from admin.monitoring.protobuf_exposition import CONTENT_TYPE, is_preferred
from quorum.histogram import DISK_SECONDS, Histogram, NativeHistogram
from quorum.records.varint import read_uvarint

PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"
DELIMITED = f"{PROTOBUF};encoding=delimited"
SECONDS = st.lists(st.floats(min_value=1e-6, max_value=100))


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, doubles, and bytes."""
    at = 0
    while at < len(message):
        key, at = read_uvarint(message, at)
        kind, value = key & 7, b""
        if kind == 1:
            yield key >> 3, struct.unpack_from("<d", message, at)[0]
            at += 8
            continue
        number, at = read_uvarint(message, at)
        if kind == 2:
            value, at = message[at : at + number], at + number
        yield key >> 3, value if kind == 2 else number


def families(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = read_uvarint(data, at)
        yield data[at : at + size]
        at += size


def every(message: bytes, field: int) -> list[Any]:
    return [value for number, value in fields(message) if number == field]


def one(message: bytes, field: int) -> Any:
    (value,) = every(message, field)
    return value


def series_of(family: bytes) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
    """The series of a family as the text has them."""
    name = one(family, 1).decode()
    for metric in every(family, 4):
        labels = {one(pair, 1).decode(): one(pair, 2).decode() for pair in every(metric, 1)}

        def named(suffix: str, value: float, of: dict[str, str] = labels, **more: str) -> Any:
            return name + suffix, tuple(sorted((of | more).items())), value

        for kind in (2, 3):
            for value in every(metric, kind):
                yield named("", one(value, 1))
        for histogram in every(metric, 7):
            for bucket in every(histogram, 3):
                bound = one(bucket, 2)
                le = "+Inf" if bound == float("inf") else str(bound)
                yield named("_bucket", one(bucket, 1), le=le)
            yield named("_count", one(histogram, 1))
            yield named("_sum", one(histogram, 2))


def unzigzag(number: int) -> int:
    return number >> 1 if number % 2 == 0 else -(number >> 1) - 1


def native_of(histogram: bytes) -> dict[int, int]:
    """The counts of the native buckets, by bucket."""
    buckets: list[int] = []
    at = 0
    for span in every(histogram, 12):
        at += unzigzag(one(span, 1))
        length = one(span, 2)
        buckets += range(at, at + length)
        at += length
    count, counts = 0, []
    for delta in every(histogram, 13):
        count += unzigzag(delta)
        counts.append(count)
    return dict(zip(buckets, counts, strict=True))


def observed(kind: type[Histogram], seconds: list[float]) -> Any:
    found = kind(DISK_SECONDS)
    for each in seconds:
        found.observe(each)
    return found


@given(SECONDS, st.floats(allow_nan=False))
def test_it_has_the_series_of_the_text(seconds: list[float], gauge: float) -> None:
    samples = [
        Sample("quorum_commit_latency_seconds", observed(NativeHistogram, seconds)),
        Sample("quorum_request_seconds", observed(Histogram, seconds), ("Fetch",)),
        Sample("quorum_request_seconds", observed(Histogram, seconds), ('"\n\\',)),
        Sample("quorum_leader_changes_total", 7),
        Sample("quorum_replica_lag_seconds", gauge, ("3",)),
    ]
    text = {
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text_of(samples).decode())
        for sample in family.samples
        if not sample.name.startswith("process_")
    }
    found = {each for family in families(protobuf_of(samples)) for each in series_of(family)}
    assert {each for each in found if not each[0].startswith("process_")} == text


@given(SECONDS)
def test_native_buckets_come_back(seconds: list[float]) -> None:
    histogram = observed(NativeHistogram, [*seconds, 0.0])
    sample = Sample("quorum_commit_latency_seconds", histogram)
    family = next(each for each in families(protobuf_of([sample])) if b"commit_latency" in each)
    found = one(one(family, 4), 7)
    assert native_of(found) == histogram.native
    assert (unzigzag(one(found, 5)), one(found, 7)) == (3, 1)
    # A native histogram has a span, also if nothing was observed.
    assert every(found, 12)


def test_a_classic_histogram_has_no_native_buckets() -> None:
    sample = Sample("quorum_election_seconds", observed(Histogram, [1.0]))
    family = next(each for each in families(protobuf_of([sample])) if b"election" in each)
    found = one(one(family, 4), 7)
    assert not any(every(found, field) for field in (5, 6, 7, 12, 13))


@pytest.mark.parametrize(
    ("accept", "preferred"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        (PROTOBUF, False),
        (DELIMITED, True),
        (f"{DELIMITED};q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        (f"text/plain;q=0.6,{DELIMITED};q=0.5", False),
        (f"{DELIMITED};q=0", False),
        (f"{DELIMITED};q=high", False),
        (CONTENT_TYPE, True),
    ],
)
def test_it_is_taken_only_if_it_is_preferred(accept: str, preferred: bool) -> None:
    assert is_preferred(accept) is preferred
