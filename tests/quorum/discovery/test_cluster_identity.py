from collections.abc import Callable

from quorum.cluster_id import ClusterIdentity
from quorum.core.vocabulary import Epoch, Offset, ReplicaId
from quorum.core.voter_set import VoterAssignment, VoterSet
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import stamp
from tests.support.memory_storage import MemoryLog


class Shelf:
    """Keeps what it is given once it is told that the disk is done."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Callable[[], None]]] = []

    def keep(self, cluster_id: str, done: Callable[[], None]) -> None:
        self.asked.append((cluster_id, done))

    def done(self) -> None:
        self.asked[-1][1]()

    def cluster(self, cluster_id: str | None = None) -> ClusterIdentity:
        return ClusterIdentity(cluster_id, keep=self.keep, make=iter(("made", "again")).__next__)


def test_a_cluster_is_known_when_its_id_is_on_disk_and_not_before() -> None:
    shelf, told = Shelf(), list[str]()
    cluster = shelf.cluster()
    cluster.on_known.append(told.append)
    cluster.learn("A")
    assert (cluster.id, told) == (None, [])
    shelf.done()
    assert (cluster.id, told) == ("A", ["A"])


def test_the_first_word_counts() -> None:
    shelf = Shelf()
    cluster = shelf.cluster()
    cluster.learn("A")
    cluster.learn("B")
    shelf.done()
    cluster.learn("C")
    assert cluster.id == "A"
    assert len(shelf.asked) == 1


def test_a_leader_announces_no_new_cluster_id_before_its_commit() -> None:
    """Another one may found the cluster instead, under another id."""
    shelf = Shelf()
    cluster = shelf.cluster()
    assert cluster.id_to_found_with() == "made"
    assert cluster.id_to_found_with() == "made"
    assert cluster.id is None
    assert shelf.asked == []


def founded_with(cluster_id: str | None) -> tuple[MemoryLog, Offset]:
    """A log that its first leader has begun with this cluster id."""
    log = MemoryLog()
    voters = VoterSet.of(1)
    change = LeaderChange(leader=ReplicaId(1), voters=voters.sorted(), granting=voters.sorted())
    batch = encode_leader_change(change, VoterAssignment(voters), cluster_id, timestamp_ms=0)
    stamp(batch, Offset(0), Epoch(1))
    log.append(batch)
    return log, log.end.offset


def test_a_log_that_names_no_cluster_leaves_it_open() -> None:
    cluster = Shelf().cluster()
    cluster.on_commit(*founded_with(None))
    assert cluster.id is None


def test_the_cluster_id_in_the_log_is_known_at_once() -> None:
    shelf, told = Shelf(), list[str]()
    cluster = shelf.cluster()
    cluster.on_known.append(told.append)
    cluster.on_commit(*founded_with("A"))
    assert (cluster.id, told) == ("A", ["A"])
    assert [each for each, _ in shelf.asked] == ["A"]
    shelf.done()
    assert told == ["A"]


def test_the_log_overrules_what_is_being_learned() -> None:
    shelf = Shelf()
    cluster = shelf.cluster()
    cluster.learn("B")
    cluster.on_commit(*founded_with("A"))
    for _, done in shelf.asked:
        done()
    assert cluster.id == "A"


def test_only_an_id_that_is_known_and_another_is_refused() -> None:
    cluster = Shelf().cluster("A")
    assert cluster.refusal("A") is None
    assert cluster.refusal(None) is None
    assert cluster.refusal("B") == "the sender is of cluster B, this node of A"
    assert Shelf().cluster().refusal("B") is None
