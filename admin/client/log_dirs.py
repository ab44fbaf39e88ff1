"""The log directories of brokers, and the sizes of the logs in them (DescribeLogDirs, KIP-113).

Every broker is asked once, for each knows only its own logs. A broker that does not answer, or
refuses, is named with its reason, and the others are shown.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from admin.client.channels import Channels, Form, NoResponse
from admin.faults import Incompatible, explained
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

PATIENCE_MS: Final = 3_000
"""The time that each broker may take."""
REQUESTS_MAX: Final = 16
UNKNOWN_BYTES: Final = -1


class LogOfReplica(NamedTuple):
    """The log of a replica in a directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool
    """True of a log that will take the place of another one, in another directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A log directory of a broker."""

    path: str
    error: str | None = None
    total_bytes: int | None = None
    """Of its volume; None if the broker does not tell."""
    usable_bytes: int | None = None
    cordoned: bool = False
    """True if it gets no new replicas (KIP-1066)."""
    logs: Sequence[LogOfReplica] = ()


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The directories of the brokers that answered, and the reasons of the others."""

    of_brokers: Mapping[Address, Sequence[LogDir]]
    silent: Mapping[Address, str]


async def describe_log_dirs(
    brokers: Collection[Address],
    partitions: Mapping[str, Sequence[int]] | None = None,
    security: ClientSecurity = PLAIN_CLIENT,
) -> LogDirs:
    """Ask these brokers for their directories, with all logs or those of `partitions`, by topic."""
    found: dict[Address, Sequence[LogDir]] = {}
    silent: dict[Address, str] = {}
    channels, limit = Channels("metaquorum-admin", security), asyncio.Semaphore(REQUESTS_MAX)
    topics = None
    if partitions is not None:
        topics = [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]

    def fill(form: Form) -> Any:
        return form.request(topics=topics)

    async def ask(address: Address) -> None:
        async with limit:
            try:
                response = await channels.ask(
                    address, ApiKey.DESCRIBE_LOG_DIRS, fill, timeout_ms=PATIENCE_MS
                )
            except (NoResponse, Incompatible) as error:
                silent[address] = str(error)
                return
        if code := int(getattr(response.value, "error_code", 0)):
            silent[address] = f"{address}: {explained(code, None)}"
        else:
            found[address] = [_directory(each) for each in response.value.results]

    try:
        async with asyncio.TaskGroup() as group:
            for each in brokers:
                group.create_task(ask(each))
    finally:
        await channels.close()
    return LogDirs({each: found[each] for each in brokers if each in found}, silent)


def _directory(found: Any) -> LogDir:
    code = int(found.error_code)
    return LogDir(
        path=found.log_dir,
        error=explained(code, None) if code else None,
        total_bytes=_known(getattr(found, "total_bytes", UNKNOWN_BYTES)),
        usable_bytes=_known(getattr(found, "usable_bytes", UNKNOWN_BYTES)),
        cordoned=getattr(found, "is_cordoned", False),
        logs=tuple(
            LogOfReplica(
                topic.name,
                each.partition_index,
                each.partition_size,
                each.offset_lag,
                each.is_future_key,
            )
            for topic in found.topics
            for each in topic.partitions
        ),
    )


def _known(size_bytes: int) -> int | None:
    return None if size_bytes == UNKNOWN_BYTES else size_bytes
