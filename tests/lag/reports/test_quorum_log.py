"""The quorum's log, put together from damaged copies of small quorums: nothing that is not true."""

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.reports import logs
from lag.reports.contradictions import believed
from lag.reports.quorum_log import QuorumLog, merge, snapshots_of
from lag.results import Rows
from lag.source.runs import Run
from tests.lag import handmade_logs
from tests.lag.damage import DamagedCopies, damage_at_random
from tests.lag.small_quorum import Made, SmallQuorum
from tests.support.parameters import few_in_quick


def merged(root: Path, **options: Any) -> QuorumLog | None:
    walked = handmade_logs.rows(root, "walk", **options)
    runs = [Run(**json.loads(row["said"])) for row in walked if row["kind"] == "runs"]
    replicas = [json.loads(row["said"]) for row in walked if row["kind"] == "replicas"]
    indexed = [Run(**json.loads(row["said"])) for row in walked if row["kind"] == "indexed"]
    committed = [(each.end, each.epoch) for each in snapshots_of(replicas, frozenset())]
    return merge(believed(runs, committed), replicas, indexed=indexed)


def provable(copies: Sequence[Sequence[Made]]) -> set[tuple[int, int]]:
    """The offsets and epochs of all batches that are the quorum's, batch by batch.

    A log that has a batch of an epoch at some offset and another that has a later one of the same
    epoch come from the same leader, and are equal up to the first of the two.
    """
    best = max((each for each in copies if each), key=lambda each: (each[-1].epoch, each[-1].end))
    known = {batch.key for batch in best}
    while True:
        before = len(known)
        for copy in copies:
            for place, batch in enumerate(copy):
                if any(epoch == batch.epoch and at >= batch.offset for at, epoch in known):
                    known.update(each.key for each in copy[: place + 1])
        if len(known) == before:
            return known


@pytest.mark.parametrize("seed", few_in_quick(range(120), every=4))
def test_the_log_has_what_is_left_and_provable_and_nothing_else(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    quorum = SmallQuorum(rng)
    damaged = DamagedCopies.of(quorum.copies, tmp_path)
    damage_at_random(rng, damaged, quorum.log)
    damaged.apply()
    log = merged(tmp_path, partition_bytes=rng.choice((1024, 1 << 20)))
    reached = [damaged.reached(name) for name in damaged.files]
    truth = max(reached, key=lambda each: (each[-1].epoch, each[-1].end) if each else (0, 0))
    intact = {str(name): damaged.intact(name) for name in damaged.files}
    if log is None:
        assert not any(intact.values())
        return
    assert log.end == truth[-1].end
    is_true = {each.offset: each for each in truth}
    found: set[tuple[int, int]] = set()
    for piece in log.pieces:
        held = {each.offset: each for each in intact[piece.replica]}
        at = piece.first
        while at < piece.end:
            assert held[at].key == is_true[at].key, (piece, damaged.deeds)
            assert held[at].epoch == piece.epoch
            found.add(held[at].key)
            at = held[at].end
        assert at == piece.end
    assert provable(list(intact.values())) & {each.key for each in truth} <= found, damaged.deeds


def test_the_indexes_of_a_log_without_segments_tell_what_it_had(tmp_path: Path) -> None:
    quorum = SmallQuorum(random.Random(3))
    damaged = DamagedCopies.of(quorum.copies, tmp_path)
    best = max(quorum.copies, key=lambda copy: copy.last)
    (gone, *_) = (copy for copy in quorum.copies if copy.is_timed and copy is not best)
    for file in damaged.files[gone.name]:
        damaged.lose(file, with_index=False)
    damaged.apply()
    log = merged(tmp_path)
    assert log is not None
    known = {each.key for each in best.batches}
    end = max(each.end for each in gone.batches if each.key in known)
    assert end > 0
    assert log.shared[str(gone.name)] == end
    assert log.lost[str(gone.name)] == [(0, end)]


RECORDS = 120


def write(folder: Path, *zeros: tuple[int, int], name: str = "node") -> None:
    """A log of batches of one record each, without an index; the content of these is zeros."""
    made = [handmade_logs.leader_change(0, epoch=3, leader=1, at_ms=handmade_logs.BEGIN_MS)]
    made += handmade_logs.batches([1] * (RECORDS - 1), base=1, epoch=3)
    hit = {at for first, end in zeros for at in range(first, end)}
    made = [bytes(len(each)) if at in hit else each for at, each in enumerate(made)]
    handmade_logs.write_segment(folder / name, 0, made)


def test_a_batch_alone_behind_damage_is_in_place_if_another_copy_has_it(tmp_path: Path) -> None:
    """The copy has the quorum's log to its end, and lost what is damaged."""
    write(tmp_path, name="sound")
    write(tmp_path, (60, RECORDS - 1), name="damaged")
    write(tmp_path, (0, 70), (71, RECORDS), name="single")
    log = merged(tmp_path)
    assert log is not None
    assert log.shared == {"sound": RECORDS, "damaged": RECORDS, "single": 71}
    assert log.lost == {"sound": [], "damaged": [(60, RECORDS - 1)], "single": [(0, 70)]}
    assert (log.misplaced, log.holes) == ((), ())
    assert log.sources == {"sound"}


def test_a_batch_that_nothing_confirms_is_not_used_and_that_is_its_problem(tmp_path: Path) -> None:
    write(tmp_path, (60, RECORDS - 1), name="alone")
    log = merged(tmp_path)
    assert log is not None
    assert [(each.first, each.end) for each in log.pieces] == [(0, 60)]
    (row,) = problems(log)
    assert (row["kind"], row["offset"]) == ("unconfirmed", RECORDS - 1)
    assert row["reason"].startswith("it is between damage, and only its own header says")


def test_a_batch_that_nothing_confirms_shows_how_far_the_log_went(tmp_path: Path) -> None:
    """It is the last one of the newest file, and the file begins with zeros."""
    first = handmade_logs.leader_change(0, epoch=3, leader=1, at_ms=handmade_logs.BEGIN_MS)
    made = handmade_logs.batches([1] * 5, base=1, epoch=3)
    handmade_logs.write_segment(tmp_path / "node", 0, [first, made[0]])
    handmade_logs.write_segment(
        tmp_path / "node", 2, [*(bytes(len(it)) for it in made[1:4]), made[4]]
    )
    log = merged(tmp_path)
    assert log is not None
    assert [(each.first, each.end) for each in log.pieces] == [(0, 2)]
    assert [(hole.first, hole.end) for hole in log.holes] == [(2, 6)]


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_a_damaged_batch_at_the_end_of_a_copy_is_lost_and_not_awaited(
    tmp_path: Path, is_elsewhere: bool
) -> None:
    """Its header says that the copy had these records, and the other copy goes on behind them."""
    write(tmp_path, *() if is_elsewhere else ((59, 60),), name="sound")
    write(tmp_path, name="damaged")
    (path,) = (tmp_path / "damaged").glob("*.log")
    made = [handmade_logs.leader_change(0, epoch=3, leader=1, at_ms=handmade_logs.BEGIN_MS)]
    made += handmade_logs.batches([1] * 59, base=1, epoch=3)
    path.write_bytes(b"".join(made)[:-1] + b"~")
    log = merged(tmp_path)
    assert log is not None
    assert (log.shared["damaged"], log.lost["damaged"]) == (60, [(59, 60)])
    assert [(each.first, each.end) for each in log.holes] == [(59, 60)][is_elsewhere:]


def test_a_damaged_batch_that_the_quorum_gave_up_is_no_part_of_its_log(tmp_path: Path) -> None:
    """The leader of epoch 3 was replaced when its log ended at 60."""
    first = handmade_logs.leader_change(0, epoch=3, leader=1, at_ms=handmade_logs.BEGIN_MS)
    made = [first, *handmade_logs.batches([1] * 59, base=1, epoch=3)]
    second = handmade_logs.leader_change(60, epoch=4, leader=2, at_ms=handmade_logs.BEGIN_MS)
    handmade_logs.write_segment(tmp_path / "sound", 0, [*made, second])
    (given_up,) = handmade_logs.batches([1], base=60, epoch=3)
    handmade_logs.write_segment(tmp_path / "damaged", 0, [*made, given_up[:-1] + b"~"])
    log = merged(tmp_path)
    assert log is not None
    assert (log.shared["damaged"], log.lost["damaged"], log.end) == (60, [], 61)
    assert log.reached == {"damaged": (3, 61)}


def test_a_damaged_batch_at_the_end_of_a_copy_may_be_of_an_epoch_that_is_lost(
    tmp_path: Path,
) -> None:
    """Only the damaged copy had the record of the leader of epoch 4, at offset 60."""
    first, second, third = (
        handmade_logs.leader_change(at, epoch=epoch, leader=1, at_ms=handmade_logs.BEGIN_MS)
        for at, epoch in ((0, 3), (60, 4), (61, 5))
    )
    made = [first, *handmade_logs.batches([1] * 59, base=1, epoch=3)]
    behind = [third, *handmade_logs.batches([1], base=62, epoch=5)]
    handmade_logs.write_segment(tmp_path / "sound", 0, [*made, bytes(len(second)), *behind])
    handmade_logs.write_segment(tmp_path / "damaged", 0, [*made, second[:-1] + b"~"])
    log = merged(tmp_path)
    assert log is not None
    assert [(each.first, each.end) for each in log.holes] == [(60, 61)]
    assert log.reached == {"damaged": (4, 61)}
    assert log.undecided == {"damaged"}


def test_a_sole_batch_that_nothing_confirms_is_not_said_to_be_none(tmp_path: Path) -> None:
    from lag import runner

    for damage, what in (
        ((0, RECORDS), "the logs hold no batch: "),
        ((0, RECORDS - 1), "the logs hold no batch whose place is certain: "),
    ):
        write(tmp_path, damage)
        assert merged(tmp_path) is None
        few: dict[str, Any] = {}
        for row in handmade_logs.rows(tmp_path, "walk"):
            if row["said"] is not None:
                few.setdefault(row["kind"], []).append(json.loads(row["said"]))
        error = runner._no_batch(runner._Walked(None, few), ("/logs",))
        assert str(error).startswith(
            f"{what}{tmp_path}/node/00000000000000000000.log: zeros, where"
        )


def problems(log: QuorumLog) -> Rows:
    """The rows of `problems` that only the comparison of all files gives."""
    from lag import runner

    copies: Any = SimpleNamespace(copies=SimpleNamespace(log=log))
    return runner._with_misplaced(runner._Walked(None, {}), copies).few["problems"]


def test_a_batch_that_contradicts_those_around_it_has_that_problem(tmp_path: Path) -> None:
    made = [
        *handmade_logs.batches([1] * 10, base=1, epoch=3),
        *handmade_logs.batches([1], base=11, epoch=7),
    ]
    first = handmade_logs.leader_change(0, epoch=3, leader=1, at_ms=handmade_logs.BEGIN_MS)
    handmade_logs.write_segment(tmp_path / "damaged", 0, [first, *made])
    log = merged(tmp_path)
    assert log is not None
    (row,) = problems(log)
    assert (row["kind"], row["offset"]) == ("misplaced", 11)
    assert row["reason"].startswith("its offset or its epoch contradicts the batches around it")


@pytest.mark.parametrize("epoch", [3, 4])
def test_a_sole_batch_behind_a_snapshot_is_the_log(tmp_path: Path, epoch: int) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / f"{40:020}-{3:010}.checkpoint").touch()
    made = (
        handmade_logs.batches([2], base=40, epoch=3)[0]
        if epoch == 3
        else handmade_logs.leader_change(40, epoch=4, leader=1, at_ms=handmade_logs.BEGIN_MS)
    )
    handmade_logs.write_segment(tmp_path / "node", 40, [made])
    log = merged(tmp_path)
    assert log is not None
    assert [(each.first, each.epoch) for each in log.pieces] == [(40, epoch)]
    assert log.holes == ()


def damaged_copy(replica: str, count: int, crc: int) -> list[Run]:
    """Batches of a copy, each between damage."""
    return [
        Run(
            replica,
            1,
            first=2 * at,
            end=2 * at + 1,
            path="0.log",
            position=200 * at,
            end_position=200 * at + 99,
            crc=crc + at,
        )
        for at in range(count)
    ]


def test_the_time_is_in_proportion_to_the_damage() -> None:
    def seconds(count: int) -> float:
        runs = [run for name in (1, 2) for run in damaged_copy(str(name), count, name * count)]
        runs += [
            run._replace(end=run.end + 6, batches=7) for run in damaged_copy("3", count, 0)[::4]
        ]
        rows = [{"replica": name, "path": name, "snapshots": []} for name in "123"]
        begun = time.process_time()
        log = merge(believed(runs), rows)
        assert log is not None
        assert len(log.in_place) > count
        logs.borrowed(log, logs.in_order(log.in_place))
        return time.process_time() - begun

    seconds(100)
    assert seconds(16_000) < 50 * max(0.01, seconds(1_000))
