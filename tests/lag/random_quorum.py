"""A quorum that lives at random, as the logs that its replicas leave on disk.

Ten replicas with clocks of their own: voters lead in turns and go in different ways, some are cut
off with records that nobody else has, some have no index of append times or lost a part of it, and
towards the end each of those that follow is given a way to be late. What the log says is what a
`RandomCluster` decides. A seed replays all.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from quorum.core.vocabulary import ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Voter, VoterAssignment, VoterSet
from quorum.log.append_times import UNKNOWN
from quorum.records.control import (
    LeaderChange,
    encode_assignment,
    encode_leader_change,
)
from quorum.records.encode import encode
from statemachine.records.codec import encode as encode_said
from statemachine.records.kafka_records import NoOp, PartitionChange
from tests.lag.handmade_logs import BEGIN_MS, stamped
from tests.lag.random_cluster import RandomCluster
from tests.lag.small_quorum import Copy, Made
from tests.statemachine.support.world import CLUSTER_ID, LEVEL

VOTERS: Final = (1, 2, 3, 4, 5)
NODES: Final = range(1, 11)
LATE: Final = 10
"""A node that reaches the log only once, and holds what nobody else has."""
LASTS_MS: Final = 240_000
QUIET_MS: Final = 70_000
"""Before the end: from then on some partitions are left alone."""
SETTLED_MS: Final = 120_000
"""Before the end: from then on one leads, and the others are late in their ways."""
WAYS: Final = ("followed", "restarted", "away", "removed", "gone", "restarted too late")
"""The ways in which a leader stops leading."""
BACK_MS: Final = {"away": 6_000, "restarted": 3_000, "restarted too late": 61_000}
"""After how long it is there again."""
EPOCH_MS: Final = (6_000, 18_000)
CLOCKS_MS: Final = (0, 0, 3, -4, 500, -300, 1_200)


@dataclass
class Held:
    """A batch in somebody's log."""

    offset: int
    end: int
    epoch: int
    data: bytes
    here_ms: int
    """The append time here, by a clock that no replica has."""


@dataclass
class Node:
    """One replica: its clock, and what it has of the log."""

    id: int
    clock_ms: int
    is_timed: bool
    """True if it has an index of append times."""
    forgets: int | None = None
    """An epoch from which on its index is lost."""
    delay_ms: int = 0
    asleep_until_ms: int = 0
    dead_from_ms: int | None = None
    grows_from_ms: int | None = None
    """From then on it needs longer and longer."""
    held: list[Held] = field(default_factory=list)

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(ReplicaId(self.id), UUID(int=0x4E0D << 100 | self.id))

    @property
    def end(self) -> int:
        return self.held[-1].end if self.held else 0

    @property
    def last_ms(self) -> int:
        return self.held[-1].here_ms if self.held else 0


class RandomQuorum:
    """The whole life; `write` puts the logs on disk."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.cluster = RandomCluster(rng)
        untimed = {*rng.sample([6, 7, 8, 9], 2), LATE}
        self.nodes = {
            each: Node(
                each, rng.choice(CLOCKS_MS), each not in untimed, delay_ms=rng.randint(1, 30)
            )
            for each in NODES
        }
        self.now_ms = BEGIN_MS + rng.randint(0, 9_999)
        self.ends_ms = self.now_ms + LASTS_MS
        self.log: list[Held] = []
        """The quorum's, with the time of the leader's append."""
        self.epoch = 0
        self.leader = 0
        self.voters = list(VOTERS)
        self._live()

    # The quorum.

    def _live(self) -> None:
        self._elect(1)
        changes = 0
        while self.now_ms < self.ends_ms - SETTLED_MS:
            until_ms = self.now_ms + self.rng.randint(*EPOCH_MS)
            self._lead(min(until_ms, self.ends_ms - SETTLED_MS), gap_ms=(20, 900))
            changes += 1
            self._hand_over(changes)
        self._settle()
        self._lead(self.ends_ms - QUIET_MS, gap_ms=(80, 400), rests=False)
        self.cluster.leave_alone()
        self._lead(self.ends_ms, gap_ms=(60, 250), rests=False)
        for node in self.nodes.values():
            node.held = [each for each in node.held if each.here_ms <= self.ends_ms]

    def _lead(self, until_ms: int, *, gap_ms: tuple[int, int], rests: bool = True) -> None:
        """The leader appends what is decided; without `rests` something, where nothing is."""
        while self.now_ms < until_ms:
            self.now_ms += self.rng.randint(*gap_ms)
            said = self.cluster.decided(self._stamp() - self.rng.randint(0, 2), self._end())
            if not (said or rests):
                said = [encode_said(NoOp(), LEVEL)]
            if said:
                self._append(bytes(encode(said, timestamp_ms=self._stamp())))
            if self.rng.random() < 0.004:
                self._change_voters()

    def _stamp(self) -> int:
        return self.now_ms + self.nodes[self.leader].clock_ms

    def _end(self) -> int:
        return self.log[-1].end if self.log else 0

    def _append(self, made: bytes, *, only_here: bool = False) -> None:
        """The leader appends a batch, and in time all have it who live."""
        leader = self.nodes[self.leader]
        base = leader.end if only_here else self._end()
        count = int.from_bytes(made[57:61], "big")
        held = Held(base, base + count, self.epoch, stamped(made, base, self.epoch), self.now_ms)
        if not only_here:
            self.log.append(held)
        for node in self.nodes.values():
            if node is leader:
                node.held.append(held)
            elif not only_here and node.id != LATE:
                self._send(node, held)

    def _send(self, node: Node, held: Held) -> None:
        wait_ms = max(1, node.delay_ms + self.rng.randint(0, 20))
        if node.grows_from_ms is not None:
            wait_ms += (held.here_ms - node.grows_from_ms) * 7 // 100
        at_ms = max(held.here_ms + wait_ms, node.last_ms, node.asleep_until_ms)
        is_alive = node.dead_from_ms is None or at_ms < node.dead_from_ms
        if is_alive and node.end == held.offset:
            node.held.append(replace(held, here_ms=at_ms))

    def _elect(self, leader: int) -> None:
        """`leader` has all of the quorum's log, and leads a new epoch."""
        self.leader = leader
        self.epoch += 1
        change = LeaderChange(
            leader=ReplicaId(leader),
            voters=tuple(map(ReplicaId, self.voters)),
            granting=(ReplicaId(leader),),
        )
        founders = self._assignment() if self.epoch == 1 else None
        made = encode_leader_change(change, founders, CLUSTER_ID, timestamp_ms=self._stamp())
        self._append(bytes(made))

    def _assignment(self) -> VoterAssignment:
        seats = tuple(Voter(self.nodes[each].key) for each in self.voters)
        target = self.rng.choice((None, tuple(seat.key for seat in seats[1:])))
        return VoterAssignment(VoterSet(seats), target)

    def _change_voters(self) -> None:
        """An observer becomes a voter, or a voter that does not lead becomes none."""
        others = [each for each in self.voters if each != self.leader]
        if len(self.voters) > 4:
            self.voters.remove(self.rng.choice(others))
        else:
            self.voters.append(self.rng.choice([n for n in NODES[:-1] if n not in self.voters]))
        self._say_voters()

    def _say_voters(self) -> None:
        made = encode_assignment(self._assignment(), CLUSTER_ID, timestamp_ms=self._stamp())
        self._append(bytes(made))

    # How a leader goes.

    def _hand_over(self, changes: int) -> None:
        old = self.nodes[self.leader]
        heirs = [
            self.nodes[each]
            for each in self.voters
            if each != old.id
            and self.nodes[each].end == self._end()
            and self.nodes[each].last_ms <= self.now_ms + 2_000
        ]
        if not heirs:
            return
        heir = self.rng.choice(heirs)
        way = WAYS[changes - 1] if changes <= len(WAYS) else self.rng.choice(WAYS)
        self._last_of(old, way)
        if changes == 1:
            self._follow_only(old)
        self.now_ms = max(self.now_ms, heir.last_ms) + self.rng.randint(20, 3_000)
        if self.rng.random() < 0.3:
            self.epoch += self.rng.randint(1, 2)
        self._go(old, way)
        self._elect(heir.id)
        if way.startswith("restarted"):
            self._restart(old, way)

    def _last_of(self, old: Node, way: str) -> None:
        """The leader's last appends: voters without it, or records that no other replica gets."""
        if way == "removed" and len(self.voters) > 3:
            self.voters.remove(old.id)
            self._say_voters()
        elif way != "followed" and self.rng.random() < 0.8:
            for _ in range(self.rng.randint(1, 3)):
                self._append(self._nonsense(), only_here=True)

    def _go(self, old: Node, way: str) -> None:
        if way == "gone":
            old.dead_from_ms = self.now_ms
            return
        # It gives up what nobody else has, as soon as it hears of that.
        old.held = [each for each in old.held if each.end <= self._end()]
        old.asleep_until_ms = self.now_ms + BACK_MS.get(way, 0)
        if way == "followed" and self.rng.random() < 0.5:
            old.forgets = self.epoch + 1
        if way == "away":
            old.clock_ms += self.rng.choice((0, -3_000))

    def _restart(self, old: Node, way: str) -> None:
        self._lead(self.now_ms + BACK_MS[way], gap_ms=(100, 900))
        said = self.cluster.controller(old.id, self._stamp(), self._end())
        self._append(bytes(encode(said, timestamp_ms=self._stamp())))

    def _follow_only(self, leader: Node) -> None:
        """The late one gets all that its first leader has, and what that gave up; then nothing."""
        late = self.nodes[LATE]
        late.held = [replace(each, here_ms=each.here_ms + 9) for each in leader.held]
        if late.end == self._end():
            data = stamped(self._nonsense(), late.end, self.epoch)
            at_ms = self.now_ms + 9
            late.held.append(Held(late.end, late.end + 1, self.epoch, data, at_ms))

    def _nonsense(self) -> bytes:
        """An uncommitted record about an existing partition."""
        topic_id = self.rng.choice([*self.cluster.image.topics, UUID(int=9)])
        said = PartitionChange(topic_id=topic_id, partition_id=0, replicas=(1,), isr=(1,))
        return bytes(encode([encode_said(said, LEVEL)], timestamp_ms=self._stamp()))

    # The end.

    def _settle(self) -> None:
        """One leads, and who follows has a way of being late."""
        followers = [n for n in self.nodes.values() if n.id not in (self.leader, LATE)]
        timed = [each for each in followers if each.is_timed and each.dead_from_ms is None]
        untimed = [each for each in followers if not each.is_timed and each.dead_from_ms is None]
        self.rng.shuffle(timed)
        end_ms = self.ends_ms
        for node, second in zip(untimed, (14, 6), strict=False):
            node.dead_from_ms = end_ms - second * 1_000
        for node, delay_ms in zip(timed, (1_500, 12_000, 350), strict=False):
            node.delay_ms = delay_ms
        for node in timed[3:4]:
            node.grows_from_ms = end_ms - SETTLED_MS
        for node, second in zip(timed[4:], (5, 25), strict=False):
            node.dead_from_ms = end_ms - second * 1_000

    # Files.

    def write(self, root: Path) -> None:
        """The folders of the nodes below `root`, each log in two segments."""
        for copy in self.copies():
            half = len(copy.batches) // 2
            copy.segments = [copy.batches[:half], copy.batches[half:]]
            copy.write(root)

    def copies(self, names: Iterable[int] = NODES) -> list[Copy]:
        """The logs of these nodes, not yet divided into segments."""
        found = []
        for node in (self.nodes[name] for name in names):
            made = [
                Made(each.offset, each.end, each.epoch, each.data, self._entry(node, each))
                for each in node.held
            ]
            said = {
                "directory.id": uuid_to_text(node.key.directory_id),
                "cluster.id": CLUSTER_ID,
            }
            found.append(Copy(node.id, made, is_timed=node.is_timed, meta=said))
        return found

    def _entry(self, node: Node, held: Held) -> tuple[int, int, int]:
        if node.forgets is not None and held.epoch >= node.forgets:
            return UNKNOWN, held.end, -1
        return held.here_ms + node.clock_ms, held.end, held.epoch
