"""The answer to AlterPartitionReassignments by hand equals kio's bytes."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apis.reassignments import with_partitions
from controller.apis.request import KafkaRequest, encode_body
from quorum.protocol.apis import ApiKey
from quorum.protocol.principal import ANONYMOUS
from quorum.protocol.refusals import bounded
from statemachine.commands import ReassignmentAltered
from statemachine.errors import Error

PARTS = st.builds(
    ReassignmentAltered,
    topic=st.sampled_from(["t", "another-topic", "x" * 249]),
    partition=st.integers(0, 2**31 - 1),
    error=st.sampled_from(Error),
    message=st.sampled_from(["", "no", "größer", "y" * 130, "z" * 2_000]),
    replicas=st.just((1, 2, 3)),
)


def by_kio(call: KafkaRequest, parts: list[ReassignmentAltered], *, may_change: bool) -> bytes:
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
        for name, group in groupby(parts, key=lambda each: each.topic)
    ]
    return encode_body(
        call,
        call.respond(
            allow_replication_factor_change=may_change,
            error_code=0,
            error_message=None,
            responses=responses,
        ),
    )


@pytest.mark.parametrize("version", [0, 1])
@given(parts=st.lists(PARTS, max_size=8), may_change=st.booleans())
def test_answers_to_kafkas_clients_equal_the_bytes_of_kio(
    version: int, parts: list[ReassignmentAltered], may_change: bool
) -> None:
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    call = KafkaRequest(
        api_key=key, version=version, client_id="c", principal=ANONYMOUS, message=None
    )
    payload = with_partitions(by_kio(call, [], may_change=may_change), version, parts)
    assert payload == by_kio(call, parts, may_change=may_change)
