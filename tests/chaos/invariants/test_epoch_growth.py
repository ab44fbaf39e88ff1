"""The epochs that forged requests add to those of elections."""

from pathlib import Path

import pytest

from chaos.invariants.durable_state import DurableState, DurableVote, Incarnation
from chaos.invariants.epoch_growth import LEAP_MAX, REFILL_MS, SLACK, EpochGrowth
from chaos.invariants.history import History
from chaos.violation import Violation
from quorum.core.vocabulary import ReplicaId, ReplicaKey


def process(boot: int, epoch: int) -> Incarnation:
    durable = DurableState(Path("/log"), History())
    durable.vote = DurableVote(epoch)
    return Incarnation(ReplicaKey(ReplicaId(1)), boot, durable)


def test_elections_use_nothing_up() -> None:
    growth = EpochGrowth()
    for epoch in range(1, 3 * SLACK):
        growth.kept(process(1, epoch), now_ms=0)
    assert growth.highest == 3 * SLACK - 1


def test_each_process_may_skip_so_many_epochs_and_more_with_time() -> None:
    growth = EpochGrowth()
    growth.kept(process(1, LEAP_MAX), now_ms=0)
    growth.kept(process(2, 2 * LEAP_MAX), now_ms=0)
    growth.kept(process(1, 2 * LEAP_MAX + SLACK), now_ms=0)
    more = 2 * LEAP_MAX + SLACK + 10
    growth.kept(process(1, more), now_ms=10 * REFILL_MS)
    with pytest.raises(Violation, match=r"R31: .* has skipped"):
        growth.kept(process(1, more + 10), now_ms=10 * REFILL_MS)


def test_an_epoch_that_others_had_before_is_not_skipped() -> None:
    growth = EpochGrowth()
    growth.kept(process(1, LEAP_MAX), now_ms=0)
    growth.kept(process(2, LEAP_MAX), now_ms=0)
    growth.kept(process(2, 2 * LEAP_MAX), now_ms=0)
    assert growth.highest == 2 * LEAP_MAX
