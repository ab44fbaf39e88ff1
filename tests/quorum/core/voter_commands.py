"""The commands of transcripts about voter changes: those of `transcript_commands`, and these.

locate 4 5            every node learns the addresses of these
want 1 REQUEST        a client requests other voters at node 1; see `request_notation`
roll 1 by 2 3         2 and 3 fetch, as node 1 requires before a change; it receives the fetches
change 1              the state of the voter change at node 1
hand 1 [to 3]         a client requests a transfer of the lead of node 1, to any voter or to node 3
wipe 2                the disk of node 2, which is not running, is replaced by an empty one
"""

from collections.abc import Callable, Iterator

from quorum.core.events import EndpointsUpdated
from quorum.core.messages import TransferRequest
from quorum.core.vocabulary import ReplicaId, ReplicaKey
from tests.quorum.core.request_notation import directory_of, endpoints_of, parse_wish
from tests.quorum.core.transcript_commands import Stage
from tests.quorum.core.virtual_disk import Disk


class VotersStage(Stage):
    def _scenes(self) -> dict[str, Callable[..., Iterator[str]]]:
        return super()._scenes() | {
            "locate": self._locate,
            "want": self._want,
            "roll": self._roll,
            "change": self._change,
            "hand": self._hand,
            "wipe": self._wipe,
        }

    def _locate(self, *numbers: str) -> Iterator[str]:
        for number in numbers:
            me = ReplicaId(int(number))
            key = ReplicaKey(me, self.disks[me].directory_id)
            for host in self.hosts.values():
                yield from self._step(host, EndpointsUpdated(key, endpoints_of(me)))

    def _want(self, number: str, *wish: str) -> Iterator[str]:
        directories = {me: disk.directory_id for me, disk in self.disks.items()}
        host = self._host(number)
        event = host.wanted(parse_wish(wish, directories))
        yield f"{host.me}: {event}"
        yield from self._step(host, event)

    def _roll(self, number: str, by: str, *others: str) -> Iterator[str]:
        assert by == "by"
        for other in others:
            yield from self._deliver(other, "from", number)
            if self.disks[ReplicaId(int(other))].batches_at_risk:
                yield from self._flush(other)
            yield from self._deliver(number, "from", other)

    def _change(self, number: str) -> Iterator[str]:
        host = self._host(number)
        target, reason = "no target", host.node.voter_change_wait
        if host.node.target_voters is not None:
            target = f"target [{', '.join(map(str, host.node.target_voters))}]"
        wait = "" if reason is None else f"; waiting, {reason}"
        yield f"voters {host.node.voters}; {target}{wait}"

    def _hand(self, number: str, *to: str) -> Iterator[str]:
        host = self._host(number)
        event = host.wanted(TransferRequest(ReplicaId(int(to[1])) if to else None))
        yield f"{host.me}: {event}"
        yield from self._step(host, event)

    def _wipe(self, number: str) -> Iterator[str]:
        me = ReplicaId(int(number))
        assert me not in self.hosts, f"{me} is running"
        disks = 1 + (self.disks[me].directory_id.int >> 124)
        self.disks[me] = Disk(directory_of(me, disks))
        self._judge.wiped(me)
        yield from ()

    def move(self) -> None:
        """Let the next thing happen that can: one flush, one inbox, or one timer."""
        for me in sorted(self.hosts):
            if self.hosts[me].disk.batches_at_risk:
                list(self._flush(str(me)))
                return
            if self._inboxes[me]:
                list(self._deliver(str(me)))
                return
        self._now_ms = max(self._now_ms, min(self._moments()))
        self._fire()
