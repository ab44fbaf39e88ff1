"""The batches on the disks of Kafka's brokers for records that an account does not explain.

A producer repeats a batch under its id, its epoch and its sequence number, and a broker that has
them appends nothing twice. If one record is at two offsets, the two batches tell the cause: the
same three numbers mean the broker, others the client.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from quorum.records.batch import CorruptBatch, Header, headers

Places = Mapping[int, Collection[int]]
"""By partition: offsets in question."""


def evidence(brokers: Sequence[Path], topic: str, places: Places) -> str:
    """A line for each batch that holds one of these offsets, broker by broker.

    `brokers` are the folders of their logs. Of a segment, what comes before its first batch that
    is not whole is looked at.
    """
    return "\n".join(
        f"{folder.parent.name} {topic}-{partition}: {_described(header)}"
        for partition, offsets in sorted(places.items())
        for folder in brokers
        for header in _batches(folder / f"{topic}-{partition}")
        if any(header.base_offset <= each < header.end_offset for each in offsets)
    )


def _batches(log: Path) -> Iterator[Header]:
    for segment in sorted(log.glob("*.log")):
        with suppress(CorruptBatch):
            yield from (header for _, header in headers(segment.read_bytes()))


def _described(header: Header) -> str:
    return (
        f"offsets {header.base_offset} to {header.end_offset - 1} of leader epoch {header.epoch}, "
        f"by producer {header.producer_id} in its epoch {header.producer_epoch} "
        f"from sequence {header.base_sequence} on"
    )
