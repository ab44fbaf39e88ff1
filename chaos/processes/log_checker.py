"""Checks of the logs on disk after every process has ended: logs are equal and complete.

It reads the log directories of the nodes with `quorum.log`. Of the nodes' own reports it uses only
the high watermark, up to which the logs must agree.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from chaos.processes.load import NAME, Register, number_of
from quorum.core.vocabulary import Offset
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from quorum.records.batch import headers
from quorum.records.decode import decode as decode_records
from statemachine.records.codec import decode
from statemachine.records.kafka_records import Config

_ALL: Final = 1 << 40


def committed_log(data: Path, end: int) -> tuple[int, bytes]:
    """The start of the log in this folder, and its bytes up to `end`; no process may be using
    it."""
    log = SegmentedLog(data / LOG_FOLDER)
    try:
        return log.start, log.read(log.start, Offset(end), _ALL)
    finally:
        log.close()


def disagreements(logs: Mapping[int, tuple[int, bytes]], end: int) -> list[str]:
    """The places where the logs of the nodes, each with its start, differ below `end`."""
    problems = []
    latest = max(start for start, _ in logs.values())
    tails = {node: _from(log, latest) for node, (_, log) in logs.items()}
    for node, tail in tails.items():
        reached = _end(tail, latest)
        if reached != end:
            problems.append(f"the log of node {node} has {reached} records, committed are {end}")
    first, *others = sorted(tails)
    for node in others:
        if tails[node] != tails[first]:
            differs = _first_difference(tails[first], tails[node])
            problems.append(f"the logs of nodes {first} and {node} differ at byte {differs}")
    return problems


def missing(registers: Collection[Register], start: int, log: bytes) -> list[str]:
    """The acknowledged writes that are not in this log.

    If snapshots have cut its start, a register is checked from the first number that is left.
    """
    written: dict[str, set[int]] = {each.name: set() for each in registers}
    for record in decode_records(log):
        found = None if record.control or record.value is None else decode(record.value)
        if isinstance(found, Config) and found.resource_name in written and found.name == NAME:
            written[found.resource_name].add(number_of(found.value))
    lost = {each.name: _lost(each, start, written[each.name]) for each in registers}
    return [
        f"{len(numbers)} writes of {name} were acknowledged and are not in the log, "
        f"the first is {numbers[0]}"
        for name, numbers in lost.items()
        if numbers
    ]


def _lost(register: Register, start: int, written: set[int]) -> list[int]:
    first = 0 if start == 0 else min(written, default=register.asked + 1)
    return [each for each in register.acknowledged if each not in written and each >= first]


def _from(log: bytes, start: int) -> bytes:
    """The bytes of the batches that begin at or after `start`."""
    position = next(
        (position for position, header in headers(log) if header.base_offset >= start), len(log)
    )
    return log[position:]


def _end(log: bytes, empty: int) -> int:
    ends = [header.end_offset for _, header in headers(log)]
    return ends[-1] if ends else empty


def _first_difference(one: bytes, other: bytes) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
