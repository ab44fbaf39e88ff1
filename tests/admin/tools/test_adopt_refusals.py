"""`metaquorum adopt`: its refusals, which leave nothing behind."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from admin.tools.adopt.source import _at_rest
from admin.tools.adopt.writer import WORK
from quorum.core.vocabulary import ElectionState, Epoch
from quorum.log.errors import FolderInUse
from quorum.log.filesystem import FolderLock
from quorum.log.quorum_state import QuorumStateFile
from quorum.persistent_state import LOG_FOLDER
from statemachine.records import codec, kafka_records
from tests.admin.tools.adopted_folders import adopt, adopted, refused
from tests.admin.tools.old_controllers import LOG, LOG_END, cut, followed_by, old, without_voters
from tests.support.real_cluster import CLUSTER_ID


def test_a_damaged_log_is_refused_by_its_own_name_with_byte_and_offset(tmp_path: Path) -> None:
    data = bytearray(LOG)
    data[700] ^= 0xFF
    sources = [old(tmp_path, 2, log=bytes(data)), old(tmp_path, 3)]
    said = refused(tmp_path / "new", *sources)
    log = sources[0] / LOG_FOLDER / f"{0:020}.log"
    assert said.startswith(f"{log} is damaged at byte 622, offset 12: its checksum is ")


def test_no_majority_of_the_voters_is_refused(tmp_path: Path) -> None:
    """Controller 1 does not vote any more, so its folder does not help."""
    said = refused(tmp_path / "new", old(tmp_path, 2), old(tmp_path, 1))
    assert said == (
        "the folders given are those of voters 2 out of 2, 3, 4: no majority, and so nothing "
        "guarantees that they hold every committed record; add folders of 3, 4"
    )


def test_a_majority_is_counted_by_the_last_voters_in_the_log(tmp_path: Path) -> None:
    """At 499 it names voters 2 to 4 in place of 1 to 4."""
    before = [old(tmp_path / "before", node_id, log=cut(499)) for node_id in (3, 4)]
    said = refused(tmp_path / "new", *before)
    assert said.startswith("the folders given are those of voters 3, 4 out of 1, 2, 3, 4: no maj")
    after = [old(tmp_path / "after", node_id, log=cut(500)) for node_id in (3, 4)]
    assert adopted(tmp_path / "new", *after).exit_code == 0


def test_folders_of_two_clusters_are_refused(tmp_path: Path) -> None:
    other = "AAAAAAAAAAAAAAAAAAAAAA"
    sources = [old(tmp_path, 2), old(tmp_path, 3, cluster_id=other)]
    assert refused(tmp_path / "new", *sources) == (
        f"{sources[0]} is of cluster {CLUSTER_ID}, {sources[1]} of cluster {other}: give the "
        "folders of one cluster"
    )


def test_two_folders_of_one_node_are_refused(tmp_path: Path) -> None:
    sources = [old(tmp_path / "a", 2), old(tmp_path / "b", 2)]
    said = refused(tmp_path / "new", *sources)
    assert said.startswith(f"{sources[0]} and {sources[1]} are both of node 2: give one folder of")


def test_a_voter_with_another_directory_is_refused(tmp_path: Path) -> None:
    sources = [old(tmp_path, 2), old(tmp_path, 3, directory="IEutoBUVydmCS5VDR4LmSw")]
    said = refused(tmp_path / "new", *sources)
    assert said.startswith(f"{sources[1]} is directory IEutoBUVydmCS5VDR4LmSw, but voter 3 is the")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda s: (s / "meta.properties").unlink(), "{s} has no meta.properties: name the folder"),
        (
            lambda s: (s / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=x\n"),
            "{s}/meta.properties: it has no directory.id. A controller of Kafka 3.7 or newer",
        ),
        (
            lambda s: (s / "meta.properties").write_text("version=0\nbroker.id=2\n"),
            "{s}/meta.properties: ",
        ),
        (
            lambda s: (s / LOG_FOLDER / "quorum-state").unlink(),
            "{s}/__cluster_metadata-0 has no quorum-state: how this controller voted is not known",
        ),
        (
            lambda s: (s / LOG_FOLDER / "quorum-state").write_text("{}"),
            "{s}/__cluster_metadata-0/quorum-state: not the state of an election",
        ),
        (
            lambda s: QuorumStateFile(s / LOG_FOLDER).write(ElectionState(Epoch(2))),
            "{s}/__cluster_metadata-0/quorum-state is of epoch 2, the log beside it has records "
            "of epoch 3: an older one was put back",
        ),
        (
            lambda s: (s / LOG_FOLDER / "00000000000000000600-0000000003.checkpoint").touch(),
            "{s}/__cluster_metadata-0/00000000000000000600-0000000003.checkpoint: it ends at "
            "offset 600, but the log beside it ends at 546 already",
        ),
        (
            lambda s: (s / LOG_FOLDER / f"{0:020}.log").rename(s / LOG_FOLDER / f"{7:020}.log"),
            "{s}/__cluster_metadata-0/00000000000000000007.log is damaged at byte 0",
        ),
    ],
)
def test_a_folder_that_cannot_be_trusted_is_refused_by_name(
    spoil: Callable[[Path], object], why: str, tmp_path: Path
) -> None:
    source = old(tmp_path, 2)
    spoil(source)
    said = refused(tmp_path / "new", source, old(tmp_path, 3))
    assert said.startswith(why.format(s=source)), said


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    result = adopt(missing, "--dir", tmp_path / "new")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {missing} has no meta.properties")


def test_a_folder_that_a_process_has_locked_is_refused(tmp_path: Path) -> None:
    """As a running controller of Kafka locks it: with a record lock on `.lock`."""
    source = old(tmp_path, 2)
    holder = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(source / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        said = refused(tmp_path / "new", source, old(tmp_path, 3))
        process.communicate(b"")
    assert said == (f"{source}/.lock is locked: a process uses {source}; stop the controller first")


def test_the_folder_of_a_running_controller_of_ours_is_refused(tmp_path: Path) -> None:
    """Two controllers with one vote could give the cluster two histories."""
    source = old(tmp_path, 2)
    lock = FolderLock(source / LOG_FOLDER)
    said = refused(tmp_path / "new", source, old(tmp_path, 3))
    assert said == (
        f"{source / LOG_FOLDER}/.lock is locked: a process uses {source}; stop the controller first"
    )
    lock.release()
    assert adopted(tmp_path / "new", source, old(tmp_path / "other", 3)).exit_code == 0


def test_no_controller_of_ours_starts_while_its_folder_is_copied(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    FolderLock(source / LOG_FOLDER).release()
    with _at_rest(source), pytest.raises(FolderInUse):
        FolderLock(source / LOG_FOLDER)


def test_the_new_folder_must_be_empty_and_outside_of_the_old_ones(tmp_path: Path) -> None:
    source = old(tmp_path, 2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    result = adopted(tmp_path / "full", source)
    assert result.exit_code == 1
    assert result.stderr == f"Error: --dir {tmp_path / 'full'} is not empty: name a new folder\n"
    said = refused(source / "new", source)
    assert said == f"--dir {source / 'new'} lies in {source}, which is not to be changed"


def test_what_a_killed_run_has_left_is_replaced_and_one_that_works_is_left_alone(
    tmp_path: Path,
) -> None:
    sources, work = [old(tmp_path, 2), old(tmp_path, 3)], tmp_path / "new" / WORK
    (work / "source-0").mkdir(parents=True)
    (work / "source-0" / "meta.properties").touch()
    lock = FolderLock(work)
    result = adopted(tmp_path / "new", *sources)
    assert result.exit_code == 1
    assert f"{work}/.lock" in result.stderr
    assert (work / "source-0" / "meta.properties").exists()
    lock.release()
    assert adopted(tmp_path / "new", *sources).exit_code == 0
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [
        *("controller-2", "controller-3")
    ]


def test_voters_that_are_not_those_of_the_log_are_refused(tmp_path: Path) -> None:
    said = refused(
        tmp_path / "new", old(tmp_path, 2), old(tmp_path, 3), voters="2@127.0.0.1:1,3@127.0.0.1:2"
    )
    assert said == (
        "--voters names 2, 3, but by the log 2, 3, 4 vote: name the same ids, with the addresses "
        "that they are to have"
    )


def test_the_operator_names_the_voters_if_the_log_does_not(tmp_path: Path) -> None:
    """As in a cluster with controller.quorum.voters and kraft.version 0."""
    sources = [old(tmp_path, node_id, log=without_voters()) for node_id in (2, 3)]
    assert refused(tmp_path / "new", *sources) == (
        "the log names no voters: give --voters, as in the old controller.quorum.voters"
    )
    voters = ",".join(f"{node_id}@127.0.0.1:{19000 + node_id}" for node_id in (1, 2, 3))
    result = adopted(tmp_path / "new", *sources, voters=voters)
    assert result.exit_code == 0, result.stderr
    assert "kraft.version 0" in result.stdout
    assert "2      -          127.0.0.1:19002  " in result.stdout
    assert "The voters are those of the log" not in result.stdout


@pytest.mark.parametrize("voters", ["2", "2@127.0.0.1", "2@127.0.0.1:1,2@127.0.0.1:2"])
def test_a_list_of_voters_that_is_none_is_a_mistake_of_usage(voters: str, tmp_path: Path) -> None:
    result = adopt(tmp_path, "--dir", tmp_path / "new", "--voters", voters)
    assert result.exit_code == 2
    assert "Invalid value for '--voters'" in result.stderr


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    sources = [old(tmp_path, node_id, log=b"", epoch=0) for node_id in (2, 3)]
    said = refused(tmp_path / "new", *sources)
    assert said.startswith("no folder holds a record: there is nothing to take over. Start ")


ACCESS = kafka_records.AccessControlEntry(
    id=UUID(int=1),
    resource_type=2,
    resource_name="orders",
    pattern_type=3,
    principal="User:alice",
    host="*",
    operation=3,
    permission_type=3,
)
SCRAM = kafka_records.UserScramCredential(
    name="bob", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)
TOKEN = kafka_records.DelegationToken(
    owner="User:carol",
    requester="User:carol",
    renewers=(),
    issue_timestamp_ms=1,
    max_timestamp_ms=2,
    expiration_timestamp_ms=2,
    token_id="t1",
)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (
            codec.encode(kafka_records.ZkMigrationState(state=1), 29),
            "migration from ZooKeeper: state 1: finish it with Kafka first",
        ),
        (
            codec.encode(kafka_records.FeatureLevel(name="metadata.version", level=31), 29),
            "metadata.version 31 is in force, this release of metaquorum supports 15 to 30 "
            "(3.7-IV0 to 4.3-IV0): take a release that supports 31. Kafka lowers no level below "
            "one that changed records (30 did, so it stays at 30 or above)",
        ),
        (
            codec.encode(kafka_records.FeatureLevel(name="flying.version", level=1), 29),
            "flying.version 1 is in force, a feature that this release of metaquorum does not "
            "know: take a release that knows it, or lower the level with kafka-features.sh while "
            "Kafka's controllers run",
        ),
        (
            bytes((1, 99, 0, 0)),
            "1 records of type 99, which is not known (the first at offset 546): what they say "
            "would be lost",
        ),
    ],
)
def test_acls_credentials_and_tokens_are_refused_by_name(
    value: bytes, why: str, tmp_path: Path
) -> None:
    log = followed_by(value)
    sources = [old(tmp_path, node_id, log=log) for node_id in (2, 3)]
    assert refused(tmp_path / "new", *sources) == f"not supported: {why}"


def test_a_record_of_a_version_that_is_not_known_is_refused(tmp_path: Path) -> None:
    log = followed_by(bytes((1, 2, 9)))
    said = refused(tmp_path / "new", *(old(tmp_path, n, log=log) for n in (2, 3)))
    assert said == (
        f"the record at offset {LOG_END} cannot be read: version 9 of record type 2 (Topic) is "
        "not known, only 0 to 0; a newer version of this program may know it"
    )


def test_acls_credentials_and_tokens_are_taken_over_and_counted(tmp_path: Path) -> None:
    gone = kafka_records.RemoveAccessControlEntry(id=UUID(int=2))
    other = replace(ACCESS, id=UUID(int=2))
    records: list[kafka_records.Record] = [ACCESS, other, gone, SCRAM, TOKEN]
    log = followed_by(*(codec.encode(record, 29) for record in records))
    result = adopted(tmp_path / "new", *(old(tmp_path, n, log=log) for n in (2, 3)))
    assert result.exit_code == 0, result.stderr
    assert "  ACLs            1\n  SCRAM           1\n  tokens          1\n" in result.stdout
