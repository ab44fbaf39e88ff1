"""Log levels of an embedded broker: its own, and never forwarded (KIP-412)."""

import logging
from pathlib import Path
from typing import Any

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from tests.broker.apis.test_broker_configs import LOGGER
from tests.broker.embedded_cluster import cluster
from tests.support.kio_values import make, nested

NAME = "broker.of_this_test"
SET, DELETE = 0, 1


def incremental(broker: str, level: str | None, operation: int) -> Any:
    """A change of one level."""
    schema = codec.request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    config = make(
        nested(schema, "AlterableConfig"), name=NAME, config_operation=operation, value=level
    )
    asked = make(
        nested(schema, "AlterConfigsResource"),
        resource_type=LOGGER,
        resource_name=broker,
        configs=(config,),
    )
    return make(schema, resources=(asked,), validate_only=False)


async def test_log_levels_are_changed_here_and_not_forwarded(tmp_path: Path) -> None:
    logger = logging.getLogger(NAME)
    async with cluster(tmp_path, 1) as brokers:
        for broker, level, operation, code in (
            ("1", "DEBUG", SET, 0),
            ("2", "INFO", SET, 42),
            ("1", "LOUD", SET, 42),
            ("1", None, DELETE, 0),
        ):
            request = incremental(broker, level, operation)
            answer = await brokers[1].call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
            assert answer.responses[0].error_code.value == code
            expected = logging.NOTSET if operation == DELETE else logging.DEBUG
            assert logger.level == expected
        assert not brokers.controller.envelopes
