"""A plan of 100,000 partitions in one request of Kafka's own form."""

from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from quorum.protocol.apis import ApiKey
from tests.admin.http.test_http_api import PATIENT
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import active, controllers
from tests.support.kafka_client import Form, kafka_client

COUNT: Final = 100_000
PATIENCE_MS: Final = 60_000
VERSION: Final = 0
"""The version of Kafka's own clients, without our extension."""


@pytest.mark.thorough
async def test_only_the_three_invalid_partitions_of_a_large_plan_are_refused(
    tmp_path: Path,
) -> None:
    form = Form(ApiKey.ALTER_PARTITION_REASSIGNMENTS, VERSION)
    replicas = dict.fromkeys(range(COUNT), (101, 103))
    replicas[7], replicas[COUNT] = (101, 999), (101, 103)
    parts = tuple(
        form.part("ReassignablePartition", partition_index=number, replicas=wanted)
        for number, wanted in replicas.items()
        if number != 8
    )
    payload = form.request(
        timeout=timedelta(milliseconds=PATIENCE_MS),
        topics=(
            form.part("ReassignableTopic", name="a", partitions=parts),
            form.part("ReassignableTopic", name="unknown", partitions=parts[:1]),
        ),
    )
    async with controllers(tmp_path, 1, timeouts=PATIENT) as nodes:
        node = await active(nodes.values())
        await join(node.controller, 101, 102, 103)
        await asked(node.controller, topic("a", 101, 102, partitions=COUNT))
        async with kafka_client(node.address) as client:
            answer = await client.send(form, payload, timeout_ms=PATIENCE_MS)
        moving = len(node.controller.image.index.moving)
    assert (answer.error_code, answer.error_message) == (0, None)
    told = {each.name: each.partitions for each in answer.responses}
    # All are answered, in the order asked, and only those three are told of an error.
    assert [each.partition_index for each in told["a"]] == [each.partition_index for each in parts]
    refused = {
        (name, each.partition_index): (each.error_code.name, each.error_message)
        for name, partitions in told.items()
        for each in partitions
        if each.error_code
    }
    assert refused == {
        ("a", 7): (
            "invalid_replica_assignment",
            "The manual partition assignment includes broker 999, but no such broker is"
            " registered.",
        ),
        ("a", COUNT): ("unknown_topic_or_partition", f"topic a has no partition {COUNT}"),
        ("unknown", 0): ("unknown_topic_or_partition", "there is no topic unknown"),
    }
    assert moving == COUNT - 2
