"""Copy progress: the bytes left follow from recent reports of brokers, never from a guess."""

from typing import Final

from msgspec.structs import replace

from statemachine.commands import AlterMove, FenceBrokers, PauseMoves
from statemachine.limits import (
    COPY_FALLS_BEHIND_MS,
    COPY_REPORT_KEPT_MS,
    COPY_REPORTS_PER_BROKER_MAX,
)
from statemachine.reassignment.copies import (
    Copies,
    CopyLookup,
    CopyReport,
    MoveCopies,
    PartitionCopies,
    move_copies,
    no_report,
    partition_copies,
)
from statemachine.reassignment.progress import progress_of
from statemachine.reassignment.step import Reason
from statemachine.slices import whole
from tests.statemachine.reassignment.test_moves import move
from tests.statemachine.reassignment.test_scheduler import limited, some
from tests.statemachine.support.world import TOPIC_ID, World


def report(
    number: int, bytes_left: int, bytes_per_s: int = 100, log_bytes: int | None = None
) -> CopyReport:
    return CopyReport(
        topic_id=TOPIC_ID,
        partition=number,
        bytes_left=bytes_left,
        bytes_per_s=bytes_per_s,
        log_bytes=log_bytes,
    )


def reports_of(*reports: tuple[int, CopyReport]) -> CopyLookup:
    """Return the lookup of reports that these brokers have just sent."""
    copies = Copies()
    for broker_id, each in reports:
        copies.reported(broker_id, [each], 0)
    return copies.at(0)


def moving(target: tuple[int, ...] = (1, 4, 5), count: int = 1) -> World:
    """Partitions of brokers 1, 2 and 3 that move to `target`, all of them in move 1."""
    world = World(broker_count=6)
    some(world, count)
    move(world, dict.fromkeys(range(count), target))
    return world


def left_of(world: World, report_of: CopyLookup, number: int = 0) -> PartitionCopies | None:
    return partition_copies(
        world.image, world.image.topics[TOPIC_ID], number, world.partition(number), report_of
    )


def test_the_last_report_counts_for_ten_seconds() -> None:
    copies = Copies()
    copies.reported(4, [report(0, 500)], 1_000)
    copies.reported(4, [report(0, 400)], 3_000)
    report_of = copies.at(2_999 + COPY_REPORT_KEPT_MS)
    assert report_of(TOPIC_ID, 0, 4) == report(0, 400)
    assert report_of(TOPIC_ID, 1, 4) is None
    assert report_of(TOPIC_ID, 0, 5) is None
    assert copies.at(3_000 + COPY_REPORT_KEPT_MS)(TOPIC_ID, 0, 4) is None


def test_reports_of_one_broker_are_bounded_and_the_oldest_go_first() -> None:
    copies = Copies()
    copies.reported(4, [report(each, 1) for each in range(COPY_REPORTS_PER_BROKER_MAX)], 0)
    copies.reported(4, [report(0, 2), report(COPY_REPORTS_PER_BROKER_MAX, 1)], 0)
    report_of = copies.at(0)
    assert report_of(TOPIC_ID, 0, 4) == report(0, 2)
    assert report_of(TOPIC_ID, 1, 4) is None
    assert report_of(TOPIC_ID, 2, 4) is not None
    assert report_of(TOPIC_ID, COPY_REPORTS_PER_BROKER_MAX, 4) is not None


def test_the_progress_of_a_step_sums_its_replicas_and_its_slowest_gives_the_time() -> None:
    world = moving()
    report_of = reports_of((4, report(0, 1_000, 100)), (5, report(0, 300, 10)))
    assert left_of(world, report_of) == PartitionCopies(
        bytes_left=1_300, bytes_per_s=110, time_left_ms=30_000
    )
    world.sync(1, 2, 3, 5)
    assert left_of(world, report_of) == PartitionCopies(
        bytes_left=1_000, bytes_per_s=100, time_left_ms=10_000
    )


def test_what_is_left_is_the_log_of_the_leader_without_what_is_there() -> None:
    """Records that came first may weigh little, and those that are left much."""
    world = moving()
    copied = ((4, report(0, 1_000, 100, 4_000)), (5, report(0, 300, 10)))
    leaders = (world.partition(0).leader, report(0, 0, 0, 24_000))
    assert left_of(world, reports_of(*copied, leaders)) == PartitionCopies(
        bytes_left=20_300, bytes_per_s=110, time_left_ms=200_000
    )
    shorter = (4, report(0, 1_000, 100, 24_001))
    ahead = left_of(world, reports_of(shorter, copied[1], leaders))
    assert ahead is not None
    assert ahead.bytes_left == 300
    alone = left_of(world, reports_of(*copied))
    assert alone is not None
    assert alone.bytes_left == 1_300


def test_a_stalled_copy_has_no_time_left_unless_nothing_is_left() -> None:
    world = moving()
    still = left_of(world, reports_of((4, report(0, 1, 0)), (5, report(0, 300))))
    assert still == PartitionCopies(bytes_left=301, bytes_per_s=100, time_left_ms=None)
    done = left_of(world, reports_of((4, report(0, 0, 0)), (5, report(0, 0, 0))))
    assert done == PartitionCopies(bytes_left=0, bytes_per_s=0, time_left_ms=0)


def copied_at(
    world: World, *logs: tuple[int, int], left: int = 0, rate: int = 100, every_ms: int = 2_000
) -> Copies:
    """Reports of the leader and of broker 4: the bytes of their logs, by turns of `every_ms`.

    `left` is the estimate of broker 4.
    """
    copies, leader = Copies(), world.partition(0).leader
    for turn, (led, copied) in enumerate(logs):
        copies.reported(leader, [report(0, 0, 0, led)], turn * every_ms)
        copies.reported(4, [report(0, left, rate, copied)], turn * every_ms)
    return copies


TURNS: Final = COPY_FALLS_BEHIND_MS // 2_000
BEHIND_AT: Final = TURNS * 2_000


def test_a_copy_falls_behind_if_more_is_written_than_is_copied() -> None:
    world = moving((1, 2, 4))
    logs = [(10_000 + 300 * turn, 200 * turn) for turn in range(2 * TURNS)]
    not_yet = left_of(world, copied_at(world, *logs[:TURNS]).at(BEHIND_AT - 2_000))
    assert not_yet is not None
    assert (not_yet.behind, not_yet.time_left_ms) == ((), 114_000)
    report_of = copied_at(world, *logs[: TURNS + 1]).at(BEHIND_AT)
    found = left_of(world, report_of)
    assert found == PartitionCopies(
        bytes_left=11_500, bytes_per_s=100, time_left_ms=None, behind=(4,)
    )
    summed = whole(move_copies(world.image, 1, report_of))
    assert (summed.behind, summed.time_left_ms) == (1, None)
    # Nothing more is written: it gets in sync, and this shows as soon as its log has grown so long.
    end, copied = logs[TURNS]
    rest = [(end, copied + 200 * turn) for turn in range(1, 2 * TURNS)]
    found = left_of(world, copied_at(world, *logs[: TURNS + 1], *rest).at(3 * BEHIND_AT - 2_000))
    assert found is not None
    assert found.behind == ()


def test_a_copy_of_heavier_records_does_not_fall_behind() -> None:
    """Its estimate of what is left rises with the records, although nobody writes."""
    world, copies = moving((1, 2, 4)), Copies()
    leader = world.partition(0).leader
    for turn in range(3 * TURNS):
        copies.reported(leader, [report(0, 0, 0, 1_000_000)], turn * 2_000)
        copies.reported(4, [report(0, 500 * turn, 10, 20 * turn)], turn * 2_000)
    found = left_of(world, copies.at(3 * BEHIND_AT - 2_000))
    assert found is not None
    assert found.behind == ()


def test_a_copy_that_waits_for_its_turn_under_a_throttle_does_not_fall_behind() -> None:
    """It copies more than is written, in one batch of a minute."""
    world = moving((1, 2, 4))
    logs = [(1_000_000 + 10 * turn, 20 * 30 * (turn // 30)) for turn in range(151)]
    for turns in range(61, 152):
        found = left_of(world, copied_at(world, *logs[:turns]).at((turns - 1) * 2_000))
        assert found is not None
        assert found.behind == (), turns


def test_a_copy_that_is_nearly_in_sync_does_not_fall_behind() -> None:
    world = moving((1, 2, 4))
    logs = [(1_000 * turn, max(0, 1_000 * (turn - 1))) for turn in range(TURNS + 1)]
    found = left_of(world, copied_at(world, *logs).at(BEHIND_AT))
    assert found is not None
    assert (found.behind, found.bytes_left) == ((), 1_000)


def test_a_copy_that_stands_still_falls_behind_only_if_something_is_written() -> None:
    world = moving((1, 2, 4))
    still = left_of(world, copied_at(world, *[(500, 0)] * 31, rate=0).at(60_000))
    assert still == PartitionCopies(bytes_left=500, bytes_per_s=0, time_left_ms=None)
    logs = [(10_000 + turn, 0) for turn in range(31)]
    found = left_of(world, copied_at(world, *logs, rate=0).at(60_000))
    assert found is not None
    assert found.behind == (4,)


def test_the_growth_of_an_earlier_move_does_not_count() -> None:
    world = moving((1, 2, 4))
    copies, leader = Copies(), world.partition(0).leader
    for at_ms, led in ((0, 1_000), (60_000, 90_000)):
        copies.reported(leader, [report(0, 0, 0, led)], at_ms)
        copies.reported(4, [report(0, 0, 0, 500)], at_ms)
    found = left_of(world, copies.at(60_000))
    assert found is not None
    assert found.behind == ()


def test_a_paused_copy_has_rate_0_whatever_was_reported_before() -> None:
    world = moving((1, 2, 4))
    logs = [(10_000 + 300 * turn, 200 * turn) for turn in range(TURNS + 1)]
    report_of = copied_at(world, *logs).at(BEHIND_AT)
    world.ask(PauseMoves(moves=(1,), who="ann", after_step=True))
    still = whole(move_copies(world.image, 1, report_of))
    assert (still.bytes_per_s, still.behind) == (100, 1)
    world.ask(PauseMoves(moves=(1,), who="ann"))
    assert left_of(world, report_of) == PartitionCopies(
        bytes_left=11_500, bytes_per_s=0, time_left_ms=None
    )
    found = whole(move_copies(world.image, 1, report_of))
    assert (found.bytes_per_s, found.time_left_ms, found.behind) == (0, None, 0)


def test_falling_behind_replaces_the_reason_catching_up() -> None:
    world = moving((1, 2, 4))
    topic = world.image.topics[TOPIC_ID]
    logs = [(10_000 + 300 * turn, 200 * turn) for turn in range(TURNS + 1)]
    report_of = copied_at(world, *logs).at(BEHIND_AT)
    plain = progress_of(world.image, topic, 0, no_report)
    assert plain == progress_of(world.image, topic, 0)
    assert plain is not None
    assert plain.reason is Reason.CATCHING_UP
    found = progress_of(world.image, topic, 0, report_of)
    words = "more is written than is copied, so that it never is in sync: 4"
    assert found == replace(plain, reason=Reason.FALLING_BEHIND, detail=words, brokers=(4,))
    world.ask(AlterMove(move_id=1, throttle_bytes_per_s=7))
    found = progress_of(world.image, topic, 0, report_of)
    assert found is not None
    assert found.detail == f"{words}; the move is throttled to 7 bytes/s"
    # Whoever cannot copy at all has another reason.
    world.ask(FenceBrokers(broker_ids=(4,)))
    found = progress_of(world.image, topic, 0, report_of)
    assert found is not None
    assert found.reason is Reason.NO_LIVE_TARGET


def test_a_partition_with_an_unreported_replica_has_unknown_progress() -> None:
    """Kafka's brokers say nothing."""
    world = moving()
    assert left_of(world, no_report) is None
    assert left_of(world, reports_of((4, report(0, 1_000)))) is None


def test_a_partition_that_waits_for_its_step_has_nothing_to_tell() -> None:
    world = limited(World(broker_count=6), P=1)
    some(world, 2)
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    report_of = reports_of((4, report(0, 10)), (4, report(1, 10)))
    assert left_of(world, report_of, 0) is not None
    assert left_of(world, report_of, 1) is None
    assert whole(move_copies(world.image, 1, report_of)) == MoveCopies(
        bytes_left=10, bytes_per_s=100, known=1, unknown=1, time_left_ms=None, is_partial=True
    )


def test_the_slowest_partition_gives_the_end_of_a_move() -> None:
    world = moving((1, 2, 4), count=3)
    report_of = reports_of((4, report(0, 1_000)), (4, report(1, 100, 1)), (4, report(2, 0)))
    assert whole(move_copies(world.image, 1, report_of)) == MoveCopies(
        bytes_left=1_100, bytes_per_s=201, known=3, unknown=0, time_left_ms=100_000
    )
    unknown = reports_of((4, report(0, 1_000)), (4, report(1, 100, 1)))
    found = whole(move_copies(world.image, 1, unknown))
    assert (found.known, found.unknown, found.time_left_ms) == (2, 1, None)
    assert found.is_partial


def test_a_move_with_further_steps_does_not_say_when_it_ends() -> None:
    world = limited(World(broker_count=6), R=1)
    some(world, 1)
    move(world, {0: (1, 4, 5)})
    report_of = reports_of((4, report(0, 1_000)), (5, report(0, 1_000)))
    found = whole(move_copies(world.image, 1, report_of))
    assert (found.bytes_left, found.unknown, found.time_left_ms) == (1_000, 0, None)
    assert found.is_partial
    world.sync(1, 2, 3, 4)
    found = whole(move_copies(world.image, 1, report_of))
    assert (found.bytes_left, found.unknown, found.time_left_ms) == (1_000, 0, 10_000)
    assert not found.is_partial
