"""The stage on which transcripts play: a few nodes, a network and disks that do as they are told.

Nothing happens by itself. Packets wait in the inbox of the node they are for, records wait in
memory until a disk is flushed, and time stands still until somebody waits or a timer fires. Only
`run` lets everything happen that can.

    voters 1 2 3          start voters with empty disks; the cluster has no others
    voters 1 2 3 recorded the same, of a log that is to name its voters
    voters 1 2 3 on disks the same, and every disk has its directory id
    voters 1 2 3 led by 1 the same, and let voter 1 be elected and everybody know it
    observer 9            start a node that is no voter
    tick 1                node 1's timer fires; the clock moves there if it lies ahead
    stand 1               node 1 stands when its time is up, as if no other voter knew pre-votes
    elect 1               node 1 stands, and all that follows at once happens
    wait 10               10 ms pass, and no timer fires
    run 10                10 ms pass; timers, disks and packets are all prompt; shows the end only
    deliver 2 [from 1]    node 2 receives what waits in its inbox now
    drop 2 [from 1]       what waits in the inbox of node 2 is lost
    repeat 2 [from 1]     what waits in the inbox of node 2 will arrive twice
    unreachable 1         node 1 loses the connection to its leader, and a new one is refused
    timeout 1 [to 2]      node 1 gives up the requests that nobody has answered
    partition 1 | 2 3     packets between the parts are lost from now on, until `heal`
    flush 1               what node 1 has appended is on its disk now
    crash 1 [keeping 2]   node 1 dies; of what was not flushed, 2 batches survive
    restart 1             node 1 starts with what is on its disk
    slice 1               node 1 answers a fetch with one batch at most
    read 1                somebody wants to read at node 1 what is committed, and nothing older
    mute 2                node 2 leaves the rounds of reads out of its fetches, as Kafka's do
    propose 1 a b         the state machine of node 1 wants two records appended as one batch
    fill 1                there is no room on the disk of node 1
    free 1                there is again
    stop 1                node 1 is told that it will end soon
    ask 1 REQUEST         node 1 is asked by somebody from outside; see `requests`
    state, log, replicas 1
"""

import random
from collections.abc import Callable, Iterator
from functools import partial

from quorum.core.effects import Effect
from quorum.core.events import (
    Answered,
    Correlation,
    Event,
    LeaderUnreachable,
    Room,
    Stopping,
    Tick,
    Unanswered,
)
from quorum.core.limits import Timeouts
from quorum.core.messages import Error, VoteResponse
from quorum.core.roles import Prospective
from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId
from quorum.core.voters import VoterSet
from tests.quorum.core.disk import Disk
from tests.quorum.core.host import Host, Packet
from tests.quorum.core.judge import Judge
from tests.quorum.core.requests import directory_of, parse_request

OUTSIDE = ReplicaId(0)
ROUNDS_MAX = 1_000


class Stage:
    def __init__(self) -> None:
        self._now_ms = 0
        self._voters = VoterSet.of(1)
        self._records_voters = False
        self._has_directories = False
        self._judge = Judge(())
        self.disks: dict[ReplicaId, Disk] = {}
        self.hosts: dict[ReplicaId, Host] = {}
        self._inboxes: dict[ReplicaId, list[Packet]] = {}
        self._parts: dict[ReplicaId, int] = {}
        self._open: dict[tuple[ReplicaId, Correlation], tuple[ReplicaId, int]] = {}
        self._shown: dict[ReplicaId, str] = {}
        self._boots = 0

    def answer(self, command: str) -> str:
        """Do what the lines of `command` say; return what happened."""
        return "\n".join(line for each in command.splitlines() for line in self._obey(each))

    def _obey(self, line: str) -> Iterator[str]:
        verb, *words = line.split()
        return self._scenes()[verb](*words)

    def _scenes(self) -> dict[str, Callable[..., Iterator[str]]]:
        return {
            "voters": self._start_voters,
            "observer": self._start,
            "tick": self._tick,
            "stand": self._stand,
            "elect": self._elect,
            "wait": self._wait,
            "run": self._run,
            "deliver": self._deliver,
            "drop": self._drop,
            "repeat": self._repeat,
            "timeout": self._time_out,
            "unreachable": self._unreachable,
            "partition": self._partition,
            "heal": self._partition,
            "flush": self._flush,
            "crash": self._crash,
            "restart": self._start,
            "read": self._read,
            "mute": self._mute,
            "propose": self._propose,
            "slice": self._slice,
            "fill": partial(self._room, False),
            "free": partial(self._room, True),
            "stop": self._stop,
            "ask": self._ask,
            "state": self._state,
            "log": self._log,
            "replicas": self._replicas,
        }

    # --- nodes -------------------------------------------------------------------------------

    def _start_voters(self, *words: str) -> Iterator[str]:
        numbers = [word for word in words if word.isdecimal()]
        led = "led" in words
        if led:
            numbers.pop()
        self._voters = VoterSet.of(*map(int, numbers))
        self._has_directories = "disks" in words
        self._records_voters = "recorded" in words or self._has_directories
        self._judge = Judge(self._voters.sorted())
        started = [line for number in numbers for line in self._start(number)]
        if not led:
            yield from started
        else:
            list(self._elect(words[-1]))
            yield from self._run("20")

    def _start(self, number: str) -> Iterator[str]:
        me = ReplicaId(int(number))
        assert me not in self.hosts, f"{me} is running"
        directory_id = directory_of(me) if self._has_directories else NO_DIRECTORY
        disk = self.disks.setdefault(me, Disk(directory_id))
        self._boots += 1
        self._inboxes[me] = []
        host = self.hosts[me] = Host(
            me,
            self._voters,
            disk,
            boot=self._boots,
            rng=random.Random(int(me)),
            now_ms=self._now_ms,
            timeouts=Timeouts(),
            records_voters=self._records_voters,
        )
        self._judge.durable(host)
        yield self._show(host)

    def _host(self, number: str) -> Host:
        return self.hosts[ReplicaId(int(number))]

    def _state(self) -> Iterator[str]:
        yield from (self._show(self.hosts[each]) for each in sorted(self.hosts))

    def _log(self) -> Iterator[str]:
        yield from (f"{each}: {disk}" for each, disk in sorted(self.disks.items()))

    def _replicas(self, number: str) -> Iterator[str]:
        for each in self._host(number).node.replicas():
            role = "leader" if each.is_leader else "voter" if each.is_voter else "observer"
            yield (
                f"{each.replica} {role}: log end {each.log_end}, "
                f"last fetch {each.last_fetch_ms} ms, last caught up {each.last_caught_up_ms} ms"
            )

    def _crash(self, number: str, *keeping: str) -> Iterator[str]:
        host = self._host(number)
        del self.hosts[host.me], self._inboxes[host.me]
        self._open = {key: sent for key, sent in self._open.items() if key[0] != host.me}
        host.disk.lose_power(int(keeping[1]) if keeping else 0)
        yield f"{host.me} is gone; on its disk: {host.disk.election}; log {host.disk.end}"

    # --- events ------------------------------------------------------------------------------

    def _tick(self, number: str) -> Iterator[str]:
        host = self._host(number)
        deadline_ms = host.node.deadline_ms
        assert deadline_ms is not None, f"{host.me} waits for nothing"
        self._now_ms = max(self._now_ms, deadline_ms)
        yield f"at {self._now_ms} ms"
        yield from self._step(host, Tick())

    def _stand(self, number: str) -> Iterator[str]:
        host, said = self._host(number), list[str]()
        epoch = host.node.epoch
        while host.node.epoch == epoch:
            for inbox in self._inboxes.values():
                inbox[:] = [each for each in inbox if each.sender != host.me]
            role = host.node.role
            if isinstance(role, Prospective) and role.asked:
                correlation, voter = min(role.asked.items())
                unknown = VoteResponse(error=Error.UNSUPPORTED_VERSION, epoch=epoch)
                event = Answered(voter, correlation, unknown)
                said = [f"at {self._now_ms} ms", *self._step(host, event)]
            else:
                said = list(self._tick(number))
        yield from said

    def _elect(self, number: str) -> Iterator[str]:
        list(self._stand(number))
        return self._run("0")

    def _wait(self, ms: str) -> Iterator[str]:
        self._now_ms += int(ms)
        yield f"at {self._now_ms} ms"

    def _flush(self, number: str) -> Iterator[str]:
        host = self._host(number)
        if not host.disk.begin_flush():
            yield f"{host.me} has nothing to flush"
            return
        event = host.flushed()
        self._judge.durable(host)
        yield f"{host.me}: {event}"
        yield from self._step(host, event)

    def _propose(self, number: str, *words: str) -> Iterator[str]:
        host = self._host(number)
        if not host.node.accepts(len(words)):
            yield f"{host.me} accepts no proposal"
            return
        yield from self._step(host, host.proposal(words))

    def _read(self, number: str) -> Iterator[str]:
        host = self._host(number)
        event = host.read()
        self._judge.reading(host, event.token)
        yield from self._step(host, event)

    def _mute(self, number: str) -> Iterator[str]:
        self._host(number).echoes = False
        yield from ()

    def _slice(self, number: str) -> Iterator[str]:
        self._host(number).batches_max = 1
        yield from ()

    def _stop(self, number: str) -> Iterator[str]:
        yield from self._step(self._host(number), Stopping())

    def _room(self, exists: bool, number: str) -> Iterator[str]:
        yield from self._step(self._host(number), Room(exists))

    def _time_out(self, number: str, *to: str) -> Iterator[str]:
        host = self._host(number)
        for (asker, correlation), (asked, _) in sorted(self._open.items()):
            if asker == host.me and (not to or asked == int(to[1])):
                yield from self._give_up(host, asked, correlation)

    def _give_up(self, host: Host, asked: ReplicaId, correlation: Correlation) -> Iterator[str]:
        del self._open[host.me, correlation]
        event = Unanswered(asked, correlation)
        yield f"{host.me}: {event}"
        yield from self._step(host, event)

    def _unreachable(self, number: str) -> Iterator[str]:
        leader = self._host(number).node.leader
        assert leader is not None, f"{number} has no leader"
        yield from self._step(self._host(number), LeaderUnreachable(leader))

    def _ask(self, number: str, *request: str) -> Iterator[str]:
        host = self._host(number)
        message = parse_request(request)
        packet = Packet(
            sender=OUTSIDE,
            to=host.me,
            boot=0,
            correlation=Correlation(0),
            message=message,
            question=message,
        )
        yield str(message)
        yield from self._step(host, host.event(packet))

    def _step(self, host: Host, event: Event) -> Iterator[str]:
        if isinstance(event, Answered):
            self._open.pop((host.me, event.correlation), None)
        for effect in host.node.step(event, now_ms=self._now_ms):
            yield self._perform(host, effect)
        if self._shown.get(host.me) != str(host.node):
            yield f"  {self._show(host)}"

    def _show(self, host: Host) -> str:
        """The node as it is; after an event that is shown only when it has changed."""
        shown = self._shown[host.me] = str(host.node)
        return shown

    def _perform(self, host: Host, effect: Effect) -> str:
        self._judge.about_to_perform(host, effect)
        end_before = len(host.disk.records)
        packet = host.perform(effect)
        self._judge.performed(host, effect, end_before)
        if packet is None:
            return f"  {effect}"
        self._judge.leaving(host, packet)
        if packet.is_request:
            self._open[host.me, packet.correlation] = (packet.to, self._now_ms)
        if packet.is_request or packet.to == OUTSIDE:
            shown = str(effect)
        else:
            shown = f"answer to {packet.to}: {packet.message}"
        return f"  {shown}{'' if self._post(packet) else ' (lost)'}"

    # --- the network -------------------------------------------------------------------------

    def _post(self, packet: Packet) -> bool:
        """Put the packet into the inbox it is for; False if the network loses it."""
        if packet.to == OUTSIDE:
            return True
        apart = self._parts.get(packet.sender, 0) != self._parts.get(packet.to, 0)
        if apart or packet.to not in self.hosts:
            return False
        self._inboxes[packet.to].append(packet)
        return True

    def _take(self, number: str, *source: str) -> list[Packet]:
        me = ReplicaId(int(number))
        wanted = ReplicaId(int(source[1])) if source else None
        inbox = self._inboxes[me]
        taken = [each for each in inbox if wanted in (None, each.sender)]
        self._inboxes[me] = [each for each in inbox if each not in taken]
        return taken

    def _deliver(self, number: str, *source: str) -> Iterator[str]:
        for packet in self._take(number, *source):
            host = self.hosts[packet.to]
            if not host.expects(packet):
                yield f"{packet} (of no use: {packet.to} has restarted since)"
                continue
            yield str(packet)
            yield from self._step(host, host.event(packet))

    def _drop(self, number: str, *source: str) -> Iterator[str]:
        yield from (f"{packet} (lost)" for packet in self._take(number, *source))

    def _repeat(self, number: str, *source: str) -> Iterator[str]:
        for packet in self._take(number, *source):
            self._inboxes[packet.to] += [packet, packet]
            yield f"{packet} (twice)"

    def _partition(self, *words: str) -> Iterator[str]:
        parts = " ".join(words).split("|")
        self._parts = {
            ReplicaId(int(word)): at for at, part in enumerate(parts) for word in part.split()
        }
        yield from ()

    # --- letting things happen ---------------------------------------------------------------

    def _run(self, ms: str) -> Iterator[str]:
        end_ms = self._now_ms + int(ms)
        for _ in range(ROUNDS_MAX):
            if self._happens_now():
                continue
            next_ms = min(self._moments(), default=end_ms + 1)
            if next_ms > end_ms:
                break
            self._now_ms = max(self._now_ms, next_ms)
            self._fire()
        else:
            raise AssertionError(f"the nodes do not come to rest in {ROUNDS_MAX} rounds")
        self._now_ms = end_ms
        yield f"at {self._now_ms} ms"
        yield from self._state()

    def _happens_now(self) -> bool:
        """Flush every disk, then deliver every packet; False if there was nothing to do."""
        done = False
        for me in sorted(self.hosts):
            if self.hosts[me].disk.batches_at_risk and self.hosts[me].node.has_room:
                done = bool(list(self._flush(str(me))))
            if self._inboxes[me]:
                done = bool(list(self._deliver(str(me))))
        return done

    def _moments(self) -> list[int]:
        timers = [host.node.deadline_ms for host in self.hosts.values()]
        timeout_ms = Timeouts().request_timeout_ms
        timeouts = [sent_ms + timeout_ms for _, sent_ms in self._open.values()]
        return [each for each in timers if each is not None] + timeouts

    def _fire(self) -> None:
        timeout_ms = Timeouts().request_timeout_ms
        for (asker, correlation), (asked, sent_ms) in sorted(self._open.items()):
            if self._now_ms >= sent_ms + timeout_ms and (asker, correlation) in self._open:
                list(self._give_up(self.hosts[asker], asked, correlation))
        for me in sorted(self.hosts):
            deadline_ms = self.hosts[me].node.deadline_ms
            if deadline_ms is not None and self._now_ms >= deadline_ms:
                list(self._step(self.hosts[me], Tick()))
