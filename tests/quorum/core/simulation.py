"""A cluster in virtual time: a heap of events, a network that fails, disks that forget.

One seed decides everything. A run has three parts: faults; then only a majority is healed, and
must commit something new; then all are healed, and every replica must end with the same log, all
of it committed. The `Judge` looks at every effect.
"""

import random
from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush

from quorum.core.effects import (
    AppendAssignment,
    AppendLeaderChange,
    Commit,
    Effect,
    ReadReady,
    ReadRefused,
    Send,
    TruncateTo,
)
from quorum.core.events import Correlation, Event, Located, Stopping, Tick, Unanswered
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.core.voters import VoterSet
from tests.quorum.core.disk import Disk
from tests.quorum.core.electorate import any_majority, has_target, some_wish
from tests.quorum.core.host import Host, Packet
from tests.quorum.core.judge import Judge, Violation
from tests.quorum.core.profile import CoarseRandom, Fault, Profile, Report, links_cut
from tests.quorum.core.requests import directory_of, endpoints_of, parse_wish

OBSERVER = ReplicaId(9)
FIRST_SPARE = 6
FAULTS_MS = 20_000
HEALING_MS_MAX = 15_000
LATE_MS_MAX = 4_000
STEPS_AT_ONCE_MAX = 500


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.profile = Profile.drawn(self.rng)
        self.now_ms = 0
        self.counts: Counter[str] = Counter()
        self.trace: deque[str] = deque(maxlen=200)
        self._hash = blake2b(digest_size=16)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._pushed = 0
        voters = [ReplicaId(each) for each in range(1, self.profile.voters + 1)]
        self.voters = VoterSet.of(*voters)
        self.spares = [ReplicaId(FIRST_SPARE + each) for each in range(self.profile.spares)]
        self.everyone = [*voters, *self.spares, OBSERVER]
        self.judge = Judge(tuple(voters))
        self.disks = {each: Disk(directory_of(each)) for each in self.everyone}
        self.hosts: dict[ReplicaId, Host] = {}
        self.faulty = True
        self.proposing = True
        self.cuts: set[tuple[ReplicaId, ReplicaId]] = set()
        self._boots = 0
        self._randoms: dict[ReplicaId, CoarseRandom] = {}
        self._skews_ms: dict[ReplicaId, int] = {}
        self._wakes_ms: dict[ReplicaId, int] = {}
        self._open: set[tuple[int, Correlation]] = set()
        self._slow_until_ms: dict[ReplicaId, int] = {}
        self._stopping: set[ReplicaId] = set()
        self._steps_at_once = 0
        self._words = 0

    # --- the three parts of a run ------------------------------------------------------------

    def run(self) -> Report:
        for replica in self.everyone:
            self.boot(replica)
        self._propose_again()
        self._read_again()
        self._fail_again()
        self._run_until(lambda: self.now_ms >= FAULTS_MS)
        self.faulty = False
        for draws in self._randoms.values():
            draws.coarse = False
        self._heal_majority()
        committed = len(self.judge.committed)
        self._heal(lambda: len(self.judge.committed) >= committed + 3, "a majority commits nothing")
        self.note("all are healed")
        self.cuts.clear()
        for replica in self.everyone:
            self.boot(replica)
        committed = len(self.judge.committed)
        self._heal(lambda: len(self.judge.committed) >= committed + 3, "nothing is committed")
        self.proposing = False
        for host in self.hosts.values():
            host.batches_max = 100
        self._heal(self._converged, "the logs do not converge")
        return Report(
            trace_hash=self._hash.hexdigest(),
            committed=len(self.judge.committed),
            counts=self.counts,
        )

    def _heal_majority(self) -> None:
        """Leave a majority, most often without the leader, alone and in good health."""
        committed = [each.record for each in self.judge.committed]
        logs = [committed, *(disk.records for disk in self.disks.values())]
        alive = any_majority(self.rng, self.judge.electorate, logs, self.everyone)
        for replica in self.everyone:
            if replica in self._stopping or (replica not in alive and replica != OBSERVER):
                self.crash(replica)
        self.note(f"only {sorted(alive)} are healed")
        self.cuts.clear()
        self._slow_until_ms.clear()
        for replica in (*alive, OBSERVER):
            self.boot(replica)

    def _heal(self, healed: Callable[[], bool], failure: str) -> None:
        deadline_ms = self.now_ms + HEALING_MS_MAX
        self._run_until(lambda: healed() or self.now_ms >= deadline_ms)
        if not healed():
            raise Violation("liveness", f"{failure} in {HEALING_MS_MAX} ms after healing")

    def _converged(self) -> bool:
        """R18: a change of the voters has come to its end, too."""
        committed = [each.record for each in self.judge.committed]
        return not has_target(committed) and all(
            host.disk.records == committed and self.judge.known(host) == len(committed)
            for host in self.hosts.values()
        )

    def _run_until(self, done: Callable[[], bool]) -> None:
        while not done():
            at_ms, _, happen = heappop(self._heap)
            if at_ms > self.now_ms:
                self.now_ms, self._steps_at_once = at_ms, 0
            happen()

    def after(self, delay_ms: int, happen: Callable[[], None]) -> None:
        self._pushed += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._pushed, happen))

    def note(self, text: str) -> None:
        line = f"{self.now_ms} {text}"
        self.trace.append(line)
        self._hash.update(line.encode())

    def chance(self, share: float) -> bool:
        return self.faulty and share > 0 and self.rng.random() < share

    # --- processes ---------------------------------------------------------------------------

    def boot(self, replica: ReplicaId) -> None:
        if replica in self.hosts:
            return
        self._boots += 1
        self._skews_ms[replica] = self.rng.randrange(100_000)
        host = Host(
            replica,
            self.voters,
            self.disks[replica],
            boot=self._boots,
            rng=self._draws(replica),
            timeouts=self.profile.timeouts,
            now_ms=self.now_ms + self._skews_ms[replica],
            batches_max=self.rng.choice((1, 2, 100)),
            records_voters=True,
            echoes=replica > self.profile.mute,
        )
        self.hosts[replica] = host
        self._stopping.discard(replica)
        self.note(f"boot: {host.node}")
        self.judge.durable(host)
        for other in self.everyone:
            key = ReplicaKey(other, self.disks[other].directory_id)
            self.step(host, Located(key, endpoints_of(other)))
        self._wait(host)

    def _draws(self, replica: ReplicaId) -> random.Random:
        draws = self._randoms[replica] = CoarseRandom(self.rng.getrandbits(64))
        draws.coarse = self.faulty and self.profile.coarse_draws
        return draws

    def crash(self, replica: ReplicaId) -> None:
        """End the process; of what its disk had not flushed, any prefix survives."""
        if self.hosts.pop(replica, None) is None:
            return
        disk = self.disks[replica]
        disk.lose_power(self.rng.randrange(disk.batches_at_risk + 1))
        self._wakes_ms.pop(replica, None)
        self.note(f"crash of {replica}, whose disk holds {disk.end}")

    def step(self, host: Host, event: Event) -> None:
        self._steps_at_once += 1
        assert self._steps_at_once < STEPS_AT_ONCE_MAX, "nodes keep each other busy for ever"
        effects = host.node.step(event, now_ms=self.now_ms + self._skews_ms[host.me])
        dies_at = len(effects) + 1
        if self.chance(self.profile.crashes_in_step):
            dies_at = self.rng.randrange(len(effects) + 1)
            self.counts["died between effects"] += 1
        for at, effect in enumerate(effects):
            if at == dies_at:
                break
            self._perform(host, effect)
        if dies_at <= len(effects):
            self.crash(host.me)
            self.after(self.rng.randrange(1, 3_000), lambda: self._boot_again(host.me))
            return
        self._flush_soon(host)
        self._wait(host)

    def _boot_again(self, replica: ReplicaId) -> None:
        if self.faulty:
            self.boot(replica)

    def _perform(self, host: Host, effect: Effect) -> None:
        self.note(f"{host.me}: {effect}")
        self.judge.about_to_perform(host, effect)
        end_before = len(host.disk.records)
        packet = host.perform(effect)
        self.judge.performed(host, effect, end_before)
        if isinstance(
            effect, AppendAssignment | AppendLeaderChange | TruncateTo | ReadReady | ReadRefused
        ):
            self.counts[type(effect).__name__] += 1
        if isinstance(effect, Commit) and host.node.epoch_start is not None:
            self.after(0, lambda: self._read_of_the_others(host.me))
        if packet is None:
            return
        self.judge.leaving(host, packet)
        self._post(packet)
        if isinstance(effect, Send):
            self._open.add((host.boot, effect.correlation))
            timeout_ms = self.profile.timeouts.request_timeout_ms
            self.after(timeout_ms, lambda: self._give_up(host, effect))

    def _give_up(self, host: Host, send: Send) -> None:
        if self.hosts.get(host.me) is host and (host.boot, send.correlation) in self._open:
            self._open.remove((host.boot, send.correlation))
            self.step(host, Unanswered(send.to, send.correlation))

    def _flush_soon(self, host: Host) -> None:
        if not host.disk.begin_flush():
            return
        slow = self._slow_until_ms.get(host.me, 0) > self.now_ms
        flush_ms = self.rng.randrange(self.profile.flush_ms_max + 1) if self.faulty else 2
        self.after(flush_ms + 1_500 * slow, lambda: self._flushed(host))

    def _flushed(self, host: Host) -> None:
        if self.hosts.get(host.me) is host:
            event = host.flushed()
            self.judge.durable(host)
            self.step(host, event)

    def _wait(self, host: Host) -> None:
        """See to it that the node is stepped when it wants to be."""
        deadline_ms = host.node.deadline_ms
        if deadline_ms is None:
            self._wakes_ms.pop(host.me, None)
            return
        at_ms = max(self.now_ms, deadline_ms - self._skews_ms[host.me])
        if self._wakes_ms.get(host.me) == at_ms:
            return
        self._wakes_ms[host.me] = at_ms
        late_ms = self.rng.randrange(LATE_MS_MAX) if self.chance(self.profile.late_timers) else 0
        self.after(at_ms - self.now_ms + late_ms, lambda: self._wake(host, at_ms))

    def _wake(self, host: Host, at_ms: int) -> None:
        if self.hosts.get(host.me) is host and self._wakes_ms.get(host.me) == at_ms:
            del self._wakes_ms[host.me]
            self.step(host, Tick())

    # --- the network -------------------------------------------------------------------------

    def _post(self, packet: Packet) -> None:
        if self.chance(self.profile.loss):
            return
        self.after(self._latency_ms(), lambda: self._deliver(packet))
        if self.chance(self.profile.duplicates):
            self.after(self._latency_ms(), lambda: self._deliver(packet))

    def _latency_ms(self) -> int:
        if self.chance(self.profile.stragglers):
            return self.rng.randrange(LATE_MS_MAX)
        return self.rng.randrange(1, 6)

    def _deliver(self, packet: Packet) -> None:
        host = self.hosts.get(packet.to)
        if (packet.sender, packet.to) in self.cuts:
            return
        if host is None:
            self._refuse(packet)
            return
        if not host.expects(packet):
            return
        self.note(str(packet))
        if not packet.is_request:
            self._open.discard((host.boot, packet.correlation))
        self.step(host, host.event(packet))

    def _refuse(self, packet: Packet) -> None:
        """Nobody listens there: the asker hears of it, most often."""
        host = self.hosts.get(packet.sender)
        if not packet.is_request or host is None or host.boot != packet.boot:
            return
        if self.rng.random() < 0.8:
            self._give_up(host, Send(packet.to, packet.correlation, packet.question))

    # --- the workload and the faults ---------------------------------------------------------

    def _propose_again(self) -> None:
        ms_max = self.profile.propose_ms_max if self.faulty else 150
        self.after(self.rng.randrange(20, ms_max), self._propose_again)
        for replica in self.everyone if self.proposing else []:
            host = self.hosts.get(replica)
            count = self.rng.randrange(1, 4)
            if host is not None and host.node.accepts(count):
                words = tuple(f"w{self._words + each}" for each in range(count))
                self._words += count
                self.step(host, host.proposal(words))

    def _read_again(self) -> None:
        """Clients read, most often where they believe the leader to be, but anywhere else too."""
        self.after(self.rng.randrange(1, self.profile.read_ms_max), self._read_again)
        for replica in self.everyone:
            host = self.hosts.get(replica)
            if host is not None and (host.node.epoch_start is not None or self.rng.random() < 0.1):
                self._read(host)

    def _read_of_the_others(self, told: ReplicaId) -> None:
        """Somebody was told of a commit: whoever else takes himself for the leader is asked."""
        for host in list(self.hosts.values()):
            if host.me != told and host.node.epoch_start is not None:
                self._read(host)

    def _read(self, host: Host) -> None:
        event = host.read()
        self.judge.reading(host, event.token)
        self.step(host, event)

    def _fail_again(self) -> None:
        if not self.faulty:
            return
        fault = self.rng.choice(self.profile.faults)
        self.note(fault)
        self.counts[fault] += 1
        self._fail(fault)
        self.after(self.rng.randrange(1, 2 * self.profile.fault_ms_mean), self._fail_again)

    def _fail(self, fault: Fault) -> None:
        victim = self.rng.choice(self.everyone)
        match fault:
            case Fault.SPLIT | Fault.ISOLATE | Fault.ONE_WAY:
                self.cuts |= links_cut(self.rng, fault, victim, self.everyone)
            case Fault.HEAL:
                self.cuts.clear()
            case Fault.CRASH:
                self._crash_for_a_while(victim)
            case Fault.POWER:
                for replica in self.everyone:
                    self._crash_for_a_while(replica)
            case Fault.STOP:
                if (host := self.hosts.get(victim)) is not None:
                    self._stopping.add(victim)
                    self.step(host, Stopping())
                    self.after(self.rng.randrange(1_000), lambda: self._end(host))
            case Fault.ALTER:
                self._alter()
            case Fault.SLOW_DISK:
                self._slow_until_ms[victim] = self.now_ms + self.rng.randrange(6_000)

    def _alter(self) -> None:
        """Somebody wants other voters, of whoever leads."""
        leaders = [each for each in self.hosts.values() if each.node.epoch_start is not None]
        directories = {each: disk.directory_id for each, disk in self.disks.items()}
        wish = parse_wish(some_wish(self.rng, [*self.voters.sorted(), *self.spares]), directories)
        for host in leaders[:1]:
            self.note(f"{host.me}: {wish}")
            self.step(host, host.wanted(wish))

    def _crash_for_a_while(self, replica: ReplicaId) -> None:
        self.crash(replica)
        self.after(self.rng.randrange(1, 2_000), lambda: self._boot_again(replica))

    def _end(self, host: Host) -> None:
        if self.hosts.get(host.me) is host and self.faulty:
            self._crash_for_a_while(host.me)


def simulate(seed: int) -> Report:
    """Run one seed; a failure carries what is needed to understand it."""
    simulation = Simulation(seed)
    try:
        return simulation.run()
    except Exception as error:
        nodes = [str(host.node) for host in simulation.hosts.values()]
        logs = [f"log of {replica}: {disk}" for replica, disk in simulation.disks.items()]
        error.add_note("\n".join([*simulation.trace, *nodes, *logs]))
        error.add_note(f"seed {seed}: {simulation.profile}")
        raise
