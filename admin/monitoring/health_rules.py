"""The rules of health: what is wrong with a cluster or a node, and the command that mends it.

Pure functions over facts that somebody else has gathered, so that every front end judges alike.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from msgspec import Meta, Struct

from admin.units import show_duration, show_time

NOT_FETCHING_MS: Final = 3_000
"""A voter that has not fetched for so long counts as lost: its long poll takes half a second."""
LAGGING_MS: Final = 10_000
"""A voter that was last caught up so long ago lags."""
EXPIRING_DAYS: Final = 30
CLOCKS_APART_MS_MAX: Final = 5 * 60_000
"""The clocks of two machines may differ by so much."""
_DAY_SECONDS: Final = 24 * 3_600
_IDS_SHOWN_MAX: Final = 10

DESCRIBE: Final = "metaquorum metadata-quorum describe"
ALTER: Final = "metaquorum metadata-quorum alter"
START: Final = "metaquorum start --config FILE"


class Rule(StrEnum):
    """The names of the rules; they stay as they are."""

    NO_LEADER = "no-leader"
    VOTER_NOT_FETCHING = "voter-not-fetching"
    VOTER_LAGGING = "voter-lagging"
    NO_FAILURE_TOLERANCE = "no-failure-tolerance"
    EVEN_VOTERS = "even-voters"
    VOTER_CHANGE_STUCK = "voter-change-stuck"
    DISK_FULL = "disk-full"
    BROKER_FENCED = "broker-fenced"
    PARTITIONS_WITHOUT_LEADER = "partitions-without-leader"
    PARTITIONS_UNDER_MIN_ISR = "partitions-under-min-isr"
    MOVE_STALLED = "move-stalled"
    CERTIFICATE_EXPIRING = "certificate-expiring"
    CERTIFICATE_REFUSED = "certificate-refused"
    CLIENT_REFUSED = "client-refused"
    NODE_UNREACHABLE = "node-unreachable"
    FOLDER_UNUSABLE = "folder-unusable"
    LOG_CUT_SHORT = "log-cut-short"
    FOLDER_OPEN = "folder-open"
    SETTINGS_INVALID = "settings-invalid"
    LISTENER_OPEN = "listener-open"
    BACKUP_OLD = "backup-old"
    BACKUP_DAMAGED = "backup-damaged"


_WHY: Final[Mapping[Rule, str]] = MappingProxyType(
    {
        Rule.NO_LEADER: "nothing can be changed, and brokers that lose their session stay fenced",
        Rule.VOTER_NOT_FETCHING: "the quorum is closer to losing its majority",
        Rule.VOTER_LAGGING: "it cannot become the leader, and commits may wait for it",
        Rule.NO_FAILURE_TOLERANCE: "without a majority of the voters nothing can be changed",
        Rule.EVEN_VOTERS: "one more machine can fail, and nothing is gained by it",
        Rule.VOTER_CHANGE_STUCK: "until it ends the quorum is not what you asked for, and no other "
        "change of the voters is taken",
        Rule.DISK_FULL: "the node acknowledges nothing until there is room",
        Rule.BROKER_FENCED: "its replicas are out of sync, so that fewer copies are left",
        Rule.PARTITIONS_WITHOUT_LEADER: "nobody can write to them or read from them",
        Rule.PARTITIONS_UNDER_MIN_ISR: "producers with acks=all are refused",
        Rule.MOVE_STALLED: "the move does not end by itself",
        Rule.CERTIFICATE_EXPIRING: "from then on, other nodes and clients refuse the connections",
        Rule.CERTIFICATE_REFUSED: "clients and nodes that check it do not connect to the node: it "
        "serves nobody, and cannot lead",
        Rule.CLIENT_REFUSED: "clients with these credentials cannot use the node, though others of "
        "the cluster take them",
        Rule.NODE_UNREACHABLE: "the cluster says that they live: if only this machine does not "
        "reach them, its network is the reason, and nothing is wrong with them",
        Rule.FOLDER_UNUSABLE: "a node refuses to start on it, so that nothing more is lost",
        Rule.LOG_CUT_SHORT: "the end of the log is not whole, as a crash leaves it; nothing that "
        "was acknowledged is in that part",
        Rule.FOLDER_OPEN: "the log has the hashes of passwords and tokens",
        Rule.SETTINGS_INVALID: "a node refuses to start with them",
        Rule.LISTENER_OPEN: "whoever reaches the port can act in the cluster",
        Rule.BACKUP_OLD: "if all controllers are lost, so is what was committed since",
        Rule.BACKUP_DAMAGED: "that backup cannot be restored, and no file of the place is removed "
        "any more, because nobody knows which ones it needs",
    }
)
"""The consequence of each rule's finding, as the rest of a sentence."""


class Severity(StrEnum):
    """The weight of a reason."""

    ERROR = "error"
    """The cluster is not healthy."""
    WARNING = "warning"
    """It is, and somebody should act before it is not."""


class Reason(Struct, frozen=True, kw_only=True):
    """Something that is wrong."""

    rule: Annotated[Rule, Meta(description="The name of the rule; it stays as it is")]
    severity: Annotated[Severity, Meta(description="Only errors make a cluster unhealthy")]
    sentence: Annotated[str, Meta(description="What is wrong")]
    why: Annotated[str, Meta(description="Why it matters")]
    command: Annotated[str, Meta(description="The command that mends it, or shows more")]


def reason(*, rule: Rule, severity: Severity, sentence: str, command: str) -> Reason:
    """Return a reason with its consequence."""
    return Reason(rule=rule, severity=severity, sentence=sentence, why=_WHY[rule], command=command)


class Member(Struct, frozen=True, kw_only=True):
    """A replica of the metadata log, as far as the node that answers knows it."""

    id: int
    is_voter: bool
    is_leader: bool = False
    fetched_ms_ago: int | None = None
    """The time since its last fetch; None: it has not fetched from this leader."""
    lag: int | None = None
    """The records that it lacks."""
    lag_ms: int | None = None
    """The time since it was caught up."""

    @property
    def is_reachable(self) -> bool:
        """True if it leads, or has fetched lately."""
        return self.is_leader or (
            self.fetched_ms_ago is not None and self.fetched_ms_ago < NOT_FETCHING_MS
        )


class Facts(Struct, frozen=True, kw_only=True):
    """The facts that the rules judge.

    A part that is not known has its default, and no rule fires for it.
    """

    leader_id: int | None
    leaderless_ms: int | None = None
    members: Sequence[Member] = ()
    target_voters: Sequence[int] | None = None
    waits_for: str | None = None
    """What a change of the voters waits for."""
    full_disks: Sequence[int] = ()
    fenced_brokers: Sequence[int] = ()
    """The fenced brokers that have replicas."""
    without_leader: int = 0
    under_min_isr: int = 0
    stalled: int = 0
    """Moving partitions that go on only after somebody has acted."""
    stalled_moves: Sequence[int] = ()
    local_folder: str | None = None
    """The folder of the `metaquorum local` that runs the cluster, if one does."""
    certificates_end_s: float | None = None
    """When the first certificate of the node that answers ends, in seconds of Unix time."""
    now_s: float = 0.0

    @property
    def voters(self) -> list[Member]:
        """The voters among the members."""
        return [each for each in self.members if each.is_voter]


def is_healthy(reasons: Sequence[Reason]) -> bool:
    """True if none of the reasons is an error."""
    return all(each.severity is not Severity.ERROR for each in reasons)


def tolerance(voters: Sequence[Member]) -> int:
    """Return how many of the reachable voters may be lost before the quorum stops."""
    reachable = sum(each.is_reachable for each in voters)
    return max(0, reachable - (len(voters) // 2 + 1))


def reasons(facts: Facts) -> list[Reason]:
    """Return everything that is wrong, the quorum first."""
    return [
        *_of_leader(facts),
        *_of_voters(facts),
        *_of_voter_change(facts),
        *_of_disks(facts),
        *_of_brokers(facts),
        *_of_partitions(facts),
        *_of_moves(facts),
        *_of_certificates(facts.certificates_end_s, facts.now_s),
    ]


class NodeProbe(Struct, frozen=True, kw_only=True):
    """The outcome of a connection to a node at its registered address."""

    name: str
    address: str
    is_alive: bool = True
    """True if the cluster says that it lives."""
    is_of_target: bool
    """True if it is of the kind of nodes that the client was given, which take its credentials."""
    refusal: str | None = None
    """Why node and client do not accept each other; the sentence begins with the address."""
    is_certificate_refused: bool = False
    """True if the client refuses the certificate of the node."""
    silence: str | None = None
    """Why the node did not answer."""


def reasons_of_probes(probes: Sequence[NodeProbe]) -> Iterator[Reason]:
    """Yield everything that is wrong with the connections to the nodes of a cluster.

    Controllers and brokers may take different credentials: a refusal of those counts only at a node
    of the kind that the client was given.
    """
    for each in probes:
        if each.refusal is None:
            continue
        if each.is_certificate_refused:
            yield reason(
                rule=Rule.CERTIFICATE_REFUSED,
                severity=Severity.ERROR,
                sentence=f"{each.name} at {each.refusal}",
                command="metaquorum certs create-node, with the authority that the others trust and"
                " a --host for each name and address of the node; files that change are loaded by "
                "themselves",
            )
        elif each.is_of_target:
            yield reason(
                rule=Rule.CLIENT_REFUSED,
                severity=Severity.ERROR,
                sentence=f"{each.name} at {each.refusal}",
                command="compare its ssl.* and sasl.* settings with those of a node that accepts "
                "this client; its log says why it refuses",
            )
    silent = [each for each in probes if each.silence is not None and each.is_alive]
    if silent:
        names = _ids([f"{each.name} ({each.address})" for each in silent])
        yield reason(
            rule=Rule.NODE_UNREACHABLE,
            severity=Severity.WARNING,
            sentence=f"no answer from {names}",
            command="run this command on a machine of the cluster; look for a firewall between, "
            "and at the address that the node advertises",
        )


class FolderFacts(Struct, frozen=True, kw_only=True):
    """The facts about the data folder of a stopped node."""

    folder: str
    problem: str | None = None
    """Why a node cannot start on it, and the way back."""
    cut: str | None = None
    """What recovery will remove from the end of the log."""
    is_open_to_others: bool = False
    """True if other users of the machine may read it."""
    start: str = START
    """The command that starts a node on it."""
    meant: Sequence[str] = ()
    """The data folders below it, if it is none."""


def reasons_of_folder(facts: FolderFacts) -> Iterator[Reason]:
    """Yield everything that is wrong with a data folder."""
    if facts.problem is not None:
        command = f"{facts.start}, once the folder is in order"
        if facts.meant:
            named = "".join(f" --dir {shlex.quote(each)}" for each in facts.meant)
            command = f"metaquorum doctor{named}"
        yield reason(
            rule=Rule.FOLDER_UNUSABLE,
            severity=Severity.ERROR,
            sentence=facts.problem,
            command=command,
        )
    if facts.cut is not None:
        yield reason(
            rule=Rule.LOG_CUT_SHORT,
            severity=Severity.WARNING,
            sentence=facts.cut,
            command=facts.start,
        )
    if facts.is_open_to_others:
        yield reason(
            rule=Rule.FOLDER_OPEN,
            severity=Severity.WARNING,
            sentence=f"other users of this machine may read {facts.folder}",
            command=f"chmod 700 {facts.folder}",
        )


class SettingsFacts(Struct, frozen=True, kw_only=True):
    """The facts about the settings of a node."""

    problem: str | None = None
    """Why a node refuses them."""
    voters: int | None = None
    """The voters that they name; None for a broker, or if none are named."""
    open_listeners: Sequence[str] = ()
    """A sentence for each listener that is open to other machines."""
    certificates_end_s: float | None = None
    now_s: float = 0.0


def reasons_of_settings(facts: SettingsFacts) -> Iterator[Reason]:
    """Yield everything that is wrong with the settings of a node."""
    if facts.problem is not None:
        yield reason(
            rule=Rule.SETTINGS_INVALID,
            severity=Severity.ERROR,
            sentence=facts.problem,
            command="metaquorum settings lists all settings with their bounds",
        )
    if facts.voters is not None:
        yield from _of_number(
            [Member(id=each, is_voter=True, is_leader=True) for each in range(facts.voters)], START
        )
    for sentence in facts.open_listeners:
        yield reason(
            rule=Rule.LISTENER_OPEN,
            severity=Severity.WARNING,
            sentence=sentence,
            command="set up TLS and SASL: docs/security.md has the steps",
        )
    yield from _of_certificates(facts.certificates_end_s, facts.now_s)


class BackupFacts(Struct, frozen=True, kw_only=True):
    """The facts about the backups in one place."""

    place: str
    newest_ms: int | None = None
    """When the newest one was taken, in Unix time; None if there is none."""
    problem: str | None = None
    """Why that is not known."""
    damaged: Sequence[str] = ()
    """The manifests that cannot be used."""
    age_max_ms: int
    now_ms: int


def reasons_of_backups(facts: BackupFacts) -> Iterator[Reason]:
    """Yield everything that is wrong with the backups of a place."""
    sentence = facts.problem
    if sentence is None and facts.newest_ms is None:
        sentence = f"{facts.place} holds no backup"
    elif facts.newest_ms is not None and facts.now_ms - facts.newest_ms > facts.age_max_ms:
        age = show_duration(facts.now_ms - facts.newest_ms)
        sentence = (
            f"the newest backup in {facts.place} was taken at {show_time(facts.newest_ms)}, {age} "
            f"ago, longer than {show_duration(facts.age_max_ms)}"
        )
    elif facts.newest_ms is not None and facts.newest_ms - facts.now_ms > CLOCKS_APART_MS_MAX:
        sentence = (
            f"the newest backup in {facts.place} was taken at {show_time(facts.newest_ms)} by the "
            "clock of the machine that made it, and that lies in the future: its age is not known"
        )
    if sentence is not None:
        yield reason(
            rule=Rule.BACKUP_OLD,
            severity=Severity.ERROR,
            sentence=sentence,
            command=f"metaquorum backup --to {shlex.quote(facts.place)}; see the log of the one "
            "that runs with --every",
        )
    if facts.damaged:
        yield reason(
            rule=Rule.BACKUP_DAMAGED,
            severity=Severity.WARNING,
            sentence=f"{facts.place} has manifests that cannot be used: {_ids(facts.damaged)}",
            command=f"metaquorum backup list {shlex.quote(facts.place)} says why; bring the file "
            "back from a copy, or move it away",
        )


def _start(facts: Facts, which: str, ids: Sequence[int] = ()) -> str:
    """Return the command that starts nodes: `which` in words, or these."""
    if facts.local_folder is None:
        return f"{START}, on {which}"
    if len(ids) == 1:
        return local_restart(facts.local_folder, str(ids[0]))
    return f"{local_restart(facts.local_folder)}, for {which}"


def local_restart(folder: str, node: str = "NODE") -> str:
    """Return the command that restarts a node of the local cluster in a folder."""
    return f"metaquorum local restart {node} --dir {shlex.quote(folder)}"


def _of_leader(facts: Facts) -> Iterator[Reason]:
    if facts.leader_id is None:
        yield reason(
            rule=Rule.NO_LEADER,
            severity=Severity.ERROR,
            sentence=f"no leader {_known_since(facts)}: a majority of the voters must run and "
            "reach each other; if their disks are lost for good, metaquorum recover or metaquorum "
            "restore is the way back",
            command=_start(facts, "each controller that does not run"),
        )


def _known_since(facts: Facts) -> str:
    if facts.leaderless_ms is None:
        return "is known"
    return f"has been known for {facts.leaderless_ms / 1_000:.1f} s"


def _of_voters(facts: Facts) -> Iterator[Reason]:
    # Only a leader knows the others.
    if facts.leader_id is None or not any(each.is_leader for each in facts.members):
        return
    voters = facts.voters
    gone = [each.id for each in voters if not each.is_reachable]
    if gone:
        yield reason(
            rule=Rule.VOTER_NOT_FETCHING,
            severity=Severity.ERROR,
            sentence=f"{_named('voter', gone)} not fetched for {NOT_FETCHING_MS // 1_000} s",
            command=f"{_start(facts, _ids(gone), gone)}; or replace for good: {ALTER} --voters ...",
        )
    behind = [
        each.id
        for each in voters
        if each.is_reachable and each.lag and (each.lag_ms is None or each.lag_ms >= LAGGING_MS)
    ]
    if behind:
        yield reason(
            rule=Rule.VOTER_LAGGING,
            severity=Severity.ERROR,
            sentence=f"{_named('voter', behind)} not been caught up for {LAGGING_MS // 1_000} s",
            command=f"{DESCRIBE} --replication",
        )
    yield from _of_number(voters, _start(facts, "a controller that does not run"))


def _of_number(voters: Sequence[Member], start: str) -> Iterator[Reason]:
    """`start` is the command that starts another voter."""
    count = len(voters)
    if count > 1 and not tolerance(voters):
        yield reason(
            rule=Rule.NO_FAILURE_TOLERANCE,
            severity=Severity.ERROR,
            sentence="the loss of one more voter stops the quorum",
            command=f"{start}; or add voters: {ALTER} --voters ...",
        )
    elif count == 1:
        yield reason(
            rule=Rule.NO_FAILURE_TOLERANCE,
            severity=Severity.WARNING,
            sentence="there is one voter, and its loss stops the quorum",
            command=f"{ALTER} --voters ..., with three voters",
        )
    if count % 2 == 0 and count:
        yield reason(
            rule=Rule.EVEN_VOTERS,
            severity=Severity.WARNING,
            sentence=f"{count} voters tolerate no more failures than {count - 1}",
            command=f"{ALTER} --voters ..., with {count - 1} or {count + 1} voters",
        )


def _of_voter_change(facts: Facts) -> Iterator[Reason]:
    if facts.waits_for is not None:
        target = "" if facts.target_voters is None else f" to {_ids(facts.target_voters)}"
        yield reason(
            rule=Rule.VOTER_CHANGE_STUCK,
            severity=Severity.WARNING,
            sentence=f"the change of the voters{target} waits: {facts.waits_for}",
            command=f"{DESCRIBE} --status; or give it up: {ALTER} --cancel",
        )


def _of_disks(facts: Facts) -> Iterator[Reason]:
    if facts.full_disks:
        yield reason(
            rule=Rule.DISK_FULL,
            severity=Severity.ERROR,
            sentence=f"the disk of node {_ids(facts.full_disks)} is full",
            command="df, on that node; it goes on by itself once there is room",
        )


def _of_brokers(facts: Facts) -> Iterator[Reason]:
    fenced = facts.fenced_brokers
    if fenced:
        ids = ",".join(map(str, fenced[:_IDS_SHOWN_MAX]))
        yield reason(
            rule=Rule.BROKER_FENCED,
            severity=Severity.ERROR,
            sentence=f"{_count(len(fenced), 'broker')} fenced, with replicas: {_ids(fenced)}",
            command=f"{_start(facts, _ids(fenced), fenced)}; or empty for good: "
            f"metaquorum brokers decommission --brokers {ids}",
        )


def _of_partitions(facts: Facts) -> Iterator[Reason]:
    if facts.without_leader:
        yield reason(
            rule=Rule.PARTITIONS_WITHOUT_LEADER,
            severity=Severity.ERROR,
            sentence=f"{_count(facts.without_leader, 'partition')} without a leader",
            command=_start(facts, "each broker that was last in sync"),
        )
    if facts.under_min_isr:
        yield reason(
            rule=Rule.PARTITIONS_UNDER_MIN_ISR,
            severity=Severity.ERROR,
            sentence=f"{_count(facts.under_min_isr, 'partition')} under min.insync.replicas",
            command="metaquorum brokers list",
        )


def _of_moves(facts: Facts) -> Iterator[Reason]:
    if facts.stalled:
        moves = facts.stalled_moves
        shown = f" {moves[0]}" if moves else ""
        yield reason(
            rule=Rule.MOVE_STALLED,
            severity=Severity.ERROR,
            sentence=f"{_count(facts.stalled, 'moving partition')} stalled"
            + (f", in {'moves' if len(moves) > 1 else 'move'} {_ids(moves)}" if moves else ""),
            command=f"metaquorum {f'moves show{shown}' if moves else 'reassign-partitions --list'}",
        )


def _of_certificates(end_s: float | None, now_s: float) -> Iterator[Reason]:
    if end_s is None:
        return
    days = (end_s - now_s) / _DAY_SECONDS
    if days < EXPIRING_DAYS:
        is_over = days <= 0
        when = "has expired" if is_over else f"expires in {int(days)} days"
        yield reason(
            rule=Rule.CERTIFICATE_EXPIRING,
            severity=Severity.ERROR if is_over else Severity.WARNING,
            sentence=f"a certificate of the node that answers {when}",
            command="metaquorum certs create-node; files that change are loaded by themselves",
        )


def _count(number: int, what: str) -> str:
    return f"1 {what} is" if number == 1 else f"{number} {what}s are"


def _named(what: str, ids: Sequence[int]) -> str:
    return f"{what} {_ids(ids)} has" if len(ids) == 1 else f"{what}s {_ids(ids)} have"


def _ids(ids: Sequence[int | str]) -> str:
    shown = ", ".join(map(str, ids[:_IDS_SHOWN_MAX]))
    return shown if len(ids) <= _IDS_SHOWN_MAX else f"{shown} and {len(ids) - _IDS_SHOWN_MAX} more"
