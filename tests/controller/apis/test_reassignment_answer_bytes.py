"""The answer to AlterPartitionReassignments by hand: the bytes that kio writes."""

from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apis import reassignments
from controller.apis.request import KafkaRequest, encode_body
from quorum.protocol.apis import ApiKey
from quorum.protocol.refusals import bounded
from statemachine.commands import ReassignmentAltered, ReassignmentsAltered
from statemachine.errors import Error

PARTS = st.builds(
    ReassignmentAltered,
    topic=st.sampled_from(["t", "another-topic", "x" * 249]),
    partition=st.integers(0, 2**31 - 1),
    error=st.sampled_from(Error),
    message=st.sampled_from(["", "no", "größer", "y" * 130, "z" * 2_000]),
    replicas=st.just((1, 2, 3)),
)


def by_kio(call: KafkaRequest, answer: ReassignmentsAltered, *, may_change: bool) -> bytes:
    responses = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": each.partition,
                    "error_code": each.error.code,
                    "error_message": bounded(each.message) or None,
                }
                for each in group
            ],
        }
        for name, group in groupby(answer.partitions, key=lambda each: each.topic)
    ]
    told: dict[str, Any] = {"move_id": answer.move_id, "repeated": answer.repeated}
    return encode_body(
        call,
        call.respond(
            allow_replication_factor_change=may_change,
            error_code=0,
            error_message=None,
            responses=responses,
            **told,
        ),
    )


@pytest.mark.parametrize("version", [0, 1])
@given(
    parts=st.lists(PARTS, max_size=8),
    move_id=st.sampled_from([0, 1, 2**40]),
    may_change=st.booleans(),
    repeated=st.booleans(),
)
def test_what_kafka_clients_are_told_has_the_bytes_that_kio_writes(
    version: int,
    parts: list[ReassignmentAltered],
    move_id: int,
    may_change: bool,
    repeated: bool,
) -> None:
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    call = KafkaRequest(api_key=key, version=version, client_id="c", principal="p", message=None)
    answer = ReassignmentsAltered(partitions=tuple(parts), move_id=move_id, repeated=repeated)
    told = {
        "allow_replication_factor_change": may_change,
        "move_id": move_id,
        "repeated": repeated,
    }
    payload = reassignments._altered(call, answer, told, detailed=False)
    assert payload == by_kio(call, answer, may_change=may_change)
