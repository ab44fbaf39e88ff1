"""Ask a cluster about its quorum, its nodes and its metadata, whichever controllers lead it."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Self
from uuid import UUID

from admin.capabilities.brokers import Brokers, ListBrokers
from admin.capabilities.moves import RUNNING, ListMoves, Moves
from admin.capabilities.paging import every_page
from admin.capabilities.quorum import TransferLead, members_of
from admin.capabilities.support import DescribeSupport
from admin.client.admin_client import OF_FILE, AdminClient, read_features
from admin.client.channels import Channels, Fill, NoResponse, details_in
from admin.client.cluster import describe_quorum
from admin.client.command_config import NO_CONFIG, ClientConfig
from admin.client.metadata_source import MetadataSource
from admin.client.retrying_client import anonymous_discovery
from admin.faults import AdminError, Incompatible
from admin.monitoring.health_rules import Member
from admin.tools.adopt.source import AdoptError, History, refusals, unsupported_levels
from admin.tools.migrate.log_reader import LogReader
from admin.tools.migrate.state import (
    BrokerSettings,
    BrokerState,
    Contents,
    Controller,
    Kind,
    Probe,
    QuorumState,
)
from controller.quorum_description import UNKNOWN, QuorumDescription
from quorum.clocks import wall_ms
from quorum.core.vocabulary import NO_DIRECTORY, NO_REPLICA
from quorum.persistent_state import LISTENER_NAME
from quorum.protocol.apis import ApiKey
from quorum.protocol.extension import Consistency, Extension
from quorum.transport.address import Address
from statemachine.features.features import KRAFT_VERSION
from statemachine.vocabulary import BROKER_RESOURCE

CLIENT_ID: Final = "metaquorum-migrate"
PROBE_MS: Final = 3_000
"""The time that one node has to answer."""
CONTROLLER_SETTINGS: Final = ("controller.quorum.bootstrap.servers", "controller.quorum.voters")
"""The settings of a broker that say where it looks for the controllers."""


class Cluster:
    """A cluster in migration; use it as an async context. Methods raise `AdminError`."""

    def __init__(
        self,
        kafkas: Sequence[Address],
        ours: Mapping[int, Address],
        *,
        config: ClientConfig = NO_CONFIG,
        timeout_ms: int,
    ) -> None:
        """`kafkas` are controllers of Kafka, `ours` those of ours by id."""
        self.kafkas = tuple(kafkas)
        self.ours = dict(ours)
        self._config = config
        self._timeout_ms = timeout_ms
        self._contexts = AsyncExitStack()
        self.client = self._client((*self.ours.values(), *self.kafkas))
        """Asks whoever answers, ours first: they forward to the leader."""
        self.our_client = self._client(tuple(self.ours.values()))
        self._reader: LogReader | None = None
        self._kinds: dict[tuple[int, UUID | None, Address | None], Kind] = {}
        """The programs of the controllers that have answered, by id, directory and address."""
        self._answers: dict[int, tuple[int, str]] = {}
        """By broker: its epoch, and the controllers that it was configured with then."""
        self._kafka_settings: Mapping[str, str | None] = {}
        self.clock_ahead_ms: int | None = None
        """How far the clock of the leader was ahead of the one here, when it was asked last."""

    async def __aenter__(self) -> Self:
        await self._contexts.enter_async_context(self.client)
        await self._contexts.enter_async_context(self.our_client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._contexts.aclose()

    def _client(
        self, addresses: Sequence[Address], *, is_controller: bool = True, timeout_ms: int = 0
    ) -> AdminClient:
        return AdminClient(
            addresses,
            is_controller=is_controller,
            timeout_ms=timeout_ms or self._timeout_ms,
            client_id=CLIENT_ID,
            security=self._config.security,
        )

    async def quorum(self) -> QuorumState:
        """Describe the quorum, and the controllers that have registered."""
        asked_ms = wall_ms()
        found = await self.client.describe_quorum()
        registered = await self.client.describe_cluster()
        leader = found.leader
        if leader is not None and leader.last_caught_up_ms != UNKNOWN:
            here_ms = (asked_ms + wall_ms()) // 2
            self.clock_ahead_ms = leader.last_caught_up_ms - here_ms
        return await self._state(found, {each.id: each.address for each in registered.nodes})

    async def _state(
        self, found: QuorumDescription, registered: Mapping[int, Address]
    ) -> QuorumState:
        directories = {each.id: each.directory_id for each in (*found.observers, *found.voters)}
        names = [name for places in found.addresses.values() for name, _ in places]
        recorded = {id: places[0][1] for id, places in found.addresses.items() if places}
        addresses = {**registered, **recorded}
        members = [
            each
            for each in members_of(found)
            # Other observers are brokers.
            if each.is_voter or each.id in self.ours or each.id in registered
        ]
        # Those that have registered once and do not follow the leader now.
        members += [Member(id=id, is_voter=False) for id in registered if id not in directories]
        members.sort(key=lambda each: each.id)

        async def controller(member: Member) -> Controller:
            id, address = member.id, addresses.get(member.id)
            directory_id = directories.get(id)
            return Controller(
                kind=await self._kind(id, directory_id, address),
                member=member,
                directory_id=directory_id or NO_DIRECTORY,
                address=address,
                # Voters have one name: by it the others find the address.
                listener=names[0] if names else LISTENER_NAME,
            )

        return QuorumState(
            cluster_id=found.cluster_id,
            controllers=tuple(await asyncio.gather(*map(controller, members))),
        )

    async def _kind(self, id: int, directory_id: UUID | None, address: Address | None) -> Kind:
        """The program of a controller, of which its id says nothing: the operator may have given
        one of ours an id that Kafka has in use.

        Until it has answered once, its address decides. One without `directory_id` has registered
        once and does not follow now: somebody else may answer at its address.
        """
        key = (id, directory_id, address)
        if key in self._kinds:
            return self._kinds[key]
        if address is not None and directory_id is not None:
            probe = await self.probe(address)
            if probe.kind is not None and probe.node_id in (None, id):
                self._kinds[key] = probe.kind
                return probe.kind
        is_ours = id in self.ours and address in (None, self.ours[id])
        return Kind.OURS if is_ours else Kind.KAFKA

    async def probe(self, address: Address) -> Probe:
        """Ask the node at `address` itself what it is, once."""
        channels = Channels(CLIENT_ID, self._config.security)
        try:
            return await _probe(channels, address)
        except (NoResponse, Incompatible) as error:
            return Probe(address=address, problem=str(error))
        finally:
            await channels.close()

    async def probes(self, quorum: QuorumState) -> Mapping[int, Probe]:
        """Ask every controller, by id: those of the quorum, and ours that do not run yet."""
        places = {each.id: each.address for each in quorum.controllers if each.address is not None}
        places |= self.ours
        found = await asyncio.gather(*map(self.probe, places.values()))
        return dict(zip(places, found, strict=True))

    async def silent_kafkas(self, quorum: QuorumState) -> Sequence[Probe]:
        """Ask at the addresses of Kafka's that the quorum does not know; return the silent ones."""
        known = {each.address for each in quorum.controllers}
        unknown = [each for each in self.kafkas if each not in known]
        found = await asyncio.gather(*map(self.probe, unknown))
        return [each for each in found if each.kind is None]

    async def kafka_settings(
        self, quorum: QuorumState
    ) -> tuple[Mapping[str, str | None], str | None]:
        """Ask Kafka's controllers for what their files set, the leader first; else why not.

        What was told once holds when none of them answers any more.
        """
        problem = None
        kafkas = sorted(quorum.of(Kind.KAFKA), key=lambda each: not each.member.is_leader)
        for each in kafkas:
            if each.address is None:
                continue
            async with self._client([each.address], timeout_ms=PROBE_MS) as client:
                try:
                    known = await client.describe_configs(BROKER_RESOURCE, str(each.id))
                except AdminError as error:
                    problem = str(error)
                    continue
            self._kafka_settings = {one.name: one.value for one in known if one.source == OF_FILE}
            return self._kafka_settings, None
        return self._kafka_settings, None if self._kafka_settings else problem

    async def our_settings(self) -> tuple[Mapping[int, Mapping[str, str]], Mapping[int, str]]:
        """Ask each of our controllers for its own settings, without their secrets.

        Returns them by id, and the reasons of those that do not tell them.
        """

        async def ask(id: int, address: Address) -> None:
            async with self._client([address], timeout_ms=PROBE_MS) as client:
                try:
                    settings[id] = (await client.ask(DescribeSupport())).settings
                except AdminError as error:
                    problems[id] = str(error)

        settings: dict[int, Mapping[str, str]] = {}
        problems: dict[int, str] = {}
        await asyncio.gather(*(ask(*each) for each in self.ours.items()))
        return settings, problems

    async def contents(self, quorum: QuorumState) -> Contents:
        """Describe the metadata: what our leader says, or what Kafka's has in its log."""
        leader = quorum.leader
        if leader is not None and leader.kind is Kind.KAFKA:
            try:
                return contents_of(*await self._read_log(quorum))
            except AdoptError as error:
                levels = await self._levels()
                unsupported = (*unsupported_levels(levels), str(error))
                return Contents(levels=levels, unsupported=unsupported)
            except AdminError as error:
                return Contents(levels=await self._levels(), problem=str(error))
        return Contents(levels=await self._levels(), brokers=await self.brokers(quorum))

    async def _levels(self) -> Mapping[str, int]:
        described = await self.client.describe_features()
        return {each.name: each.level for each in described.features if each.level}

    async def _read_log(self, quorum: QuorumState) -> tuple[History, int]:
        if self._reader is None:
            if quorum.cluster_id is None:
                raise AdminError("the cluster has no id yet: it has not been founded")
            voters = [each.address for each in quorum.voters if each.address is not None]
            leader = quorum.leader
            # The leader first: it need not be looked for.
            if leader is not None and leader.address is not None:
                voters.insert(0, leader.address)
            channels = Channels(CLIENT_ID, self._config.security)
            self._contexts.push_async_callback(channels.close)
            source = MetadataSource(
                channels,
                tuple(dict.fromkeys((*voters, *self.kafkas))),
                cluster_id=quorum.cluster_id,
                patience_ms=self._timeout_ms,
            )
            self._reader = LogReader(source)
        return await self._reader.catch_up(), self._reader.bytes_read

    async def brokers(self, quorum: QuorumState) -> tuple[BrokerState, ...]:
        """The registered brokers, as the leader knows them."""
        leader = quorum.leader
        if leader is not None and leader.kind is Kind.KAFKA:
            try:
                return _brokers_of((await self._read_log(quorum))[0])
            except AdoptError as error:
                raise AdminError(f"the brokers are not known: {error}") from error
        found: Brokers = await every_page(self.our_client.ask, ListBrokers())
        return tuple(
            BrokerState(
                id=each.broker_id,
                epoch=each.broker_epoch,
                fenced=each.state == "fenced",
                addresses=tuple(Address(place.host, place.port) for place in each.endpoints),
            )
            for each in found.brokers
        )

    async def running_moves(self, quorum: QuorumState) -> Sequence[int]:
        """The moves under way that our leader knows."""
        leader = quorum.leader
        if leader is None or leader.kind is Kind.KAFKA:
            return ()
        found: Moves = await every_page(self.our_client.ask, ListMoves(state=RUNNING))
        return [each.move_id for each in found.moves]

    async def transfer_lead(self, leader: Controller, to: Controller) -> None:
        """Let `to` lead instead of `leader`, which is one of ours and is asked itself.

        Another node of ours may forward the request to the new leader, which does not know it.
        Somebody else than `to` may be elected: an error is none once `leader` leads no more, and
        the next look tells who does.
        """
        assert leader.address is not None
        async with self._client([leader.address]) as client:
            try:
                await client.ask(TransferLead(to=to.id))
            except AdminError:
                found = (await self.quorum()).leader
                if found is not None and found.id == leader.id:
                    raise

    async def settings(
        self, brokers: tuple[BrokerState, ...], confirmed: frozenset[int] = frozenset()
    ) -> BrokerSettings:
        """Ask the brokers where they look for the controllers, once for each of their starts."""
        unasked = [
            each
            for each in brokers
            if not each.fenced and self._answers.get(each.id, (None, ""))[0] != each.epoch
        ]
        answers = await asyncio.gather(*map(self._configured, unasked))
        for broker, answer in zip(unasked, answers, strict=True):
            if answer is not None:
                self._answers[broker.id] = (broker.epoch, answer)
        known = {
            each.id: answer
            for each in brokers
            if (found := self._answers.get(each.id)) is not None
            for epoch, answer in [found]
            if epoch == each.epoch
        }
        return BrokerSettings(
            brokers=brokers,
            configured={each.id: known.get(each.id) for each in brokers},
            confirmed=confirmed,
        )

    async def _configured(self, broker: BrokerState) -> str | None:
        for address in broker.addresses:
            client = self._client([address], is_controller=False, timeout_ms=PROBE_MS)
            async with client:
                try:
                    known = await client.describe_configs(BROKER_RESOURCE, str(broker.id))
                except AdminError:
                    continue
            values = {each.name: each.value for each in known}
            said = [values[each] for each in CONTROLLER_SETTINGS if values.get(each)]
            if said:
                return ",".join(filter(None, said))
        return None


async def _probe(channels: Channels, address: Address) -> Probe:
    async def ask(api_key: ApiKey, fill: Fill, extension: Extension | None = None) -> Any:
        return (await channels.ask(address, api_key, fill, extension, timeout_ms=PROBE_MS)).value

    offer = await ask(
        ApiKey.API_VERSIONS,
        lambda form: form.request(client_software_name="metaquorum", client_software_version="1"),
    )
    levels = {
        each.name: each.supported
        for each in read_features(offer).features
        if each.supported is not None
    }
    if ApiKey.DISCOVER_BROKERS not in {int(each.api_key) for each in offer.api_keys}:
        return Probe(address=address, kind=Kind.KAFKA, levels=levels)
    known = await ask(ApiKey.DISCOVER_BROKERS, anonymous_discovery)
    described = await ask(
        ApiKey.DESCRIBE_QUORUM,
        describe_quorum().fill,
        Extension(consistency=Consistency.STALE),
    )
    details = details_in(described, QuorumDescription)
    return Probe(
        address=address,
        kind=Kind.OURS,
        levels=levels,
        node_id=None if known.replica_id == NO_REPLICA else int(known.replica_id),
        cluster_id=known.cluster_id or None,
        has_full_disk=details is not None and bool(details.full_disks),
    )


def contents_of(history: History, log_bytes: int) -> Contents:
    """The parts of the metadata that a migration looks at."""
    image = history.image
    return Contents(
        levels={**image.features, KRAFT_VERSION: history.kraft_version},
        brokers=_brokers_of(history),
        unsupported=tuple(refusals(history)),
        topics=len(image.topics),
        partitions=sum(len(list(topic.existing())) for topic in image.topics.values()),
        reassigning=len(image.index.moving),
        acls=len(image.acls),
        scram_credentials=len(image.scram_credentials),
        delegation_tokens=len(image.delegation_tokens),
        log_bytes=log_bytes,
    )


def _brokers_of(history: History) -> tuple[BrokerState, ...]:
    return tuple(
        BrokerState(
            id=each.broker_id,
            epoch=each.broker_epoch,
            fenced=each.fenced,
            levels={of.name: (of.min_supported, of.max_supported) for of in each.features},
            addresses=tuple(Address(place.host, place.port) for place in each.endpoints),
        )
        for _, each in sorted(history.image.brokers.items())
    )
