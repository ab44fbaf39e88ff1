"""The quorum's log, put together from hurt copies of small quorums: nothing that is not true."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.reports.contradictions import believed
from lag.reports.quorum_log import QuorumLog, merge
from lag.source.runs import Run
from tests.lag import handmade_logs
from tests.lag.damage import Hurt, hurt_at_random
from tests.lag.small_quorum import Made, SmallQuorum


def merged(root: Path, **options: Any) -> QuorumLog | None:
    walked = handmade_logs.rows(root, "walk", **options)
    runs = [Run(**json.loads(row["said"])) for row in walked if row["kind"] == "runs"]
    replicas = [json.loads(row["said"]) for row in walked if row["kind"] == "replicas"]
    indexed = [Run(**json.loads(row["said"])) for row in walked if row["kind"] == "indexed"]
    return merge(believed(runs), replicas, indexed=indexed)


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


@pytest.mark.parametrize("seed", range(60))
def test_the_log_has_what_is_left_and_provable_and_nothing_else(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    quorum = SmallQuorum(rng)
    hurt = Hurt.of(quorum.copies, tmp_path)
    hurt_at_random(rng, hurt, quorum.log)
    hurt.apply()
    log = merged(tmp_path, partition_bytes=rng.choice((1024, 1 << 20)))
    reached = [hurt.reached(name) for name in hurt.files]
    truth = max(reached, key=lambda each: (each[-1].epoch, each[-1].end) if each else (0, 0))
    intact = {str(name): hurt.intact(name) for name in hurt.files}
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
            assert held[at].key == is_true[at].key, (piece, hurt.deeds)
            assert held[at].epoch == piece.epoch
            found.add(held[at].key)
            at = held[at].end
        assert at == piece.end
    assert provable(list(intact.values())) & {each.key for each in truth} <= found, hurt.deeds


def test_the_indexes_of_a_log_without_segments_tell_what_it_had(tmp_path: Path) -> None:
    quorum = SmallQuorum(random.Random(3))
    hurt = Hurt.of(quorum.copies, tmp_path)
    best = max(quorum.copies, key=lambda copy: copy.last)
    (gone, *_) = (copy for copy in quorum.copies if copy.is_timed and copy is not best)
    for file in hurt.files[gone.name]:
        hurt.lose(file, with_index=False)
    hurt.apply()
    log = merged(tmp_path)
    assert log is not None
    known = {each.key for each in best.batches}
    end = max(each.end for each in gone.batches if each.key in known)
    assert end > 0
    assert log.shared[str(gone.name)] == end
    assert log.lost[str(gone.name)] == [(0, end)]
