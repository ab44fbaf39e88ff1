"""A typed client of a cluster's administration: capabilities, and Kafka's own requests."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import msgspec

from admin.capabilities import schema
from admin.capabilities.quorum import STATUS, NodeAddress, Nodes
from admin.capabilities.schema import Request, prepared, with_key
from admin.client.channels import Form, Response, only
from admin.client.cluster import (
    describe_quorum,
    metadata,
    node_of,
    read_brokers,
    read_quorum,
    read_topics,
)
from admin.client.retrying_client import (
    CONTROLLERS,
    Call,
    RetryingClient,
    Verdict,
    anonymous_discovery,
    verdict_of,
)
from admin.faults import AdminError, Incompatible, NoLeader, Refused, Unreachable
from admin.model import (
    Assignment,
    BrokerInfo,
    ClusterDescription,
    ConfigInfo,
    FeatureInfo,
    FeaturesDescription,
    TopicDescription,
)
from controller.move_requests import OngoingReassignment
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import NO_DIRECTORY, NOT_DONE, ReplicaKey, uuid_to_text
from quorum.discovery.gossip import version_of_peer
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import Consistency, Extension
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.version import SOFTWARE_NAME, VERSION
from statemachine.commands import ConfigOperation, UpgradeType
from statemachine.vocabulary import BROKER_LOGGER_RESOURCE, TOPIC_RESOURCE

if TYPE_CHECKING:
    # It brings the whole controller, which most commands do not need.
    from admin.capabilities.reassignments import AssignedPartition, BeginMove, BegunMove

__all__ = ["AdminClient", "AdminError", "Incompatible", "Refused", "Unreachable"]

A = TypeVar("A")

TIMEOUT_MS: Final = 15_000

BROKERS: Final = 1
"""The kind of nodes that DescribeCluster lists, if not `CONTROLLERS` (KIP-919)."""
BY_DEFAULT: Final = -1

OF_FILE: Final = "file of the broker"
"""The source of what a node of Kafka has in its own file."""
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: OF_FILE,
    5: "default",
    6: "log level",
}
_UPGRADE_TYPES_FROM: Final = 1
"""The first version of UpdateFeatures with `upgrade_type` and `validate_only`."""


class AdminClient:
    """Asks the nodes at `bootstrap`; use it as an async context, or `close` it.

    Every method raises `AdminError`: `Refused` if the cluster refuses, `Unreachable` if no node
    answers in time, `Incompatible` if no version of the request is common.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        is_controller: bool,
        timeout_ms: int = TIMEOUT_MS,
        client_id: str = "metaquorum-admin",
        security: ClientSecurity = PLAIN_CLIENT,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`is_controller`: the nodes are controllers; `timeout_ms` bounds each call; `say` is told
        once if no node accepts a connection."""
        self.security = security
        self._client = RetryingClient(bootstrap, client_id, security, say)
        self._is_controller = is_controller
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> "AdminClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask(self, call: Call) -> Response[Any]:
        return await self._client.ask(call, within_ms=self._timeout_ms)

    async def carry_out(self, call: Call) -> Any:
        """Return the answer to a call, such as one of `admin.client.security`."""
        return (await self._ask(call)).value

    async def ask(self, request: Request[A], *, stale: bool = False) -> A:
        """Ask for a capability; any node answers a `stale` request from what it has.

        A change that must not be carried out twice gets an idempotency key.
        """
        request = await prepared(request)
        try:
            return await self._ask_once(request, stale=stale)
        except NoLeader:
            # Brokers pass requests on to the leader only.
            if stale or not (request.STALE_WITHOUT_LEADER and self._is_controller):
                raise
        return await self._ask_once(request, stale=True)

    async def _ask_once(self, request: Request[A], *, stale: bool) -> A:
        body = schema.encode(request)
        answer = await self._ask(
            Call(
                api_key=ApiKey.CAPABILITY,
                fill=lambda form: form.request(
                    name=request.NAME,
                    stale=stale or request.LOCAL,
                    asks_who_leads=request.ASKS_WHO_LEADS,
                    body=body,
                ),
                asks_who_leads=request.ASKS_WHO_LEADS,
                failing=request.failing(),
                done_before=request.DONE_BEFORE,
                status_command=None if request.only_reads() else request.STATUS_COMMAND,
            )
        )
        try:
            return schema.decode_answer(type(request), answer.value.body)
        except msgspec.MsgspecError as error:
            raise Incompatible(f"invalid response to {request.NAME}: {error}") from None

    # --- the quorum and the cluster --------------------------------------------------------------

    async def describe_quorum(
        self, *, stale: bool = False, patient: bool = True
    ) -> QuorumDescription:
        """Describe the quorum as its leader sees it.

        Any node answers a `stale` request. If not `patient`, the request fails with `Unreachable`
        as soon as there has been no leader for longer than an election takes.
        """
        answer = await self._ask(_fit(describe_quorum(patient=patient), stale=stale))
        cluster = await self.describe_cluster()
        return read_quorum(answer.value, cluster.cluster_id)

    async def discover_brokers(self) -> Nodes:
        """List the nodes that the answering node has heard of; it needs no leader (KIP-595)."""
        answer = await self._ask(
            Call(
                api_key=ApiKey.DISCOVER_BROKERS,
                fill=anonymous_discovery,
                failing="the nodes cannot be discovered",
                status_command=None,
            )
        )
        found = answer.value
        nodes = (
            NodeAddress(
                replica_id=each.replica_id,
                directory_id=uuid_to_text(each.directory_id or NO_DIRECTORY),
                boot_timestamp=each.boot_timestamp,
                host=each.host,
                port=each.port,
                software_version=version_of_peer(each.software_version),
            )
            for each in found.brokers
        )
        return Nodes(
            cluster_id=found.cluster_id,
            leader_id=found.leader_id,
            leader_epoch=found.leader_epoch,
            brokers=tuple(sorted(nodes, key=lambda node: node.replica_id)),
            software_version=version_of_peer(getattr(found, "software_version", "")),
        )

    async def alter_voters(self, target: Sequence[ReplicaKey] | None) -> None:
        """Set the target voters, reached one at a time; None cancels the change under way.

        Returns when that is committed; `describe_quorum` shows the progress.
        """
        failing = "the change of the voters cannot be cancelled"
        voters = None
        if target is not None:
            failing = f"the voters cannot become {', '.join(each.text for each in target)}"
            voters = [_named(each) for each in target]
        await self._change_voters(
            ApiKey.ALTER_QUORUM, {"target_voters": voters}, failing, done_before=None
        )

    async def add_voter(self, voter: ReplicaKey, listeners: Sequence[tuple[str, Address]]) -> None:
        """Add a controller whose log has caught up to the voters (KIP-853)."""
        places = [{"name": name, "host": at.host, "port": at.port} for name, at in listeners]
        await self._change_voters(
            ApiKey.ADD_RAFT_VOTER,
            {"listeners": places, **_named(voter)},
            f"controller {voter.id} cannot be added",
            done_before=ErrorCode.DUPLICATE_VOTER,
        )

    async def remove_voter(self, voter: ReplicaKey) -> None:
        """Remove a controller from the voters (KIP-853)."""
        await self._change_voters(
            ApiKey.REMOVE_RAFT_VOTER,
            _named(voter),
            f"controller {voter.id} cannot be removed",
            done_before=ErrorCode.VOTER_NOT_FOUND,
        )

    async def _change_voters(
        self, api_key: ApiKey, values: Mapping[str, Any], failing: str, *, done_before: int | None
    ) -> None:
        await self._ask(
            Call(
                api_key=api_key,
                fill=lambda form: form.request(cluster_id=None, **values),
                judge=_of_voters,
                failing=failing,
                done_before=done_before,
                status_command=STATUS,
            )
        )

    async def describe_cluster(self) -> ClusterDescription:
        """The nodes of the kind that this client asks: brokers, or controllers."""
        kind = CONTROLLERS if self._is_controller else BROKERS
        answer = await self._ask(
            Call(
                api_key=ApiKey.DESCRIBE_CLUSTER,
                fill=lambda form: form.request(
                    include_cluster_authorized_operations=False, endpoint_type=kind
                ),
                failing="the cluster cannot be described",
                status_command=None,
            )
        )
        nodes = (node_of(each.broker_id, each) for each in answer.value.brokers)
        return ClusterDescription(
            cluster_id=answer.value.cluster_id,
            controller_id=answer.value.controller_id,
            nodes=tuple(sorted(nodes, key=lambda node: node.id)),
        )

    async def brokers(self) -> Sequence[BrokerInfo]:
        """The brokers that are alive."""
        cluster = await self.describe_cluster()
        if not self._is_controller:
            return cluster.nodes
        controllers = {node.id for node in cluster.nodes}
        answer = await self._ask(metadata(()))
        nodes = read_brokers(answer.value)
        return tuple(node for node in nodes if node.id not in controllers)

    # --- topics ----------------------------------------------------------------------------------

    async def describe_topics(
        self, names: Sequence[str] | None = None, *, stale: bool = False
    ) -> Mapping[str, TopicDescription]:
        """The topics of these names, or all; one that does not exist is left out.

        A broker's answer may always be stale, a controller's only if `stale`.
        """
        return (await self.topics(names, stale=stale)).value

    async def topics(
        self, names: Sequence[str] | None = None, *, stale: bool = False
    ) -> Response[Mapping[str, TopicDescription]]:
        """As `describe_topics`, with its offset."""
        answer = await self._ask(_fit(metadata(names), stale=stale))
        return Response(read_topics(answer.value, self.security.principal), answer.as_of)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; None leaves a number to the cluster. `assignments` excludes both."""
        topic = {
            "name": name,
            "num_partitions": BY_DEFAULT if partitions is None else partitions,
            "replication_factor": BY_DEFAULT if replication_factor is None else replication_factor,
            "assignments": [
                {"partition_index": partition, "broker_ids": tuple(brokers)}
                for partition, brokers in sorted((assignments or {}).items())
            ],
            "configs": [
                {"name": key, "value": value} for key, value in sorted((configs or {}).items())
            ],
        }
        await self._ask(
            Call(
                api_key=ApiKey.CREATE_TOPICS,
                fill=lambda form: form.request(topics=[topic]),
                judge=lambda response: verdict_of(only(response.topics)),
                failing=f"topic {name} cannot be created",
                status_command=_describe_topic(name),
                done_before=ErrorCode.TOPIC_ALREADY_EXISTS,
            )
        )

    async def create_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions: `count` in all (KIP-195)."""
        topic = {"name": name, "count": count, "assignments": None}
        await self._ask(
            Call(
                api_key=ApiKey.CREATE_PARTITIONS,
                fill=lambda form: form.request(topics=[topic], validate_only=False),
                judge=lambda response: verdict_of(only(response.results)),
                failing=f"topic {name} cannot have {count} partitions",
                status_command=_describe_topic(name),
            )
        )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        await self._ask(
            Call(
                api_key=ApiKey.DELETE_TOPICS,
                # Older versions have the names; newer ones structures that may hold an id instead.
                fill=lambda form: form.request(
                    topic_names=(name,), topics=[{"name": name, "topic_id": None}]
                ),
                judge=lambda response: verdict_of(only(response.responses)),
                failing=f"topic {name} cannot be deleted",
                status_command=_describe_topic(name),
                done_before=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        )

    # --- configurations and features -------------------------------------------------------------

    async def describe_configs(self, kind: int, name: str) -> Sequence[ConfigInfo]:
        """Describe the configurations of a topic or a broker and their sources (KIP-226)."""
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        answer = await self._ask(
            Call(
                api_key=ApiKey.DESCRIBE_CONFIGS,
                fill=lambda form: form.request(
                    resources=[resource], include_synonyms=False, include_documentation=False
                ),
                judge=lambda response: verdict_of(only(response.results)),
                failing=f"the configurations of {_resource(kind, name)} cannot be described",
                status_command=None,
            )
        )
        found = (
            ConfigInfo(
                name=each.name,
                value=each.value,
                source=_SOURCES.get(each.config_source, f"source {each.config_source}"),
            )
            for each in only(answer.value.results).configs
        )
        return tuple(sorted(found, key=lambda each: each.name))

    async def alter_configs(
        self, kind: int, name: str, values: Mapping[str, str], removed: Collection[str] = ()
    ) -> None:
        """Set and remove configurations of a resource, all of them or none (KIP-339)."""
        operations: list[tuple[str, ConfigOperation, str | None]] = [
            (each, ConfigOperation.SET, value) for each, value in sorted(values.items())
        ]
        operations += [(each, ConfigOperation.DELETE, None) for each in sorted(removed)]
        resource = {
            "resource_type": kind,
            "resource_name": name,
            "configs": [
                {"name": each, "config_operation": operation, "value": value}
                for each, operation, value in operations
            ],
        }
        await self._ask(
            Call(
                api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
                fill=lambda form: form.request(resources=[resource], validate_only=False),
                judge=lambda response: verdict_of(only(response.responses)),
                failing=f"the configurations of {_resource(kind, name)} cannot be changed",
                status_command=_describe_configs(kind, name),
            )
        )

    async def describe_features(self) -> FeaturesDescription:
        """Describe the supported and the finalized levels of features (KIP-584)."""
        answer = await self._ask(
            Call(
                api_key=ApiKey.API_VERSIONS,
                fill=lambda form: form.request(
                    client_software_name=SOFTWARE_NAME, client_software_version=VERSION
                ),
                failing="the features cannot be described",
                status_command=None,
            )
        )
        return read_features(answer.value)

    async def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: UpgradeType, dry_run: bool = False
    ) -> None:
        """Put features in force at these levels, all or none (KIP-584)."""
        await self._ask(update_features(levels, upgrade_type=upgrade_type, dry_run=dry_run))

    # --- reassignments ---------------------------------------------------------------------------

    async def begin_move(self, asked: "BeginMove") -> "BegunMove":
        """Begin a move, redirect or cancel reassignments; one result for each partition.

        It gets a key if it has none, so that a retry is not carried out twice.
        """
        from admin.client import reassignments

        call = reassignments.begin_move(with_key(asked))
        return reassignments.read_begun(asked, (await self._ask(call)).value)

    async def alter_reassignments(
        self, assignments: Sequence[Assignment]
    ) -> "Sequence[AssignedPartition]":
        """As `begin_move`, without a name."""
        from admin.capabilities.reassignments import BeginMove

        return (await self.begin_move(BeginMove(assignments=assignments))).results

    async def list_reassignments(
        self, wanted: Mapping[str, Sequence[int]] | None = None
    ) -> Sequence[OngoingReassignment]:
        """The partitions under way: all of them, or those of `wanted`, partitions by topic."""
        return (await self.reassignments(wanted)).value

    async def reassignments(
        self, wanted: Mapping[str, Sequence[int]] | None = None, *, stale: bool = False
    ) -> Response[Sequence[OngoingReassignment]]:
        """As `list_reassignments`, with its offset; any node answers a `stale` request."""
        from admin.client import reassignments

        answer = await self._ask(_fit(reassignments.list_reassignments(wanted), stale=stale))
        return Response(reassignments.read_reassignments(answer.value), answer.as_of)


def _fit(call: Call, *, stale: bool) -> Call:
    consistency = Consistency.STALE if stale else Consistency.LINEARIZABLE
    return replace(call, extension=Extension(consistency=consistency))


def _of_voters(response: Any) -> Verdict:
    """The verdict; our leaders mark a change that they have given up as not done."""
    verdict = verdict_of(response)
    return replace(verdict, is_undone=(verdict.message or "").startswith(NOT_DONE))


def _named(voter: ReplicaKey) -> dict[str, int | UUID | None]:
    directory_id = None if voter.directory_id == NO_DIRECTORY else voter.directory_id
    return {"voter_id": voter.id, "voter_directory_id": directory_id}


def _describe_topic(name: str) -> str:
    return f"metaquorum topics describe {name}"


def _describe_configs(kind: int, name: str) -> str:
    which = f"--broker {name}" if name else "--broker-default"
    if kind == TOPIC_RESOURCE:
        which = f"--topic {name}"
    elif kind == BROKER_LOGGER_RESOURCE:
        which = f"--broker-logger {name}"
    return f"metaquorum configs describe {which}"


def _resource(kind: int, name: str) -> str:
    if kind == TOPIC_RESOURCE:
        return f"topic {name}"
    return f"broker {name}" if name else "all brokers"


def read_features(response: Any) -> FeaturesDescription:
    """Return the features that the node knows or that are in force, by name."""
    supported = {
        each.name: (each.min_version, each.max_version)
        for each in getattr(response, "supported_features", ())
    }
    levels = {
        each.name: each.max_version_level for each in getattr(response, "finalized_features", ())
    }
    return FeaturesDescription(
        epoch=getattr(response, "finalized_features_epoch", -1),
        features=tuple(
            FeatureInfo(name=name, supported=supported.get(name), level=levels.get(name, 0))
            for name in sorted({*supported, *levels})
        ),
    )


def update_features(levels: Mapping[str, int], *, upgrade_type: UpgradeType, dry_run: bool) -> Call:
    """Put features in force; refuse a version without `upgrade_type`, if the request needs it."""
    too_old = False

    def fill(form: Form) -> Any:
        nonlocal too_old
        is_old = form.version < _UPGRADE_TYPES_FROM
        too_old = is_old and (dry_run or upgrade_type is UpgradeType.UNSAFE_DOWNGRADE)
        updates = [
            {
                "feature": name,
                "max_version_level": level,
                "allow_downgrade": upgrade_type is not UpgradeType.UPGRADE,
                "upgrade_type": upgrade_type.value,
            }
            for name, level in sorted(levels.items())
        ]
        # Without the field the node would carry out another update: send none.
        return form.request(feature_updates=[] if too_old else updates, validate_only=dry_run)

    def judge(response: Any) -> Verdict:
        message = "the cluster is too old for --dry-run and --unsafe"
        return Verdict(ErrorCode.UNSUPPORTED_VERSION, message) if too_old else verdict_of(response)

    return Call(
        api_key=ApiKey.UPDATE_FEATURES,
        fill=fill,
        judge=judge,
        failing="the features cannot be updated",
        status_command=None if dry_run else "metaquorum features describe",
    )
