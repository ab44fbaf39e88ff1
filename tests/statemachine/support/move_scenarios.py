"""The commands of `moves_*` transcripts, and their answers.

There is one topic `t` with one or a few partitions, and its brokers. Every decision is made by the
product, and every record is read back from its bytes. An answer has the result, the records, and
each partition that has changed. Commands without a partition are about `t-0`.

    brokers 6             register brokers 1 to 6, alive; `brokers 0-9` these, `elr` with KIP-966
    topic 1 2 3 [min 2]   create topic t on these replicas; min.insync.replicas is 2; `x 4`: four
                          such partitions, and may be repeated for others
    set R 2               change a setting: R, P, L, M (the limits), rule, min, unclean
    move 4 5 6 [of 1]     an operator requests these replicas for the partition (Kafka's request)
    plan 0=4,5,6 1=1,2,4  the same for several, as one move; [by ann] [priority 5] [key k]
                          [throttle 1000], in bytes a second
    cancel                an operator cancels the reassignment
    cancel-moves 1        or all moves of these ids; `all`, `topic t`, `dry`
    rollback 1            roll back move 1; `dry`
    pause 1, resume 1     these moves, or without an id all moves, present and future ones;
                          `pause 1 after-step` lets the steps under way complete
    priority 1 5          set the priority of move 1
    throttle 1 2000       set the rate of move 1; 0 removes the limit
    user broker 2 leader rate 500
                          a user sets a throttle; `user topic t follower list 0:4`, `none` removes
                          it, `+0:4` is added to a list
    isr 1 2 4 [of 1]      the leader proposes this ISR
    isr 1 2 4 by 2        broker 2 proposes it, whether it leads or not
    isr 1 2 behind        the leader proposes it for the partition before its last change
    isr 1 2 ahead         for a partition epoch that the controller does not have yet
    isr 1 2 deposed       for the leader epoch before this one
    isr 1 2 recovering    before it has recovered from an unclean election
    isr 1 2 stale         with an unregistered broker epoch; `stranger`: an unknown topic id
    isr 1 2 rebooted 2    with the broker epoch that broker 2 had before its restart
    catch-up 0 1          in each of these partitions all live replicas join the ISR, one by one
    fence 2               the session of broker 2 expires
    back 2                it sends heartbeats again, as the same incarnation
    return 2 [clean]      broker 2 restarts and is unfenced; `clean`: it had stopped cleanly
    stop 2                broker 2 begins a controlled shutdown
    cordon 2, uncordon 2  cordon broker 2, and end that
    unregister 2          unregister broker 2; `if empty`
    delete                delete topic t
    grow 1 2 3            add a partition to topic t, on these; without any they are placed
    elect unclean         an operator requests an unclean election; or `elect preferred`
    wait 60               so many seconds pass
    where, moves          the progress of each partition, and each move
    throttles             the throttle configurations, and their owners
    fail-over             another controller takes over: its image must equal the fold of the log,
                          and that of a snapshot
    lost move 4 5 6       this is decided, and the controller loses the lead before its commit
"""

from typing import Any
from uuid import UUID

from statemachine import commands
from statemachine.image.image import Image
from statemachine.image.snapshot import begin
from statemachine.reassignment.settings import (
    COMPLETION_RULE,
    LEADER_MOVEMENTS,
    PARALLEL_PARTITIONS,
    PARALLEL_REPLICAS,
    REPLICA_MOVEMENTS,
)
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.replay import replay
from statemachine.vocabulary import RECOVERING, Replicas
from tests.statemachine.image.test_snapshot_written import loaded, whole
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    MIN_ISR,
    SET,
    TOPIC,
    UNCLEAN,
    change,
)
from tests.statemachine.support.move_transcripts import (
    answered,
    moves_of,
    recorded,
    standings,
    told_of,
)
from tests.statemachine.support.reference_checks import contents
from tests.statemachine.support.throttle_transcripts import throttles, wished
from tests.statemachine.support.world import TOPIC_ID, World

SETTINGS = {
    "R": (ALL_BROKERS, PARALLEL_REPLICAS),
    "P": (ALL_BROKERS, PARALLEL_PARTITIONS),
    "L": (ALL_BROKERS, LEADER_MOVEMENTS),
    "M": (ALL_BROKERS, REPLICA_MOVEMENTS),
    "rule": (ALL_BROKERS, COMPLETION_RULE),
    "min": (TOPIC, MIN_ISR),
    "unclean": (TOPIC, UNCLEAN),
}
VALUED = ("of", "by", "rebooted", "min", "x", "priority", "key", "topic", "throttle")
"""Words that are followed by what they are about."""


class _Logged(World):
    """A world that keeps its log, in bytes."""

    def __init__(self, *, elr: bool) -> None:
        self.log: list[bytes] = []
        super().__init__(elr=elr)

    def replay(
        self, record: kafka_records.Record, written: kafka_records.Record | None = None
    ) -> None:
        self.log.append(encode(record, self.image.level))
        super().replay(record, written)

    def folded(self) -> Image:
        """The image of another node that replays the log."""
        image = Image()
        for entry in self.log:
            replay(image, decode(entry), image.end_offset)
        return image


class MovesStage:
    """One story."""

    def __init__(self) -> None:
        self.world = _Logged(elr=False)
        self.restarts = 1
        self.epochs_before: dict[int, int] = {}

    def answer(self, command: str) -> str:
        """The answer to a scene of one or more commands."""
        lines = command.splitlines()
        shown: list[str] = []
        for line in lines:
            told = self._told(line)
            shown += [f"> {line}", *told] if len(lines) > 1 else told
        return "\n".join(shown)

    def _told(self, line: str) -> list[str]:
        word, *words = line.split()
        told: list[str] = getattr(self, f"_{word.replace('-', '_')}")(words)
        return told

    # What there is.

    def _brokers(self, words: list[str]) -> list[str]:
        if "elr" in words:
            self.world = _Logged(elr=True)
        first, _, last = words[0].rpartition("-")
        for broker_id in range(int(first or 1), int(last) + 1):
            self.world.join(broker_id)
        return [f"brokers {first or 1} to {last} live"]

    def _topic(self, words: list[str]) -> list[str]:
        replicas, said = read(words)
        before = self._count()
        configs = {"min.insync.replicas": said.get("min", "1")} if before == 0 else None
        for _ in range(int(said.get("x", "1"))):
            self.world.given(replicas=replicas, isr=replicas, leader=replicas[0], configs=configs)
        return [told_of(self.world.partition(n), n) for n in range(before, self._count())]

    def _set(self, words: list[str]) -> list[str]:
        resource, name = SETTINGS[words[0]]
        asked = change(resource, (name, SET, words[1]))
        return self._ask(commands.IncrementalAlterConfigs(changes=(asked,)))

    # What operators ask for.

    def _move(self, words: list[str]) -> list[str]:
        replicas, said = read(words)
        return self._reassign(int(said.get("of", "0")), replicas)

    def _cancel(self, words: list[str]) -> list[str]:
        return self._reassign(int(read(words)[1].get("of", "0")), None)

    def _reassign(self, number: int, replicas: Replicas | None) -> list[str]:
        asked = commands.Reassignment(topic="t", partition=number, replicas=replicas)
        return self._ask(commands.AlterReassignments(reassignments=(asked,)))

    def _plan(self, words: list[str]) -> list[str]:
        _, said = read([each for each in words if "=" not in each])
        planned = [each.split("=") for each in words if "=" in each]
        asked = commands.BeginMove(
            reassignments=tuple(
                commands.Reassignment(
                    topic="t",
                    partition=int(number),
                    replicas=tuple(map(int, replicas.split(","))),
                )
                for number, replicas in planned
            ),
            who=said.get("by", "ann"),
            priority=int(said.get("priority", "0")),
            throttle_bytes_per_s=int(said.get("throttle", "0")),
        )
        if "key" not in said:
            return self._ask(asked)
        fingerprint = " ".join(words).encode()
        return self._ask(
            commands.IdempotentCommand(key=said["key"], fingerprint=fingerprint, command=asked)
        )

    def _cancel_moves(self, words: list[str]) -> list[str]:
        moves, said = read(words)
        topics = (said["topic"],) if "topic" in said else ()
        return self._ask(
            commands.CancelMoves(
                moves=moves, topics=topics, everything="all" in said, dry_run="dry" in said
            )
        )

    def _rollback(self, words: list[str]) -> list[str]:
        dry_run = words[1:] == ["dry"]
        return self._ask(commands.RollBackMove(move_id=int(words[0]), who="ann", dry_run=dry_run))

    def _pause(self, words: list[str]) -> list[str]:
        moves = tuple(int(word) for word in words if word.isdigit()) or None
        after_step = "after-step" in words
        return self._ask(commands.PauseMoves(moves=moves, who="bob", after_step=after_step))

    def _resume(self, words: list[str]) -> list[str]:
        moves = tuple(map(int, words)) or None
        return self._ask(commands.PauseMoves(paused=False, moves=moves, who="bob"))

    def _priority(self, words: list[str]) -> list[str]:
        move_id, priority = map(int, words)
        return self._ask(commands.AlterMove(move_id=move_id, priority=priority))

    def _throttle(self, words: list[str]) -> list[str]:
        move_id, rate = map(int, words)
        return self._ask(commands.AlterMove(move_id=move_id, throttle_bytes_per_s=rate))

    def _user(self, words: list[str]) -> list[str]:
        return self._ask(commands.IncrementalAlterConfigs(changes=(wished(words),)))

    def _delete(self, _words: list[str]) -> list[str]:
        return self._ask(commands.DeleteTopics(topics=("t",)))

    def _grow(self, words: list[str]) -> list[str]:
        replicas = tuple(map(int, words))
        more = commands.MorePartitions(
            name="t", count=self._count() + 1, assignments=(replicas,) if replicas else None
        )
        return self._ask(commands.CreatePartitions(topics=(more,)))

    def _elect(self, words: list[str]) -> list[str]:
        election = commands.ElectionType[words[0].upper()]
        return self._ask(commands.ElectLeaders(election=election, partitions=(("t", 0),)))

    # What brokers do.

    def _isr(self, words: list[str]) -> list[str]:
        ids, said = read(words)
        number = int(said.get("of", "0"))
        partition = self.world.partition(number if number < self._count() else 0)
        sender = int(said.get("by", partition.leader))
        rebooted = int(said.get("rebooted", "-1"))
        members = [self.world.member(each) for each in ids]
        fields: dict[str, Any] = {
            "partition": number,
            "partition_epoch": partition.partition_epoch - ("behind" in said) + ("ahead" in said),
            "leader_epoch": partition.leader_epoch - ("deposed" in said),
            "isr": tuple(
                commands.IsrMember(rebooted, self.epochs_before[rebooted])
                if each.broker_id == rebooted
                else each
                for each in members
            ),
        }
        if "recovering" in said:
            fields["recovery"] = RECOVERING
        if "stranger" in said:
            fields["topic_id"] = UUID(int=7)
        proposal = self.world.proposal(ids, number if number < self._count() else 0, **fields)
        epoch = self.world.epoch(sender) - ("stale" in said)
        return self._ask(
            commands.AlterPartition(broker_id=sender, broker_epoch=epoch, proposals=(proposal,))
        )

    def _catch_up(self, words: list[str]) -> list[str]:
        shown: list[str] = []
        for number in map(int, words or ["0"]):
            partition = self.world.partition(number)
            brokers = self.world.image.brokers
            live = [str(r) for r in partition.replicas if r in brokers and brokers[r].live]
            shown += self._isr([*live, "of", str(number)])
        return shown

    def _fence(self, words: list[str]) -> list[str]:
        return self._ask(commands.FenceBrokers(broker_ids=tuple(map(int, words))))

    def _back(self, words: list[str], *, want_shut_down: bool = False) -> list[str]:
        beat = commands.BrokerHeartbeat(
            broker_id=int(words[0]),
            broker_epoch=self.world.epoch(int(words[0])),
            metadata_offset=self.world.image.end_offset,
            want_shut_down=want_shut_down,
        )
        return self._ask(beat)

    def _stop(self, words: list[str]) -> list[str]:
        return self._back(words, want_shut_down=True)

    def _cordon(self, words: list[str], *, cordoned: bool = True) -> list[str]:
        broker_ids = tuple(map(int, words))
        return self._ask(commands.CordonBrokers(broker_ids=broker_ids, cordoned=cordoned))

    def _uncordon(self, words: list[str]) -> list[str]:
        return self._cordon(words, cordoned=False)

    def _return(self, words: list[str]) -> list[str]:
        broker_id = int(words[0])
        self.restarts += 1
        self.epochs_before[broker_id] = epoch = self.world.epoch(broker_id)
        before = self._partitions()
        cleanly: dict[str, object] = {"previous_epoch": epoch} if "clean" in words else {}
        decision = self.world.register(broker_id, self.restarts, **cleanly)
        shown = answered(decision.answer) + self._shown(decision, before)
        return [*shown, *self._back([words[0]])] if decision.records else shown

    def _unregister(self, words: list[str]) -> list[str]:
        only_if_empty = words[1:] == ["if", "empty"]
        return self._ask(
            commands.UnregisterBroker(broker_id=int(words[0]), only_if_empty=only_if_empty)
        )

    # What is looked at, and what becomes of controllers.

    def _wait(self, words: list[str]) -> list[str]:
        self.world.now_ms += int(words[0]) * 1000
        return []

    def _where(self, _words: list[str]) -> list[str]:
        told = list(standings(self.world.image, self.world.now_ms))
        return told or ["nothing is being reassigned"]

    def _moves(self, _words: list[str]) -> list[str]:
        return list(moves_of(self.world.image))

    def _throttles(self, _words: list[str]) -> list[str]:
        return list(throttles(self.world.image)) or ["nothing is throttled"]

    def _fail_over(self, _words: list[str]) -> list[str]:
        image = self.world.folded()
        assert contents(image) == contents(self.world.image), "the log says something else"
        snapshot = whole(begin(self.world.image, self.world.image.end_offset))
        restored = loaded(snapshot, self.world.image.end_offset)
        assert contents(restored) == contents(image), "the snapshot says something else"
        self.world.image = image
        return [
            "the image of the new controller is that of the old one",
            *(f"  {told_of(each, number)}" for number, each in self._partitions().items()),
        ]

    def _lost(self, words: list[str]) -> list[str]:
        world, before = self.world, contents(self.world.image)
        end, kept = world.image.end_offset, len(world.log)
        world.image.begin_undo_log(end)
        told = self._told(" ".join(words))
        world.image.rewind(end)
        world.image.end_undo_log()
        del world.log[kept:]
        assert contents(world.image) == before, "something is left of what was not committed"
        decided = [line for line in told if line.startswith("  record")]
        return [
            "no answer, and nothing is left of",
            *decided,
            *(f"  {told_of(each, number)}" for number, each in self._partitions().items()),
        ]

    def _ask(self, command: commands.Command) -> list[str]:
        before = self._partitions()
        decision = self.world.ask(command)
        return answered(decision.answer) + self._shown(decision, before)

    def _shown(self, decision: commands.Decision, before: dict[int, Any]) -> list[str]:
        """The records of a decision, and the partitions that they have changed, or the only one."""
        after = self._partitions()
        several = max(len(before), len(after)) > 1
        told = [recorded(record, named=several) for record in decision.records]
        shown = [f"  record: {each}" for each in told if each is not None]
        shown_again = not shown and not several
        shown = shown or ["  nothing is recorded"]
        return shown + [
            f"  {told_of(partition, number)}"
            for number, partition in after.items()
            if shown_again or partition != before.get(number)
        ]

    def _partitions(self) -> dict[int, Any]:
        topic = self.world.image.topics.get(TOPIC_ID)
        return {} if topic is None else dict(topic.existing())

    def _count(self) -> int:
        return len(self._partitions())


def read(words: list[str]) -> tuple[Replicas, dict[str, str]]:
    """The ids, and what else is said: by the word that says it."""
    ids: list[int] = []
    said: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word.isdigit():
            ids.append(int(word))
        else:
            said[word] = next(rest) if word in VALUED else ""
    return tuple(ids), said
