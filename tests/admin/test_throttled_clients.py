"""An unmodified client whose quota of controller mutations is used up, at an embedded broker."""

import asyncio
import logging
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import ThrottlingQuotaExceededError

from admin.client.admin_client import AdminClient
from tests.admin.embedded_brokers import embedded
from tests.controller.apis.test_kafka_mutation_quotas import limit

pytestmark = [
    pytest.mark.thorough,
    # kafka-python forgets the sockets of clients that failed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def creations(server: str) -> str:
    """Create a topic, and another one beyond the quota; return the error of that one."""
    client = KafkaAdminClient(bootstrap_servers=server)
    client.create_topics([NewTopic("a", 10, 1)])
    with pytest.raises(ThrottlingQuotaExceededError) as raised:
        client.create_topics([NewTopic("b", 1, 1)])
    client.close()
    return str(raised.value)


async def test_kafka_python_hears_that_its_quota_is_used_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")
    async with embedded(tmp_path, 101) as it:
        await limit(it.node, 0.01)
        said = await asyncio.to_thread(creations, f"127.0.0.1:{it.brokers[101].port}")
        assert "of user ANONYMOUS; try again in" in said
        async with AdminClient([it.node.address], is_controller=True) as client:
            assert set(await client.describe_topics()) == {"a"}
