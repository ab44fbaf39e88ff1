"""DescribeLogDirs (35): the sizes of the logs of this broker, without reading any file.

A broker has one directory. The space of its volume is reported as unknown (-1).
"""

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from broker.partition.partition import Partition
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.transport.inbound import InboundRequest

_ZERO: Final = timedelta(0)
_NO_ERROR: Final = 0


class LogDirsApi:
    """The handler of DescribeLogDirs; it answers at once."""

    def __init__(self, log_dir: Path, partitions: Callable[[], Iterable[Partition]]) -> None:
        """`partitions` returns the open partitions."""
        self._log_dir = log_dir
        self._partitions = partitions

    def handle(self, request: InboundRequest) -> None:
        """Describe the requested partitions, or all."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        asked = None
        if message.topics is not None:
            asked = {(each.topic, number) for each in message.topics for number in each.partitions}
        payload = codec.make_known(
            codec.response_schema(ApiKey.DESCRIBE_LOG_DIRS, version),
            throttle_time=_ZERO,
            error_code=codec.error_code(_NO_ERROR),
            results=(self._directory(version, asked),),
        )
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def _directory(self, version: int, asked: Collection[tuple[str, int]] | None) -> Any:
        schema = codec.response_schema(ApiKey.DESCRIBE_LOG_DIRS, version)
        of_topic = codec.nested(schema, "DescribeLogDirsTopic")
        of_partition = codec.nested(schema, "DescribeLogDirsPartition")
        found = sorted(
            (
                each
                for each in self._partitions()
                if asked is None or (each.topic, each.key.number) in asked
            ),
            key=lambda each: (each.topic, each.key.number),
        )
        return codec.make_known(
            codec.nested(schema, "DescribeLogDirsResult"),
            error_code=codec.error_code(_NO_ERROR),
            log_dir=str(self._log_dir),
            topics=tuple(
                codec.make(
                    of_topic,
                    name=topic,
                    partitions=tuple(
                        codec.make(
                            of_partition,
                            partition_index=each.key.number,
                            partition_size=each.log.size_bytes,
                            offset_lag=max(0, each.high_watermark - each.log_end),
                            is_future_key=False,
                        )
                        for each in partitions
                    ),
                )
                for topic, partitions in groupby(found, attrgetter("topic"))
            ),
        )
