"""The invariants of the quorum, checked from the wire and the disks.

The checker never reads a variable of a node. It sees every effect just after it was performed,
every packet just before it leaves, and every change of durable data; it raises `Violation` with the
number of the invariant.
"""

from dataclasses import dataclass

from quorum.core.effects import (
    AnswerReads,
    AppendAssignment,
    AppendFetched,
    AppendLeaderChange,
    AppendProposed,
    Commit,
    Effect,
    PersistElection,
    TruncateTo,
)
from quorum.core.events import ReadToken
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId, ReplicaKey
from tests.quorum.core.simulated_node import Host, Packet
from tests.quorum.core.virtual_disk import Disk, Record
from tests.quorum.core.voters_oracle import Electorate, is_voter, last_voters_at, voters_of


class Violation(AssertionError):
    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Committed:
    record: Record
    by: Epoch
    """The epoch whose leader committed it, as counted here."""


class Judge:
    def __init__(self, founders: tuple[ReplicaId, ...]) -> None:
        self.electorate = Electorate(founders)
        self.committed: list[Committed] = []
        self._elections: dict[ReplicaId, ElectionState] = {}
        self._votes: dict[tuple[ReplicaId, Epoch], ReplicaId] = {}
        self._leaders: dict[Epoch, tuple[ReplicaId, int]] = {}
        self._epoch_starts: dict[Epoch, int] = {}
        self._identity: dict[tuple[int, Epoch], tuple[str, Epoch]] = {}
        self._durable_in: dict[Epoch, dict[ReplicaKey, int]] = {}
        self._compared: dict[Epoch, int] = {}
        self._known: dict[tuple[ReplicaId, int], int] = {}
        self._shown: tuple[Epoch, int] = (Epoch(0), 0)
        self._told = 0
        self._reads: dict[tuple[int, ReadToken], int] = {}

    # --- what happens ------------------------------------------------------------------------

    def performed(self, host: Host, effect: Effect, end_before: int) -> None:
        """Look at `effect` after it was done; the log ended at `end_before` when it began."""
        match effect:
            case PersistElection(election):
                self._persisted(host.me, election)
            case AppendLeaderChange(batch=batch, leader=leader):
                self._opened(host, batch.epoch, end_before)
                self._require(leader == host.me, "R1", f"{host.me} opened an epoch of {leader}")
                self._appended(host.disk, end_before)
                self.electorate.opened(host.disk, batch.epoch)
            case AppendAssignment(batch):
                self._led(host, batch.epoch)
                self._appended(host.disk, end_before)
                self._reassigned(host, batch.epoch, end_before)
            case AppendProposed(batch):
                self._led(host, batch.epoch)
                self._appended(host.disk, end_before)
            case AppendFetched():
                self._appended(host.disk, end_before)
            case Commit(high_watermark):
                self._commit_known(host, high_watermark)
            case AnswerReads(tokens, int(offset)):
                self._read(host, tokens, offset)
            case _:
                pass

    def about_to_perform(self, host: Host, effect: Effect) -> None:
        """Look at what `effect` will destroy."""
        if not isinstance(effect, TruncateTo):
            return
        self._require(
            host.disk.election.leader != host.me, "R11", f"leader {host.me} rewrites its log"
        )
        records = host.disk.records
        for offset in range(effect.end, min(len(records), len(self.committed))):
            self._require(
                records[offset] != self.committed[offset].record,
                "R10",
                f"{host.me} truncates to {effect.end}, but {records[offset]} is committed",
            )

    def leaving(self, host: Host, packet: Packet) -> None:
        """Look at a packet before it leaves: what it says must be durable."""
        election, me = host.disk.election, host.me
        match packet.message:
            case VoteRequest(epoch=epoch, pre_vote=False):
                self._vote(host, epoch, me)
            case VoteRequest(epoch=epoch):
                self._require(epoch == election.epoch, "R4", f"{me} asks in epoch {epoch}")
            case VoteResponse(granted=True, epoch=epoch):
                assert isinstance(packet.question, VoteRequest)
                if not packet.question.pre_vote:
                    self._vote(host, epoch, packet.question.candidate.id)
            case BeginQuorumEpochRequest(epoch=epoch):
                self._led(host, epoch)
            case EndQuorumEpochRequest(epoch=epoch):
                self._require(self._leaders[epoch][0] == me, "R1", f"{me} ends an epoch not its")
            case FetchRequest(epoch=epoch, log_end=end):
                self._require(epoch == election.epoch, "R4", f"{me} fetches in epoch {epoch}")
                self._require(
                    end.offset <= host.disk.durable and end == host.disk.end_at(end.offset),
                    "R12",
                    f"{me} acknowledges {end}, durable is {host.disk.durable}",
                )
            case FetchResponse(leader=leader) as answer if leader == me and not answer.error:
                self._led(host, answer.epoch)
                self._show(packet, answer)
            case _:
                pass

    def durable(self, host: Host) -> None:
        """Count the committed records again: the disk of `host` has changed (Raft §5.4.2).

        A record counts when it is durable while its disk is still in the record's epoch.
        """
        disk, epoch = host.disk, host.disk.election.epoch
        if disk.durable == 0 or disk.end_at(disk.durable).epoch != epoch:
            return
        key = ReplicaKey(host.me, disk.directory_id)
        ends = self._durable_in.setdefault(epoch, {})
        ends[key] = max(disk.durable, ends.get(key, 0))
        self._count(disk, epoch)

    def _count(self, disk: Disk, epoch: Epoch) -> None:
        """The durable ends of the voters in force in this epoch's log (R16)."""
        voters = self.electorate.in_force(epoch)
        ends = self._durable_in.get(epoch, {})
        counted = sorted((self._reached(ends, voter) for voter in voters), reverse=True)
        self._commit(disk, epoch, counted[len(voters) // 2])

    @staticmethod
    def _reached(ends: dict[ReplicaKey, int], voter: ReplicaKey) -> int:
        return max((end for key, end in ends.items() if is_voter(key, voter)), default=0)

    def _reassigned(self, host: Host, epoch: Epoch, offset: int) -> None:
        """R14 and R15: voters change by one, when the change before is committed, and an epoch."""
        before, after = voters_of(host.disk.records[:offset]), voters_of(host.disk.records)
        before = before or self.electorate.founders
        assert after is not None
        changed = {each.id for each in before} ^ {each.id for each in after}
        self._require(len(changed) <= 1, "R14", f"{host.me}: {before}, then {after}")
        last = last_voters_at(host.disk.records[:offset])
        self._require(
            last is None or last < len(self.committed),
            "R15",
            f"{host.me} changes the voters at {offset}, but those of {last} are not committed",
        )
        self._require(
            len(self.committed) > self._epoch_starts[epoch],
            "R15",
            f"{host.me} changes the voters before a commit in its epoch {epoch}",
        )
        self.electorate.opened(host.disk, epoch)
        self._count(host.disk, epoch)

    def wiped(self, me: ReplicaId) -> None:
        """The disk of `me` is gone, and with it all that it had promised."""
        self._elections.pop(me, None)
        self._votes = {key: vote for key, vote in self._votes.items() if key[0] != me}

    def reading(self, host: Host, token: ReadToken) -> None:
        """A read begins: it must see everything that anybody has been told is committed."""
        self._reads[host.boot, token] = self._told

    def known(self, host: Host) -> int:
        """The high watermark that this process has been told of, 0 for none."""
        return self._known.get((host.me, host.boot), 0)

    # --- what must hold ----------------------------------------------------------------------

    @staticmethod
    def _require(holds: bool, rule: str, text: str) -> None:
        if not holds:
            raise Violation(rule, text)

    def _persisted(self, me: ReplicaId, election: ElectionState) -> None:
        before = self._elections.get(me, ElectionState())
        self._require(election.epoch >= before.epoch, "R4", f"{me}: {before}, then {election}")
        if election.epoch == before.epoch:
            self._require(
                before.voted_for in (None, election.voted_for)
                and before.leader in (None, election.leader),
                "R2",
                f"{me} forgets: {before}, then {election}",
            )
        self._elections[me] = election
        if election.voted_for is not None and election.voted_for.id == me:
            self._votes.setdefault((me, election.epoch), me)

    def _vote(self, host: Host, epoch: Epoch, candidate: ReplicaId) -> None:
        me, election = host.me, host.disk.election
        voted_for = None if election.voted_for is None else election.voted_for.id
        self._require(
            (election.epoch, voted_for) == (epoch, candidate),
            "R3",
            f"{me} votes for {candidate} in epoch {epoch}, on disk is {election}",
        )
        first = self._votes.setdefault((me, epoch), candidate)
        self._require(
            first == candidate, "R2", f"{me} voted for {first} and {candidate} in {epoch}"
        )

    def _opened(self, host: Host, epoch: Epoch, start: int) -> None:
        """R1, by the votes that were given, and R7, what leaders of lower epochs have committed."""
        self._led(host, epoch)
        voters = [each.id for each in self.electorate.of(host.disk.records[:start])]
        given = [voter for voter in voters if self._votes.get((voter, epoch)) == host.me]
        self._require(
            2 * len(given) > len(voters), "R1", f"{host.me} leads {epoch} by votes of {given}"
        )
        self._require(epoch not in self._epoch_starts, "R11", f"epoch {epoch} is opened twice")
        self._epoch_starts[epoch] = start
        for offset, each in enumerate(self.committed):
            if each.by < epoch:
                self._require(
                    offset < start and host.disk.records[offset] == each.record,
                    "R7",
                    f"{host.me} leads epoch {epoch} without {each.record} at {offset}",
                )

    def _led(self, host: Host, epoch: Epoch) -> None:
        first = self._leaders.setdefault(epoch, (host.me, host.boot))
        self._require(first[0] == host.me, "R1", f"{first[0]} and {host.me} lead epoch {epoch}")
        self._require(first[1] == host.boot, "R11", f"{host.me} leads {epoch} after a restart")
        self._require(
            host.disk.election.epoch >= epoch, "R3", f"{host.me} leads {epoch} before it is durable"
        )

    def _appended(self, disk: Disk, start: int) -> None:
        """R5, log matching: the same epoch at the same offset means the same record before it.

        By induction that is the same prefix.
        """
        before = disk.end_at(start).epoch
        for offset in range(start, len(disk.records)):
            record = disk.records[offset]
            identity = (record.word, before)
            first = self._identity.setdefault((offset, record.epoch), identity)
            self._require(first == identity, "R5", f"{offset}: {first} and {identity}")
            before = record.epoch

    def _commit(self, disk: Disk, epoch: Epoch, end: int) -> None:
        """R6: what was committed stays; what is new comes after it."""
        if end <= self._epoch_starts[epoch] or end > len(disk.records):
            return
        for offset in range(self._compared.get(epoch, 0), min(end, len(self.committed))):
            was, now = self.committed[offset].record, disk.records[offset]
            self._require(was == now, "R6", f"{offset}: {was} was committed, now {now}")
        self._compared[epoch] = end
        self.committed += [Committed(r, epoch) for r in disk.records[len(self.committed) : end]]

    def _commit_known(self, host: Host, high_watermark: int) -> None:
        """R8 and R9: a node believes committed only what is, and never less than before."""
        me, records = host.me, host.disk.records
        self._require(
            high_watermark <= min(len(self.committed), len(records)),
            "R8",
            f"{me} takes {high_watermark} for committed, {len(self.committed)} are, "
            f"and it has {len(records)}",
        )
        known = self.known(host)
        self._require(high_watermark > known, "R9", f"{me}: {known}, then {high_watermark}")
        self._known[me, host.boot] = high_watermark
        self._told = max(self._told, high_watermark)
        for offset in range(known, high_watermark):
            self._require(
                records[offset] == self.committed[offset].record,
                "R6",
                f"{me} has {records[offset]} at {offset}, not {self.committed[offset].record}",
            )

    def _read(self, host: Host, tokens: tuple[ReadToken, ...], offset: int) -> None:
        """L2: a read sees all that was known when it began, and its state machine has it."""
        for token in tokens:
            floor = self._reads.pop((host.boot, token))
            self._require(
                offset >= floor, "L2", f"{host.me} reads at {offset}, {floor} was known before"
            )
        applied = self.known(host)
        self._require(
            offset <= applied, "L2", f"{host.me} reads at {offset}, has applied {applied}"
        )

    def _show(self, packet: Packet, answer: FetchResponse) -> None:
        """R9: a high watermark is shown after a commit in the leader's epoch, and never falls."""
        high_watermark, (epoch, highest) = answer.high_watermark, self._shown
        if high_watermark is not None:
            self._require(
                high_watermark > self._epoch_starts[answer.epoch],
                "R9",
                f"{packet}: shown before a commit in its own epoch",
            )
            if answer.epoch >= epoch:
                self._require(high_watermark >= highest, "R9", f"{packet}: was {highest} before")
                self._shown = (answer.epoch, high_watermark)
        voters = {each.id for each in self.electorate.in_force(answer.epoch)}
        if packet.to not in voters and packet.records:
            end = packet.records[-1].outline.end
            self._require(end <= len(self.committed), "R8", f"{packet}: not committed")
