"""R27, append times: violations that are found, and valid indexes that pass."""

import os

import pytest

from chaos.disk.disk_state import File
from chaos.invariants.append_times import HEADER, SUFFIX, AppendTimes, Clock, check_whole
from chaos.invariants.disk_format import StoredBatch
from chaos.simulation.machine import LOG
from chaos.simulation.profile import Profile
from chaos.simulation.run import Simulation
from chaos.violation import Violation
from quorum.log.append_times import UNKNOWN, encode_entry

SEGMENT = f"{4:020}.log"
INDEX = f"{4:020}.appendtime"
BATCHES = [StoredBatch(4, 6, 1, b"a"), StoredBatch(6, 7, 1, b"b"), StoredBatch(7, 9, 2, b"c")]
CLOCK = Clock(1_000, 2_000)


def judge(*entries: bytes, header: bytes = HEADER) -> None:
    file = File(durable=bytearray(header + b"".join(entries)))
    AppendTimes().check("1", [(SEGMENT, BATCHES)], {INDEX: file}, CLOCK)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [encode_entry(1_000, 6, 1)],
        [encode_entry(1_500, 7, 1), encode_entry(1_400, 9, 2)],
        [encode_entry(UNKNOWN, 9, UNKNOWN)],
        [encode_entry(1_000, 6, 1), bytes(24), encode_entry(2_000, 9, 2)],
        [encode_entry(1_000, 6, 1), encode_entry(2_000, 9, 2)[:11]],
    ],
)
def test_any_valid_part_of_a_correct_index_passes(entries: list[bytes]) -> None:
    judge(*entries)


@pytest.mark.parametrize("header", [b"", b"MQA", bytes(8), bytes(3), b"M" + bytes(7)])
def test_any_part_of_its_first_bytes_passes(header: bytes) -> None:
    judge(header=header)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([encode_entry(1_000, 5, 1)], "no such batch"),
        ([encode_entry(1_000, 10, 2)], "no such batch"),
        ([encode_entry(1_000, 4, 1)], "no such batch"),
        ([encode_entry(1_000, 7, 1), encode_entry(1_000, 6, 1)], "no such batch"),
        ([encode_entry(1_000, 7, 1), encode_entry(1_000, 7, 1)], "no such batch"),
        ([encode_entry(1_000, 9, 2)], "covers"),
        ([encode_entry(1_000, 6, 2)], "covers"),
        ([encode_entry(999, 6, 1)], "a time outside"),
        ([encode_entry(2_001, 6, 1)], "a time outside"),
    ],
)
def test_an_incorrect_index_fails(entries: list[bytes], why: str) -> None:
    with pytest.raises(Violation, match=rf"R27.*{why}"):
        judge(*entries)


def test_a_file_of_another_kind_does_not() -> None:
    with pytest.raises(Violation, match=r"R27.*no index"):
        judge(header=b"MQBT\0\1\0\0")


def test_an_index_that_is_to_be_whole_tells_of_the_last_batch() -> None:
    check_whole("1", HEADER + encode_entry(1_000, 9, 2), BATCHES[-1])
    for index in (HEADER, HEADER + encode_entry(1_000, 7, 1), HEADER + bytes(24)):
        with pytest.raises(Violation, match="R27"):
            check_whole("1", index, BATCHES[-1])


def test_a_checked_index_is_checked_again_against_other_batches_or_bytes() -> None:
    times, file = AppendTimes(), File(durable=bytearray(HEADER + encode_entry(1_000, 6, 1)))
    times.check("1", [(SEGMENT, BATCHES[:1])], {INDEX: file}, CLOCK)
    file.durable += encode_entry(1_500, 7, 1)
    times.check("1", [(SEGMENT, BATCHES)], {INDEX: file}, CLOCK)
    others = [StoredBatch(4, 6, 2, b"other"), *BATCHES[1:2], StoredBatch(7, 10, 2, b"c")]
    with pytest.raises(Violation, match=r"R27.*covers"):
        times.check("1", [(SEGMENT, others)], {INDEX: file}, CLOCK)
    file.durable[len(HEADER) :] = encode_entry(999, 6, 1) + encode_entry(1_500, 9, 2)
    with pytest.raises(Violation, match=r"R27.*a time outside"):
        times.check("1", [(SEGMENT, BATCHES)], {INDEX: file}, CLOCK)


def test_entries_behind_checked_ones_are_checked_like_the_first() -> None:
    times, file = AppendTimes(), File(durable=bytearray(HEADER + encode_entry(1_000, 6, 1)))
    times.check("1", [(SEGMENT, BATCHES)], {INDEX: file}, CLOCK)
    file.durable += encode_entry(2_001, 7, 1)
    with pytest.raises(Violation, match=r"R27.*a time outside"):
        times.check("1", [(SEGMENT, BATCHES)], {INDEX: file}, CLOCK)


def test_a_sync_that_fails_excuses_the_index_that_it_was_for_and_no_other() -> None:
    simulation = Simulation(Profile.drawn(11))
    simulation.run()
    machine = simulation.world.machines[simulation.world.voters[0]]
    now_ms, disk = simulation.world.timeline.now_ms, machine.disk
    first, second, *_ = (LOG / each for each in disk.names(LOG) if each.endswith(SUFFIX))
    machine.sync_fails = True
    with pytest.raises(OSError, match=os.strerror(5)):
        disk.fdatasync(disk.open(first, os.O_RDWR))
    wrong = encode_entry(1_000, 1 << 40, 1)
    disk.overwrite(first, len(HEADER), wrong)
    machine.check_times(now_ms)
    disk.overwrite(second, len(HEADER), wrong)
    with pytest.raises(Violation, match=f"R27.*{second.name}"):
        machine.check_times(now_ms)
