"""`metaquorum adopt`: the folders that it writes, and its report."""

from pathlib import Path

from admin.config import Config, load
from admin.tools.dump import entries
from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId
from quorum.log.meta_properties import look
from quorum.log.quorum_state import QuorumStateFile
from quorum.persistent_state import LOG_FOLDER
from quorum.transport.address import Address
from statemachine.records import codec, kafka_records
from tests.admin.tools.adopted_folders import adopted, log_folder, log_of
from tests.admin.tools.old_controllers import (
    CHECKPOINT,
    CHECKPOINT_END,
    LOG,
    LOG_END,
    cut,
    directory,
    followed_by,
    key,
    old,
    rest,
)
from tests.support.real_cluster import CLUSTER_ID, IN_TREE, controller

SHORTER = cut(531)


def test_every_controller_gets_the_log_that_ends_furthest_and_keeps_its_vote(
    tmp_path: Path,
) -> None:
    sources = [
        old(tmp_path, 2, voted_for=3),
        old(tmp_path, 3, log=SHORTER),
        old(tmp_path, 4, log=SHORTER),
    ]
    new = tmp_path / "new"
    assert adopted(new, *sources).exit_code == 0
    for node_id in (2, 3, 4):
        assert log_of(new, node_id) == LOG
        assert not (log_folder(new, node_id) / "leader-epoch-checkpoint").exists()
        election = QuorumStateFile(log_folder(new, node_id), cluster_id=CLUSTER_ID).read()
        voted_for = key(3) if node_id == 2 else None
        assert election == ElectionState(Epoch(3), voted_for, ReplicaId(3))
        meta = look(new / f"controller-{node_id}" / "data")
        assert meta is not None
        assert meta.node_id == node_id
        assert meta.directory_id == directory(node_id)
    assert sorted(path.name for path in new.iterdir()) == [
        *("controller-2", "controller-3", "controller-4")
    ]


def test_the_settings_start_a_controller_where_the_log_says_that_it_listens(tmp_path: Path) -> None:
    new = tmp_path / "new"
    result = adopted(new, *(old(tmp_path, node_id) for node_id in (2, 3, 4)))
    file = new / "controller-3" / "node.properties"
    config = load(file, {})
    assert isinstance(config, Config)
    assert config.quorum.node_id == 3
    assert config.quorum.cluster_id == CLUSTER_ID
    assert config.listener == Address("127.0.0.1", 19003)
    assert config.quorum.folder == new / "controller-3" / "data"
    assert config.quorum.voters == {n: Address("127.0.0.1", 19000 + n) for n in (2, 3, 4)}
    assert result.stdout.splitlines()[-2].endswith(f"start --config {file}")


def test_the_report_tells_what_was_found(tmp_path: Path) -> None:
    sources = [
        old(tmp_path, 1),
        old(tmp_path, 2, voted_for=3, checkpoints=[IN_TREE / CHECKPOINT]),
        old(tmp_path, 3, log=SHORTER),
    ]
    result = adopted(tmp_path / "new", *sources)
    assert result.exit_code == 0, result.stderr
    told = result.stdout
    assert f"Cluster {CLUSTER_ID}, metadata.version 29 (4.2-IV1), kraft.version 1" in told
    assert f"2      k5C0uO1nQ8yJqQm8XH2mBg  127.0.0.1:19002  {sources[1]}\n" in told
    assert "4      r2YayKXfSImQNLiUjajxqQ  127.0.0.1:19004  not given\n" in told
    assert "1     [0, 546)  3          3               -     -\n" in told
    assert "2     [0, 546)  3          3               3     479@3\n" in told
    assert "3     [0, 531)  3          3               -     -\n" in told
    assert "The log of node 1 ends furthest, at offset 546 of epoch 3." in told
    assert "  brokers         4, 4 of them fenced\n" in told
    assert "  topics          1 with 4 partitions\n" in told
    assert "  reassignments   0 under way\n" in told
    assert "  configurations  0 of topics, 1 of brokers\n" in told
    assert "eligible.leader.replicas.version 1, group.version 1, metadata.version 29, " in told
    assert f"- Node 1 does not vote any more ({sources[0]}): it gets no folder.\n" in told
    assert "- Voters 4 were not given: they count, but nothing takes their place.\n" in told
    assert "- The voters are those of the log; `metaquorum metadata-quorum alter" in told
    assert not (tmp_path / "new" / "controller-1").exists()


def test_other_addresses_are_written_into_the_log_in_a_new_epoch(tmp_path: Path) -> None:
    """Kafka's brokers take the addresses of their controllers from the log."""
    new = tmp_path / "new"
    sources = [old(tmp_path, 2, voted_for=3), old(tmp_path, 3, epoch=6), old(tmp_path, 4)]
    voters = "2@127.0.0.1:19002,3@10.0.0.3:9093,4@10.0.0.4:9093"
    result = adopted(new, *sources, voters=voters)
    assert (
        "- The log names other addresses. A Voters record with the new ones is added, in epoch "
        "7, led by node 2: brokers that run find them there" in result.stdout
    )
    config = load(new / "controller-4" / "node.properties", {})
    assert isinstance(config, Config)
    assert config.quorum.voters[ReplicaId(3)] == Address("10.0.0.3", 9093)
    for node_id in (2, 3, 4):
        assert QuorumStateFile(log_folder(new, node_id)).read() == ElectionState(
            Epoch(7), key(2), ReplicaId(2)
        )
        assert log_of(new, node_id).startswith(LOG)
        assert log_of(new, node_id) == log_of(new, 2)
    *_, change, named = entries(next(log_folder(new, 3).glob("*.log")))
    assert (change.offset, change.epoch, change.type) == (LOG_END, 7, "LeaderChange")
    assert (change.data["leaderId"], len(change.data["grantingVoters"])) == (2, 3)
    assert (named.offset, named.epoch, named.type) == (LOG_END + 1, 7, "KRaftVoters")
    assert [
        (voter["voterId"], voter["voterDirectoryId"], voter["endpoints"])
        for voter in named.data["voters"]
    ] == [
        (node_id, directory(node_id), ({"name": "CONTROLLER", "host": host, "port": port},))
        for node_id, host, port in (
            (2, "127.0.0.1", 19002),
            (3, "10.0.0.3", 9093),
            (4, "10.0.0.4", 9093),
        )
    ]


def test_the_same_addresses_change_nothing_about_the_log(tmp_path: Path) -> None:
    new = tmp_path / "new"
    voters = ",".join(f"{node_id}@127.0.0.1:{19000 + node_id}" for node_id in (2, 3, 4))
    result = adopted(new, old(tmp_path, 2), old(tmp_path, 3), voters=voters)
    assert "other addresses" not in result.stdout
    assert log_of(new, 2) == log_of(new, 3) == LOG


def test_a_controller_that_gets_records_of_a_later_epoch_enters_it_without_a_vote(
    tmp_path: Path,
) -> None:
    """Its own vote was for an older epoch; it could not have voted in one that it did not know."""
    later = followed_by(codec.encode(kafka_records.NoOp(), 29), epoch=5)
    sources = [old(tmp_path, 2, log=later, epoch=5), old(tmp_path, 3, voted_for=3)]
    new = tmp_path / "new"
    result = adopted(new, *sources)
    assert "- Node 3 is put into epoch 5, in which it has not voted" in result.stdout
    assert QuorumStateFile(log_folder(new, 3)).read() == ElectionState(Epoch(5), None, None)
    assert log_of(new, 3) == later


def test_a_controller_in_a_later_epoch_than_the_log_keeps_epoch_and_vote(tmp_path: Path) -> None:
    sources = [old(tmp_path, 2, epoch=8, voted_for=4), old(tmp_path, 3)]
    new = tmp_path / "new"
    assert adopted(new, *sources).exit_code == 0
    assert QuorumStateFile(log_folder(new, 2)).read() == ElectionState(
        Epoch(8), key(4), ReplicaId(3)
    )


def test_a_log_that_begins_later_comes_with_its_checkpoint(tmp_path: Path) -> None:
    sources = [
        old(tmp_path, 2, log=rest(479), start=479, checkpoints=[IN_TREE / CHECKPOINT]),
        old(tmp_path, 3, log=cut(300)),
    ]
    new = tmp_path / "new"
    result = adopted(new, *sources)
    assert result.exit_code == 0, result.stderr
    for node_id in (2, 3):
        assert sorted(path.name for path in log_folder(new, node_id).iterdir()) == [
            CHECKPOINT,
            f"{CHECKPOINT_END:020}.log",
            "partition.metadata",
            "quorum-state",
        ]
    assert "- The log begins at offset 479, and checkpoints are not served to others" in (
        result.stdout
    )
    assert "  brokers         4, 4 of them fenced\n" in result.stdout


def test_of_equal_logs_the_one_that_begins_first_is_adopted(tmp_path: Path) -> None:
    sources = [
        old(tmp_path, 2, log=rest(479), start=479, checkpoints=[IN_TREE / CHECKPOINT]),
        old(tmp_path, 3),
    ]
    new = tmp_path / "new"
    adopted(new, *sources)
    assert log_of(new, 2) == log_of(new, 3) == LOG


def test_a_half_written_batch_is_reported_and_not_copied(tmp_path: Path) -> None:
    sources = [old(tmp_path, 2, log=LOG + LOG[:50]), old(tmp_path, 3)]
    new = tmp_path / "new"
    result = adopted(new, *sources)
    assert result.exit_code == 0, result.stderr
    assert "- The log of node 2 ended half-written: 50 bytes behind offset 546 are not" in (
        result.stdout
    )
    assert log_of(new, 2) == LOG


def test_the_folders_of_the_real_cluster_are_taken_over_and_left_as_they_are(
    tmp_path: Path,
) -> None:
    new = tmp_path / "new"
    sources = [controller(node_id) for node_id in (1, 2, 3, 4)]
    result = adopted(new, *sources)
    assert result.exit_code == 0, result.stderr
    assert "4     [373, 546)  3          3               -     373@3 494@3" in result.stdout
    assert "The log of node 3 ends furthest, at offset 547 of epoch 3." in result.stdout
    whole = (controller(3) / LOG_FOLDER / f"{0:020}.log").read_bytes()
    assert all(log_of(new, node_id) == whole for node_id in (2, 3, 4))
