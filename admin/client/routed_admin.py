"""Requests that only the leader of a partition or the coordinator of a group answers.

librdkafka finds these brokers, and asks again after an election. Everything else is asked through
`admin.client.admin_client`.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient as KafkaAdmin
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.client.librdkafka import reason_of, settings_of
from admin.faults import AdminError
from admin.model import PartitionId
from quorum.transport.address import Address

K = TypeVar("K", TopicPartition, str)
T = TypeVar("T")

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
"""In place of a time, as in ListOffsets (2)."""


class Failed(NamedTuple):
    """The reason why one part of a request failed."""

    reason: str


class Group(NamedTuple):
    """A consumer group in a list."""

    group: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a consumer group."""

    member_id: str
    client_id: str
    host: str
    partitions: Sequence[PartitionId]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A consumer group."""

    group: str
    state: str
    assignor: str
    coordinator: int
    members: Sequence[GroupMember]

    @property
    def is_idle(self) -> bool:
        """True if it has no members."""
        return self.state == "Empty"


class RoutedAdmin:
    """Asks the right brokers; every method raises `AdminError` if the whole request fails."""

    def __init__(
        self, bootstrap: Sequence[Address], *, timeout_ms: int, config: ClientConfig = NO_CONFIG
    ) -> None:
        self._admin = KafkaAdmin(settings_of(bootstrap, "metaquorum-admin", config))
        self._principal = config.security.principal
        self._within = {"request_timeout": timeout_ms / 1_000}

    async def list_offsets(
        self, partitions: Iterable[PartitionId], time_ms: int
    ) -> Mapping[PartitionId, int | Failed | None]:
        """The offset of the first record of this time or later in each partition; None: of none."""
        asked = {TopicPartition(*each): _spec(time_ms) for each in partitions}
        if not asked:
            return {}
        found = await self._each(self._admin.list_offsets(asked, **self._within), "DESCRIBE")
        return {
            _id(place): each if isinstance(each, Failed) else _known(each.offset)
            for place, each in found.items()
        }

    async def delete_records(
        self, offsets: Mapping[PartitionId, int]
    ) -> Mapping[PartitionId, int | Failed]:
        """Delete the records before these offsets, -1 for all; the new first offset of each."""
        asked = [TopicPartition(*id, offset) for id, offset in offsets.items()]
        found = await self._each(self._admin.delete_records(asked, **self._within), "DELETE")
        return {
            _id(place): each if isinstance(each, Failed) else each.low_watermark
            for place, each in found.items()
        }

    async def list_groups(self) -> tuple[Sequence[Group], Sequence[Failed]]:
        """The groups by name, and the reasons of brokers that did not list theirs."""
        listed = await self._whole(
            self._admin.list_consumer_groups(**self._within),
            "the groups cannot be listed",
            "DESCRIBE on CLUSTER kafka-cluster",
        )
        groups = (
            Group(each.group_id, _word(each.state), _word(each.type)) for each in listed.valid
        )
        errors = [
            Failed(self._reason(each.args[0], "DESCRIBE on CLUSTER kafka-cluster"))
            for each in listed.errors or ()
        ]
        return sorted(groups), errors

    async def describe_groups(
        self, groups: Sequence[str]
    ) -> Mapping[str, DescribedGroup | Failed | None]:
        """The groups of these names; None for one that does not exist."""
        found = await self._each(
            self._admin.describe_consumer_groups([*groups], **self._within), "DESCRIBE"
        )
        return {
            name: each if isinstance(each, Failed) else _described(each)
            for name, each in found.items()
        }

    async def committed(self, group: str) -> Mapping[PartitionId, int]:
        """The offsets that a group has committed."""
        asked = [ConsumerGroupTopicPartitions(group)]
        (listed,) = self._admin.list_consumer_group_offsets(asked, **self._within).values()
        found = await self._whole(
            listed, f"the offsets of group {group} cannot be listed", f"DESCRIBE on GROUP {group}"
        )
        return {
            _id(each): each.offset
            for each in found.topic_partitions
            if each.error is None and each.offset >= 0
        }

    async def commit(
        self, group: str, offsets: Mapping[PartitionId, int]
    ) -> Mapping[PartitionId, Failed]:
        """Set offsets of a group without members; the partitions that were refused."""
        places = [TopicPartition(*id, offset) for id, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, places)]
        (altered,) = self._admin.alter_consumer_group_offsets(asked, **self._within).values()
        found = await self._whole(
            altered, f"the offsets of group {group} cannot be changed", f"READ on GROUP {group}"
        )
        return {
            _id(each): Failed(self._reason(each.error, f"READ on TOPIC {each.topic}"))
            for each in found.topic_partitions
            if each.error is not None
        }

    async def delete_groups(self, groups: Sequence[str]) -> Mapping[str, Failed | None]:
        """Delete groups without members; the reason for each that was not deleted."""
        asked = self._admin.delete_consumer_groups([*groups], **self._within)
        return await self._each(asked, "DELETE")

    def _reason(self, error: KafkaError, right: str) -> str:
        return reason_of(error, self._principal, right)

    async def _each(
        self, futures: Mapping[K, "Future[T]"], operation: str
    ) -> Mapping[K, T | Failed]:
        """The result of each part, or the reason why it failed."""

        async def result(part: K, future: "Future[T]") -> T | Failed:
            try:
                return await asyncio.wrap_future(future)
            except KafkaException as error:
                right = f"{operation} on {_resource(part)}"
                return Failed(self._reason(error.args[0], right))

        found = await asyncio.gather(*(result(*each) for each in futures.items()))
        return dict(zip(futures, found, strict=True))

    async def _whole(self, future: "Future[T]", failing: str, right: str) -> T:
        try:
            return await asyncio.wrap_future(future)
        except KafkaException as error:
            raise AdminError(f"{failing}: {self._reason(error.args[0], right)}") from None


def _id(place: TopicPartition) -> PartitionId:
    return PartitionId(place.topic, place.partition)


def _spec(time_ms: int) -> Any:
    spec: Any = OffsetSpec
    special = {LATEST: spec.latest, EARLIEST: spec.earliest, MAX_TIMESTAMP: spec.max_timestamp}
    return special[time_ms]() if time_ms in special else spec.for_timestamp(time_ms)


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


def _word(value: Any) -> str:
    """Kafka's word for a state or type of a group, which librdkafka writes differently."""
    words: str = value.name.title().replace("_", "")
    return words.replace("Rebalancing", "Rebalance")


def _described(found: Any) -> DescribedGroup | None:
    if found.state is ConsumerGroupState.DEAD:
        # What a coordinator says of a group that it has never heard of.
        return None
    return DescribedGroup(
        group=found.group_id,
        state=_word(found.state),
        assignor=found.partition_assignor,
        coordinator=found.coordinator.id,
        members=tuple(
            GroupMember(
                member_id=each.member_id,
                client_id=each.client_id,
                host=each.host,
                partitions=sorted(map(_id, each.assignment.topic_partitions)),
            )
            for each in found.members
        ),
    )


def _resource(part: TopicPartition | str) -> str:
    """The resource of a part of a request: the topic of a partition, or a group."""
    return f"GROUP {part}" if isinstance(part, str) else f"TOPIC {part.topic}"
