"""A cluster that lives at random: what operators and brokers ask, as the state machine decides it.

Every record is the product's own decision, but for those of a controller of Kafka's, which knows no
targets, and which led for a while: these are written as that one writes them. A seed replays all.
"""

import random
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from statemachine import commands
from statemachine.decide import decide
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.settings import (
    LEADER_MOVEMENTS,
    PARALLEL_PARTITIONS,
    PARALLEL_REPLICAS,
    REPLICA_MOVEMENTS,
)
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.replay import replay
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, NO_LEADER, MoveKind, Replicas
from tests.statemachine.support.world import CLUSTER_ID, FEATURES, LEVEL, directory, incarnation

BROKERS: Final = range(1, 9)
TOPICS: Final = 5
PARTITIONS: Final = 4
LIMITS: Final = (PARALLEL_REPLICAS, PARALLEL_PARTITIONS, LEADER_MOVEMENTS, REPLICA_MOVEMENTS)
PEOPLE: Final = ("ann", "bob")

Where = tuple[UUID, int]


class RandomCluster:
    """The image, and what happens to it: each call of `decided` is one thing, or nothing."""

    def __init__(self, rng: random.Random) -> None:
        self.image = Image()
        self._rng = rng
        self._said: list[bytes] = []
        self._started = dict.fromkeys(BROKERS, 1)
        """The number of starts of each broker."""
        self._controllers = 0
        self._made = 0
        self._now_ms = 0
        self._is_quiet = False
        self.left_alone: set[Where] = set()
        """Partitions of which nobody speaks any more, on purpose."""
        self._begins = self._beginning()

    def decided(self, now_ms: int, log_end: int) -> list[bytes]:
        """The records of the next thing that happens, for the log that ends there; maybe none."""
        self.image.advance(log_end)
        self._now_ms, self._said = now_ms, []
        if self._begins:
            self._begins.pop(0)()
        else:
            acts = self._acts()
            self._rng.choices(list(acts), list(acts.values()))[0]()
        return self._said

    def controller(self, controller_id: int, now_ms: int, log_end: int) -> list[bytes]:
        """A controller that has started says so."""
        self.image.advance(log_end)
        self._now_ms, self._said = now_ms, []
        self._controllers += 1
        said = commands.RegisterController(
            controller_id=controller_id,
            incarnation_id=UUID(int=self._controllers),
            endpoints=(),
            features=FEATURES,
        )
        self._ask(said)
        return self._said

    def leave_alone(self) -> None:
        """Write no further records about half of the moving partitions.

        Nor is anything done that concerns all partitions, so that nothing else touches them.
        """
        self._begins = [self._resume_all]
        self._is_quiet = True
        for where, partition in self._partitions():
            if partition.moving and self._rng.random() < 0.5:
                self.left_alone.add(where)

    # What there is.

    def _beginning(self) -> list[Callable[[], None]]:
        return [
            self._found,
            *(lambda each=each: self._register(each) for each in BROKERS),
            *(lambda each=each: self._beat(each) for each in BROKERS[:-1]),
            *[self._create] * TOPICS,
        ]

    def _found(self) -> None:
        self._ask(commands.FoundCluster(metadata_version=LEVEL))

    def _acts(self) -> dict[Callable[[], None], int]:
        """The possible events, with their weights."""
        of_some = {
            self._catch_up: 60, self._propose: 8, self._reassign: 9, self._begin: 5,
            self._cancel: 3, self._grow: 1, self._kafka: 4,
        }  # fmt: skip
        of_all = {
            self._cancel_move: 1, self._roll_back: 1, self._pause: 2, self._resume: 8,
            self._pause_all: 1, self._resume_all: 6, self._alter: 1, self._limit: 4,
            self._unlimit: 2, self._fence: 4, self._return: 7, self._stop: 1,
            self._unregister: 1, self._create: 1, self._delete: 1, self._register_again: 2,
        }  # fmt: skip
        return of_some if self._is_quiet else {**of_some, **of_all}

    def _partitions(self) -> list[tuple[Where, PartitionRegistration]]:
        return [
            ((topic_id, number), partition)
            for topic_id, topic in self.image.topics.items()
            for number, partition in topic.existing()
            if (topic_id, number) not in self.left_alone
        ]

    def _some(self, *, moving: bool | None = None) -> tuple[Where, PartitionRegistration] | None:
        found = [each for each in self._partitions() if moving in (None, each[1].moving)]
        return self._rng.choice(found) if found else None

    def _running(self) -> int | None:
        found = [move.id for move in self.image.moves.values() if move.ended is None]
        return self._rng.choice(found) if found else None

    def _replicas(self, count: int | None = None) -> Replicas:
        known = [each for each in BROKERS if each in self.image.brokers]
        count = self._rng.randint(1, 4) if count is None else count
        return tuple(self._rng.sample(known, min(count, len(known))))

    def _ask(self, command: commands.Command) -> None:
        for record in decide(self.image, command, now_ms=self._now_ms).records:
            self._say(record)

    def _say(self, record: kafka_records.Record) -> None:
        value = encode(record, LEVEL)
        replay(self.image, decode(value), self.image.end_offset)
        self._said.append(value)

    # Brokers.

    def _register(self, broker_id: int, rack: str | None = None) -> None:
        self._ask(
            commands.RegisterBroker(
                broker_id=broker_id,
                cluster_id=CLUSTER_ID,
                our_cluster_id=CLUSTER_ID,
                incarnation_id=incarnation(broker_id, self._started[broker_id]),
                rack=rack,
                endpoints=(),
                features=FEATURES,
                log_dirs=(directory(broker_id),),
            )
        )

    def _beat(self, broker_id: int, *, stops: bool = False) -> None:
        broker = self.image.brokers[broker_id]
        end = self.image.end_offset
        self._ask(
            commands.BrokerHeartbeat(
                broker_id=broker_id,
                broker_epoch=broker.broker_epoch,
                metadata_offset=end,
                want_shut_down=stops,
                lowest_live_offset=end,
            )
        )

    def _of(self, *, fenced: bool) -> int | None:
        found = [key for key, each in self.image.brokers.items() if each.fenced is fenced]
        return self._rng.choice(sorted(found)) if found else None

    def _fence(self) -> None:
        broker_id = self._of(fenced=False)
        if broker_id is not None and sum(not b.fenced for b in self.image.brokers.values()) > 4:
            self._ask(commands.FenceBrokers(broker_ids=(broker_id,)))

    def _return(self) -> None:
        broker_id = self._of(fenced=True)
        if broker_id is None:
            broker_id = next((b for b in BROKERS if b not in self.image.brokers), None)
        if broker_id is None:
            return
        if broker_id not in self.image.brokers or self._rng.random() < 0.5:
            self._started[broker_id] += 1
            self._register(broker_id)
        if self._rng.random() < 0.8:
            self._beat(broker_id)

    def _register_again(self) -> None:
        """One that has not been started anew says something else of itself."""
        broker_id = self._of(fenced=self._rng.random() < 0.3)
        if broker_id is not None:
            self._register(broker_id, self._rng.choice("abc"))

    def _stop(self) -> None:
        broker_id = self._of(fenced=False)
        if broker_id is not None:
            self._beat(broker_id, stops=True)

    def _unregister(self) -> None:
        broker_id = self._of(fenced=True)
        if broker_id is not None:
            self._ask(commands.UnregisterBroker(broker_id=broker_id))

    # Topics.

    def _create(self) -> None:
        self._made += 1
        new = commands.NewTopic(
            name=f"topic-{self._made}",
            topic_id=UUID(int=self._rng.getrandbits(128), version=4),
            assignments=tuple((number, self._replicas(3)) for number in range(PARTITIONS)),
        )
        self._ask(commands.CreateTopics(topics=(new,)))

    def _delete(self) -> None:
        found = self._some(moving=self._rng.random() < 0.8)
        if found is not None and not any(found[0][0] == each for each, _ in self.left_alone):
            self._ask(commands.DeleteTopics(topics=(found[0][0],)))

    def _grow(self) -> None:
        found = self._some()
        if found is None:
            return
        topic = self.image.topics[found[0][0]]
        count = sum(1 for _ in topic.existing()) + 1
        more = commands.MorePartitions(
            name=topic.name, count=count, assignments=(self._replicas(3),)
        )
        self._ask(commands.CreatePartitions(topics=(more,)))

    # The ISR.

    def _catch_up(self) -> None:
        """All of it at once, or the next one only; of one that moves, as a rule."""
        found = self._some(moving=True) or self._some()
        if found is None:
            return
        where, partition = found
        late = (
            [
                each
                for each in partition.replicas
                if each not in partition.isr and self.image.brokers[each].live
            ]
            if all(each in self.image.brokers for each in partition.replicas)
            else []
        )
        if self._rng.random() < 0.3:
            late = late[:1]
        self._set_isr(where, partition, (*partition.isr, *late))

    def _propose(self) -> None:
        """One falls behind."""
        found = self._some()
        if found is not None:
            where, partition = found
            others = [each for each in partition.isr if each != partition.leader]
            if others:
                gone = self._rng.choice(others)
                self._set_isr(where, partition, tuple(e for e in partition.isr if e != gone))

    def _set_isr(self, where: Where, partition: PartitionRegistration, isr: Replicas) -> None:
        leader = self.image.brokers.get(partition.leader)
        if partition.leader == NO_LEADER or leader is None or isr == partition.isr:
            return
        members = tuple(
            commands.IsrMember(each, self.image.brokers[each].broker_epoch)
            for each in isr
            if each in self.image.brokers
        )
        proposal = commands.IsrProposal(
            topic_id=where[0],
            partition=where[1],
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=members,
        )
        self._ask(
            commands.AlterPartition(
                broker_id=partition.leader, broker_epoch=leader.broker_epoch, proposals=(proposal,)
            )
        )

    # Moves.

    def _wishes(self, count: int) -> tuple[commands.Reassignment, ...]:
        found = self._partitions()
        if self._rng.random() < 0.6:
            found = [each for each in found if not each[1].moving]
        chosen = self._rng.sample(found, min(count, len(found)))
        wanted = []
        for (topic_id, number), partition in chosen:
            replicas = self._replicas()
            if self._rng.random() < 0.3:
                # What is there already in another order, and maybe one more.
                more = partition.replicas + self._replicas(1) * self._rng.randint(0, 1)
                replicas = tuple(self._rng.sample(list(dict.fromkeys(more)), len(set(more))))
            topic = self.image.topics[topic_id].name
            wanted.append(commands.Reassignment(topic=topic, partition=number, replicas=replicas))
        return tuple(wanted)

    def _reassign(self) -> None:
        wishes = self._wishes(self._rng.randint(1, 2))
        self._ask(commands.AlterReassignments(reassignments=wishes, who=self._rng.choice(PEOPLE)))

    def _begin(self) -> None:
        kind = self._rng.choice((MoveKind.REASSIGN, MoveKind.DRAIN))
        self._ask(
            commands.BeginMove(
                reassignments=self._wishes(self._rng.randint(1, 4)),
                who=self._rng.choice(PEOPLE),
                kind=kind,
                broker=1 if kind is MoveKind.DRAIN else None,
                name=self._rng.choice(("", "weekly")),
                priority=self._rng.randint(0, 2),
            )
        )

    def _cancel(self) -> None:
        found = self._some(moving=True)
        if found is not None:
            (topic_id, number), _ = found
            name = self.image.topics[topic_id].name
            asked = commands.Reassignment(topic=name, partition=number, replicas=None)
            self._ask(commands.AlterReassignments(reassignments=(asked,)))

    def _of_running(self, make: Callable[[int], commands.Command]) -> None:
        move_id = self._running()
        alone = {
            self.image.topics[t].partition(n) for t, n in self.left_alone if t in self.image.topics
        }
        if move_id is not None and all(p is None or p.stage.move != move_id for p in alone):
            self._ask(make(move_id))

    def _cancel_move(self) -> None:
        self._of_running(lambda move_id: commands.CancelMoves(moves=(move_id,)))

    def _roll_back(self) -> None:
        self._of_running(lambda move_id: commands.RollBackMove(move_id=move_id, who="ann"))

    def _pause(self) -> None:
        self._of_running(lambda move_id: commands.PauseMoves(moves=(move_id,), who="bob"))

    def _resume(self) -> None:
        self._of_running(
            lambda move_id: commands.PauseMoves(paused=False, moves=(move_id,), who="bob")
        )

    def _alter(self) -> None:
        self._of_running(lambda move_id: commands.AlterMove(move_id=move_id, priority=7))

    def _pause_all(self) -> None:
        self._ask(commands.PauseMoves(moves=None, who="bob"))

    def _resume_all(self) -> None:
        self._ask(commands.PauseMoves(paused=False, moves=None, who="bob"))

    def _limit(self) -> None:
        self._configure(self._rng.choice(LIMITS), str(self._rng.randint(1, 3)))

    def _unlimit(self) -> None:
        self._configure(self._rng.choice(LIMITS), None)

    def _configure(self, name: str, value: str | None) -> None:
        operation = (
            commands.ConfigOperation.DELETE if value is None else commands.ConfigOperation.SET
        )
        op = commands.ConfigOp(name=name, operation=operation, value=value)
        asked = commands.ConfigChange(
            resource_type=BROKER_RESOURCE, resource_name=CLUSTER_DEFAULT, ops=(op,)
        )
        self._ask(commands.IncrementalAlterConfigs(changes=(asked,)))

    def _kafka(self) -> None:
        """The record of a Kafka controller about a partition: it has no targets."""
        found = self._some(moving=self._rng.random() < 0.3)
        if found is None or found[1].leader == NO_LEADER:
            return
        where, now = found
        said: dict[str, Any] = {"adding": (), "removing": ()}
        if not now.moving:
            wanted = self._replicas()
            removing = tuple(each for each in now.replicas if each not in wanted)
            adding = tuple(each for each in wanted if each not in now.replicas)
            said |= {"replicas": (*wanted, *removing), "adding": adding, "removing": removing}
        else:
            # It is cancelled, or done.
            out = self._rng.choice((now.adding, now.removing))
            left = tuple(each for each in now.replicas if each not in out)
            if now.leader not in left:
                return
            isr = left if out == now.removing else tuple(e for e in now.isr if e in left)
            said |= {"replicas": left, "isr": isr, "elr": ()}
        self._say(kafka_records.PartitionChange(topic_id=where[0], partition_id=where[1], **said))
