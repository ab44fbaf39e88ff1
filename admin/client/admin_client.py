"""A typed client of a cluster's administration."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from admin.addresses import Address
from admin.capabilities.reassignments import AssignedPartition, BeginMove, BegunMove
from admin.capabilities.schema import Request, with_key
from admin.client import capability, features, voters
from admin.client import configs as config_questions
from admin.client import reassignments as reassignment_questions
from admin.client import topics as questions
from admin.client.asking import Answer, Asker, Question
from admin.client.configs import ConfigInfo
from admin.client.nodes import Whereabouts, discover_brokers, read_whereabouts
from admin.faults import AdminError, Incompatible, Refused, Unreachable
from admin.model import (
    Assignment,
    BrokerInfo,
    ClusterDescription,
    FeaturesDescription,
    Reassignment,
    Reassignments,
    TopicDescription,
    Topics,
)
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import ReplicaKey
from quorum.protocol.extension_tags import Consistency

__all__ = ["AdminClient", "AdminError", "Incompatible", "Refused", "Unreachable"]

A = TypeVar("A")

TIMEOUT_MS: Final = 15_000

BROKERS: Final = 1
CONTROLLERS: Final = 2


class AdminClient:
    """Asks the nodes at `bootstrap`; use it as an async context, or `close` it.

    Every method raises `AdminError`: `Refused` when the cluster says no, `Unreachable` when
    nobody could answer in time, `Incompatible` when no version of the request is common.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        is_controller: bool,
        timeout_ms: int = TIMEOUT_MS,
        client_id: str = "metaquorum-admin",
    ) -> None:
        """`is_controller` says what listens there; `timeout_ms` bounds each call in all."""
        self._asker = Asker(bootstrap, client_id)
        self._is_controller = is_controller
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> "AdminClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._asker.close()

    async def ask(self, request: Request[A], *, stale: bool = False) -> A:
        """Ask for a capability; any node answers a `stale` request from what it has.

        A change that must not be carried out twice gets an idempotency key.
        """
        request = with_key(request)
        answer = await self._ask(capability.question_of(request, stale=stale))
        return capability.answer_in(request, answer.response.body)

    async def describe_quorum(
        self, *, stale: bool = False, patient: bool = True
    ) -> QuorumDescription:
        """Describe the quorum as its leader sees it.

        Any node answers where it may be `stale`. Who is not `patient` is told that nobody leads as
        soon as that has gone on for longer than an election, with `Unreachable`.
        """
        question = questions.describe_quorum(patient=patient)
        answer = await self._ask(_fit(question, stale=stale))
        cluster = await self.describe_cluster()
        return questions.read_quorum(answer.response, cluster.cluster_id)

    async def discover_brokers(self) -> Whereabouts:
        """List the nodes that the node which answers has heard of; it needs no leader."""
        answer = await self._ask(discover_brokers())
        return read_whereabouts(answer.response)

    async def alter_voters(self, target: Sequence[ReplicaKey] | None) -> None:
        """Let these vote in the end, one step after the other; None cancels what is under way.

        Returns when that is committed; `describe_quorum` shows how far it has come.
        """
        await self._ask(voters.alter_quorum(target))

    async def add_voter(self, voter: ReplicaKey, listeners: Sequence[tuple[str, Address]]) -> None:
        """Let one more controller vote, whose copy of the log has caught up (KIP-853)."""
        await self._ask(voters.add_voter(voter, listeners))

    async def remove_voter(self, voter: ReplicaKey) -> None:
        """Let a controller vote no more (KIP-853)."""
        await self._ask(voters.remove_voter(voter))

    async def describe_cluster(self) -> ClusterDescription:
        """The nodes of the kind that this client asks: brokers, or controllers."""
        kind = CONTROLLERS if self._is_controller else BROKERS
        answer = await self._ask(questions.describe_cluster(kind))
        return questions.read_cluster(answer.response)

    async def brokers(self) -> Sequence[BrokerInfo]:
        """The brokers that are alive."""
        cluster = await self.describe_cluster()
        if not self._is_controller:
            return cluster.nodes
        controllers = {node.id for node in cluster.nodes}
        answer = await self._ask(questions.metadata(()))
        nodes = questions.read_brokers(answer.response)
        return tuple(node for node in nodes if node.id not in controllers)

    async def describe_topics(
        self, names: Sequence[str] | None = None, *, stale: bool = False
    ) -> Mapping[str, TopicDescription]:
        """The topics of these names, or all; one that does not exist is left out.

        A broker's answer may always be stale, that of a controller where it may be `stale`.
        """
        return (await self.topics(names, stale=stale)).found

    async def topics(self, names: Sequence[str] | None = None, *, stale: bool = False) -> Topics:
        """As `describe_topics`, with what it is as of."""
        answer = await self._ask(_fit(questions.metadata(names), stale=stale))
        return Topics(found=questions.read_topics(answer.response), as_of=answer.as_of)

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
        question = questions.create_topic(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            assignments=assignments or {},
            configs=configs or {},
        )
        await self._ask(question)

    async def create_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions: `count` in all."""
        await self._ask(questions.create_partitions(name, count))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        await self._ask(questions.delete_topic(name))

    async def describe_configs(self, kind: int, name: str) -> Sequence[ConfigInfo]:
        """Describe the configurations of a resource and their sources."""
        answer = await self._ask(config_questions.describe_configs(kind, name))
        return config_questions.read_configs(answer.response)

    async def alter_configs(
        self, kind: int, name: str, values: Mapping[str, str], removed: Collection[str] = ()
    ) -> None:
        """Set and remove configurations of a resource, all of them or none."""
        await self._ask(config_questions.alter_configs(kind, name, values, removed))

    async def describe_features(self) -> FeaturesDescription:
        """The features that a node supports, and those that are in force."""
        answer = await self._ask(features.describe_features())
        return features.read_features(answer.response)

    async def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: int, dry_run: bool = False
    ) -> None:
        """Put features in force at these levels; `upgrade_type` is one of `feature_questions`."""
        question = features.update_features(levels, upgrade_type=upgrade_type, dry_run=dry_run)
        await self._ask(question)

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that will not come back, whatever it has: Kafka's own request."""
        await self._ask(questions.unregister_broker(broker_id))

    async def begin_move(self, asked: BeginMove) -> BegunMove:
        """Begin a move, redirect and cancel what is under way; one result for each partition.

        It has a key, its own or a new one: after a lost answer nothing is carried out again.
        """
        question = reassignment_questions.begin_move(with_key(asked))
        return reassignment_questions.read_begun(asked, await self._ask(question))

    async def alter_reassignments(
        self, assignments: Sequence[Assignment]
    ) -> Sequence[AssignedPartition]:
        """As `begin_move`, without a name."""
        return (await self.begin_move(BeginMove(assignments=assignments))).results

    async def list_reassignments(
        self, wanted: Mapping[str, Sequence[int]] | None = None
    ) -> Sequence[Reassignment]:
        """The partitions under way: all of them, or those of `wanted`, partitions by topic."""
        return (await self.reassignments(wanted)).moves

    async def reassignments(
        self, wanted: Mapping[str, Sequence[int]] | None = None, *, stale: bool = False
    ) -> Reassignments:
        """As `list_reassignments`, with what it is as of; any node answers a `stale` one."""
        question = reassignment_questions.list_reassignments(wanted)
        answer = await self._ask(_fit(question, stale=stale))
        found = reassignment_questions.read_reassignments(answer.response)
        return Reassignments(moves=found, as_of=answer.as_of)

    async def _ask(self, question: Question) -> Answer:
        return await self._asker.ask(question, within_ms=self._timeout_ms)


def _fit(question: Question, *, stale: bool) -> Question:
    return replace(question, wanted=Consistency.STALE if stale else Consistency.LINEARIZABLE)
