"""The stage on which stories of partitions play: what may be asked, and what becomes of it.

One topic `t` with one partition, and its brokers; every decision is the product's, and every record
is read back from its bytes. Shown are the answer, what the record changes, and the partition.

    brokers 6             brokers 1 to 6 register, and live
    topic 1 2 3 [min 2]   topic t exists, on these replicas; min.insync.replicas is 2
    move 4 5 6            an operator wants the partition to have these replicas
    cancel                an operator wants the move under way to be taken back
    isr 1 2 4             the leader says that these are in sync
    isr 1 2 4 by 2        broker 2 says so, be it the leader or not
    isr 1 2 behind        the leader says so of the partition as it was one change before
    isr 1 2 rebooted 2    it says so, and has heard of broker 2 only what it was before it restarted
    fence 2               the session of broker 2 has run out
    return 2              broker 2 starts anew and lives again
"""

from typing import Any

from statemachine import commands, records
from statemachine.errors import Error
from statemachine.partition import Partition
from tests.statemachine.world import World

SHOWN = ("replicas", "isr", "adding", "removing", "target", "leader")


class MovesStage:
    """One story."""

    def __init__(self) -> None:
        self.world = World()
        self.restarts = 1
        self.epochs_before: dict[int, int] = {}

    def answer(self, command: str) -> str:
        """What a scene of one or more commands brings about."""
        lines = command.splitlines()
        shown: list[str] = []
        for line in lines:
            word, *words = line.split()
            told = getattr(self, f"_{word}")(words)
            shown += [f"> {line}", *told] if len(lines) > 1 else told
        return "\n".join(shown)

    def _brokers(self, words: list[str]) -> list[str]:
        for broker_id in range(1, int(words[0]) + 1):
            self.world.join(broker_id)
        return [f"brokers 1 to {words[0]} live"]

    def _topic(self, words: list[str]) -> list[str]:
        ids, least = (words[:-2], words[-1]) if "min" in words else (words, "1")
        replicas = tuple(map(int, ids))
        configs = {"min.insync.replicas": least}
        self.world.given(replicas=replicas, isr=replicas, leader=replicas[0], configs=configs)
        return [told_of(self.world.partition())]

    def _move(self, words: list[str]) -> list[str]:
        asked = commands.Reassignment(topic="t", partition=0, replicas=tuple(map(int, words)))
        return self._ask(commands.AlterReassignments(reassignments=(asked,)))

    def _cancel(self, _words: list[str]) -> list[str]:
        asked = commands.Reassignment(topic="t", partition=0, replicas=None)
        return self._ask(commands.AlterReassignments(reassignments=(asked,)))

    def _isr(self, words: list[str]) -> list[str]:
        ids = [int(each) for each in words if each.isdigit()]
        fields: dict[str, Any] = {}
        sender = self.world.partition().leader
        if "by" in words:
            sender = ids.pop()
        if "behind" in words:
            fields["partition_epoch"] = self.world.partition().partition_epoch - 1
        rebooted = ids.pop() if "rebooted" in words else None
        members = [self.world.member(each) for each in ids]
        fields["isr"] = tuple(
            commands.IsrMember(rebooted, self.epochs_before[rebooted])
            if each.broker_id == rebooted
            else each
            for each in members
        )
        proposal = self.world.proposal(tuple(ids), **fields)
        epoch = self.world.epoch(sender)
        return self._ask(
            commands.AlterPartition(broker_id=sender, broker_epoch=epoch, proposals=(proposal,))
        )

    def _fence(self, words: list[str]) -> list[str]:
        return self._ask(commands.FenceBrokers(broker_ids=tuple(map(int, words))))

    def _return(self, words: list[str]) -> list[str]:
        self.restarts += 1
        self.epochs_before[int(words[0])] = self.world.epoch(int(words[0]))
        self.world.register(int(words[0]), self.restarts)
        beat = commands.BrokerHeartbeat(
            broker_id=int(words[0]),
            broker_epoch=self.world.epoch(int(words[0])),
            metadata_offset=self.world.image.end_offset,
        )
        return self._ask(beat)

    def _ask(self, command: commands.Command) -> list[str]:
        decision = self.world.ask(command)
        shown = answered(decision.answer)
        changes = [each for each in decision.records if isinstance(each, records.PartitionChange)]
        shown += [f"  record: {changed(each)}" for each in changes] or ["  nothing is recorded"]
        return [*shown, f"  {told_of(self.world.partition())}"]


def answered(answer: commands.Answer) -> list[str]:
    """The answer about the partition, where there is one."""
    parts = getattr(answer, "partitions", ())
    return [_answered(part.error, part.message) for part in parts]


def _answered(error: Error, message: str) -> str:
    if error is Error.NONE:
        return "accepted"
    said = f"{error.name} ({message})"
    # This one tells the leader that has asked what its request has come to.
    return f"accepted: {said}" if error is Error.NEW_LEADER_ELECTED else f"refused: {said}"


def changed(change: records.PartitionChange) -> str:
    """What a record says, and nothing of what it leaves as it is."""
    said = [(name, getattr(change, name)) for name in SHOWN]
    return ", ".join(f"{name} {listed(value)}" for name, value in said if value is not None)


def told_of(partition: Partition) -> str:
    """The partition, in the order in which one asks about it."""
    parts = [f"replicas {listed(partition.replicas)}", f"isr {listed(partition.isr)}"]
    parts += [
        f"{name} {listed(getattr(partition, name))}"
        for name in ("adding", "removing")
        if getattr(partition, name)
    ]
    leader = "nobody" if partition.leader < 0 else str(partition.leader)
    epochs = f"leader epoch {partition.leader_epoch}, partition epoch {partition.partition_epoch}"
    return f"t-0: {', '.join(parts)}, led by {leader} ({epochs})"


def listed(value: Any) -> str:
    """Ids as one would say them."""
    if not isinstance(value, tuple):
        return "nobody" if value == -1 else str(value)
    return " ".join(map(str, value)) or "none"
