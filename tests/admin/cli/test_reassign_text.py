"""The sentences of `reassign-partitions`, as Kafka's script prints them."""

from collections.abc import Sequence

from msgspec.structs import replace

from admin.capabilities.moves import PartitionResult
from admin.cli.reassign_text import (
    NOTHING_FOUND,
    MoveStatus,
    cancelled,
    listed,
    listed_data,
    move_states,
    not_cancelled,
    not_started,
    rollback,
    started,
    verified,
    verified_data,
)
from admin.client.channels import Response
from admin.model import Assignment, PartitionId
from controller.move_requests import OngoingReassignment

ORDERS = [PartitionId("orders", number) for number in range(3)]


def moving(
    partition: int, adding: tuple[int, ...], removing: tuple[int, ...]
) -> OngoingReassignment:
    return OngoingReassignment(
        topic="orders",
        partition=partition,
        replicas=(101, 102, 103),
        adding=adding,
        removing=removing,
    )


def test_a_plan_to_go_back_is_printed_first() -> None:
    assert rollback({ORDERS[1]: (102, 103), ORDERS[0]: (101, 102)}) == (
        "Current partition replica assignment\n"
        "\n"
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[101,102],'
        '"log_dirs":["any","any"]},{"topic":"orders","partition":1,"replicas":[102,103],'
        '"log_dirs":["any","any"]}]}\n'
        "\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def test_started_partitions_are_listed_in_order() -> None:
    assert started([ORDERS[1], ORDERS[0]]) == (
        "Successfully started partition reassignments for orders-0,orders-1"
    )
    assert started(ORDERS[:1]) == "Successfully started partition reassignment for orders-0"


def test_refused_partitions_are_listed_with_the_reason() -> None:
    refused = [
        PartitionResult(topic="orders", partition=2, kafka_error_code=39, kafka_error="INVALID"),
        PartitionResult(
            topic="a", partition=0, kafka_error_code=3, kafka_error="U", message="no such"
        ),
    ]
    assert not_started(refused) == [
        "Error reassigning partition(s):",
        "a-0: no such",
        "orders-2: INVALID",
    ]
    assert not_started([]) == []
    assert not_cancelled(refused)[0] == "Error cancelling partition reassignments for:"
    assert not_cancelled(refused[:1]) == [
        "Error cancelling partition reassignment for:",
        "orders-2: INVALID",
    ]


def test_the_status_of_every_planned_partition_is_told() -> None:
    plan = [Assignment(topic="orders", partition=n, replicas=(101, 102, 104)) for n in (2, 1, 0)]
    states = move_states(
        plan,
        {ORDERS[1]: moving(1, (104,), (103,))},
        {ORDERS[0]: (101, 102, 104), ORDERS[1]: (101, 102, 104), ORDERS[2]: (102, 103, 104)},
    )
    assert verified(states) == (
        "Status of partition reassignment:\n"
        "Reassignment of partition orders-0 is completed.\n"
        "Reassignment of partition orders-1 is still in progress.\n"
        "There is no active reassignment of partition orders-2, but replica set is 102,103,104 "
        "rather than 101,102,104."
    )
    assert [row["status"] for row in verified_data(states)["partitions"]] == [
        MoveStatus.COMPLETED,
        MoveStatus.IN_PROGRESS,
        MoveStatus.NOT_AS_PLANNED,
    ]


def test_a_partition_that_does_not_exist_has_no_replicas() -> None:
    (state,) = move_states([Assignment(topic="gone", partition=0, replicas=(1,))], {}, {})
    assert str(state) == (
        "There is no active reassignment of partition gone-0, for there is no such partition."
    )


def test_active_moves_are_listed_with_what_comes_and_goes() -> None:
    assert listed([moving(1, (103,), ()), moving(0, (103,), (101, 102))]) == (
        "Current partition reassignments:\n"
        "orders-0: replicas: 101,102,103. adding: 103. removing: 101,102.\n"
        "orders-1: replicas: 101,102,103. adding: 103."
    )
    waits = OngoingReassignment(
        topic="orders", partition=2, replicas=(101,), adding=(), removing=(), target=(102,)
    )
    assert listed([waits]).endswith("orders-2: replicas: 101. waiting for: 102.")
    waits = replace(
        waits, step=1, step_count=2, state="waiting", reason="turn", detail="others go first"
    )
    assert listed([waits]).endswith("for: 102. step 1 of 2, waiting: others go first.")
    assert listed([]) == NOTHING_FOUND == "No partition reassignments found."
    nothing: Response[Sequence[OngoingReassignment]] = Response((), 7)
    assert listed_data(nothing) == {"version": 1, "as_of_offset": 7, "partitions": []}
    one: Response[Sequence[OngoingReassignment]] = Response([moving(0, (103,), ())], None)
    assert listed_data(one)["partitions"][0]["adding_replicas"] == [103]
    assert "as_of_offset" not in listed_data(one)


def test_cancelled_partitions_are_listed() -> None:
    assert cancelled(ORDERS[:2]) == (
        "Successfully cancelled partition reassignments for: orders-0,orders-1"
    )
    assert cancelled(ORDERS[:1]) == ("Successfully cancelled partition reassignment for: orders-0")
