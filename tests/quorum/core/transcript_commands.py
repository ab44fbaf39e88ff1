"""The commands of `quorum_*` transcripts.

Only the commanded things happen, except in `run`. If a scene has several commands, each is repeated
before its result. docs/transcripts.md explains the notation of the answers.

    voters 1 2 3          start voters with empty disks; the cluster has no others
    voters 1 2 3 recorded the same, with a log that is to name its voters
    voters 1 2 3 on disks the same, and the log has the directory id of every disk
    voters 1 2 3 led by 1 the same, with voter 1 elected and known to all
    bounds parked_fetches 2 reads 1   limits of the nodes that are started from now on
    observer 9            start a node that is no voter
    tick 1                the timer of node 1 fires; the clock advances to it if necessary
    stand 1               node 1 stands at its time, as if no other voter supported pre-votes
    elect 1               node 1 stands, and everything that follows at once happens
    wait 10               10 ms pass, and no timer fires
    run 10                10 ms pass; timers, disks and packets act at once; shows the end only
    deliver 2 [from 1]    node 2 receives the packets in its inbox now
    drop 2 [from 1]       the packets in the inbox of node 2 are lost
    repeat 2 [from 1]     the packets in the inbox of node 2 will arrive twice
    unreachable 1 [leader 2] node 1 loses the connection to its leader, and a new one is refused
    timeout 1 [to 2]      the unanswered requests of node 1 time out
    partition 1 | 2 3     packets between the parts are lost from now on, until `heal`
    cut 1 3               packets between these two are lost, in both directions
    flush 1               the appended records of node 1 are on its disk now
    crash 1 [keeping 2]   node 1 dies; 2 unflushed batches survive
    restart 1             node 1 starts on its disk
    slice 1               node 1 answers a fetch with one batch at most
    read 1                a client requests a linearizable read at node 1
    mute 2                node 2 leaves read rounds out of its fetches, as Kafka's controllers do
    propose 1 a b         the state machine of node 1 proposes two records as one batch
    fill 1                the disk of node 1 is full
    free 1                it has room again
    stop 1                node 1 is told to shut down
    ask 1 REQUEST         node 1 gets this request from outside; see `request_notation`
    disk 1 epoch 4 log 1 1 4   the disk of node 1 before its start: its epoch, and records of
                          these epochs, named a, b, c... by their offsets
    due 1 2               the times at which these will stand
    log [1 2], state, replicas 1
"""

import random
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from quorum.core.events import (
    Correlation,
    DiskSpaceChanged,
    LeaderUnreachable,
    ResponseReceived,
    Stopping,
    Tick,
)
from quorum.core.limits import Bounds, Timeouts
from quorum.core.messages import Batch, Error, VoteRequest, VoteResponse
from quorum.core.roles import Follower, Leader, Prospective
from quorum.core.vocabulary import NO_DIRECTORY, ElectionState, Epoch, Offset, ReplicaId
from quorum.core.voter_set import VoterSet
from tests.quorum.core.quorum_invariants import Judge
from tests.quorum.core.request_notation import directory_of, parse_request
from tests.quorum.core.simulated_node import Host, Packet
from tests.quorum.core.simulated_quorum import OUTSIDE, Backstage
from tests.quorum.core.transcript_notation import listed, written
from tests.quorum.core.virtual_disk import Disk, StoredBatch


class Stage(Backstage):
    def __init__(self) -> None:
        super().__init__()
        self._voters = VoterSet.of(1)
        self._bounds = Bounds()
        self._records_voters = False
        self._has_directories = False
        self._boots = 0
        self._prepared: set[ReplicaId] = set()

    def answer(self, command: str) -> str:
        """Do what the lines of `command` say; return what happened."""
        return written(command, self._obey)

    def _obey(self, line: str) -> Iterator[str]:
        verb, *words = line.split()
        return self._scenes()[verb](*words)

    def _scenes(self) -> dict[str, Callable[..., Iterator[str]]]:
        return {
            "voters": self._start_voters,
            "bounds": self._bound,
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
            "cut": self._cut,
            "heal": self._heal,
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
            "disk": self._prepare,
            "due": self._due,
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

    def _bound(self, *words: str) -> Iterator[str]:
        most = zip(words[::2], map(int, words[1::2]), strict=True)
        self._bounds = replace(self._bounds, **dict(most))
        yield from ()

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
            bounds=self._bounds,
            records_voters=self._records_voters,
        )
        if me in self._prepared:
            self._prepared.remove(me)  # The judge has not seen how this came about.
        else:
            self._judge.durable(host)
        yield self._show(host)

    def _prepare(self, number: str, *words: str) -> Iterator[str]:
        me = ReplicaId(int(number))
        assert me not in self.hosts, f"{me} is running"
        disk = self.disks[me] = Disk()
        disk.election = ElectionState(Epoch(int(words[1])))
        for at, epoch in enumerate(words[3:]):
            outline = Batch(Offset(at), Offset(at + 1), Epoch(int(epoch)))
            disk.append(StoredBatch(outline, (string.ascii_lowercase[at],)))
        disk.durable = len(disk.records)
        self._prepared.add(me)
        self._judge.wiped(me)
        yield f"{me}: {disk}"

    def _due(self, *numbers: str) -> Iterator[str]:
        for host in map(self._host, numbers):
            role, due_ms = host.node.role, None
            if not isinstance(role, Leader):
                due_ms = role.deadline_ms
            what = "gives its leader up" if isinstance(role, Follower) else "stands"
            if due_ms is None:
                yield f"{host.me} waits for no such time"
            else:
                yield f"{host.me} {what} at {due_ms} ms, in {max(0, due_ms - self._now_ms)} ms"

    def _log(self, *numbers: str) -> Iterator[str]:
        wanted = [ReplicaId(int(number)) for number in numbers] or sorted(self.disks)
        yield from listed((me, str(self.disks[me])) for me in wanted)

    def _replicas(self, number: str) -> Iterator[str]:
        node = self._host(number).node
        for each in node.replicas():
            if each.replica == node.me:
                yield f"{each.replica} leader: log end {each.log_end}"
                continue
            role = "observer" if each.voter is None else "voter"
            if each.last_fetch_ms is None:
                yield f"{each.replica} {role}: has not fetched"
                continue
            caught_up = each.last_caught_up_ms
            yield (
                f"{each.replica} {role}: log end {each.log_end}, "
                f"fetched at {each.last_fetch_ms} ms, "
                f"{'not caught up yet' if caught_up is None else f'caught up at {caught_up} ms'}"
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
                event = ResponseReceived(voter, correlation, unknown)
                said = [f"at {self._now_ms} ms", *self._step(host, event)]
            else:
                said = list(self._tick(number))
        # Nobody was asked for a pre-vote, as it were.
        self._open = {
            key: sent
            for key, sent in self._open.items()
            if key[0] != host.me
            or not (isinstance(sent.message, VoteRequest) and sent.message.pre_vote)
        }
        yield from said

    def _elect(self, number: str) -> Iterator[str]:
        list(self._stand(number))
        return self._run("0")

    def _wait(self, ms: str) -> Iterator[str]:
        self._now_ms += int(ms)
        yield f"at {self._now_ms} ms"

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
        yield from self._step(self._host(number), DiskSpaceChanged(exists))

    def _time_out(self, number: str, *to: str) -> Iterator[str]:
        host = self._host(number)
        for asker, correlation in sorted(self._open):
            asked = self._open[asker, correlation].asked
            if asker == host.me and (not to or asked == int(to[1])):
                yield from self._give_up(host, correlation)

    def _unreachable(self, number: str, *whom: str) -> Iterator[str]:
        leader = ReplicaId(int(whom[1])) if whom else self._host(number).node.leader
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

    # --- the network -------------------------------------------------------------------------

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

    def _cut(self, one: str, other: str) -> Iterator[str]:
        self._cuts.add(frozenset((ReplicaId(int(one)), ReplicaId(int(other)))))
        yield from ()

    def _heal(self) -> Iterator[str]:
        self._parts, self._cuts = {}, set()
        yield from ()
