from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import Epoch, Offset, ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.records.batch import check
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    LeaderChange,
    assignment_in,
    cluster_id_in,
    control_type,
    decode_kraft_version,
    decode_voters,
    encode_assignment,
    encode_leader_change,
    encode_voters,
)
from quorum.records.decode import decode
from quorum.records.encode import encode, stamp
from tests.support.tree import ROOT

LOG = ROOT / "tests" / "data" / "kraft-4.2.0"

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"

endpoints = st.builds(
    Endpoint, name=st.text(max_size=20), host=st.text(max_size=200), port=st.integers(0, 65535)
)
keys = st.builds(
    ReplicaKey, id=st.integers(0, 2**31 - 1).map(ReplicaId), directory_id=st.uuids(allow_nil=True)
)
voters = st.builds(
    Voter,
    key=keys,
    endpoints=st.lists(endpoints, max_size=3).map(tuple),
    kraft_version_min=st.integers(0, 9),
    kraft_version_max=st.integers(0, 9),
)
voter_sets = st.lists(voters, min_size=1, max_size=5, unique_by=lambda each: each.id)
targets = st.lists(keys, min_size=1, max_size=5, unique_by=lambda each: each.id)
assignments = st.builds(
    VoterAssignment,
    current=voter_sets.map(lambda each: VoterSet(tuple(each))),
    target=st.none() | targets.map(tuple),
)
cluster_ids = st.none() | st.text(max_size=30)


@given(assignments, cluster_ids)
def test_voters_survive_the_way_there_and_back(
    written: VoterAssignment, cluster_id: str | None
) -> None:
    value = encode_voters(written, cluster_id)
    assert decode_voters(value) == written
    assert cluster_id_in(encode_assignment(written, cluster_id, timestamp_ms=5)) == cluster_id


@given(assignments, cluster_ids, st.data())
def test_a_voters_record_that_is_cut_is_refused(
    written: VoterAssignment, cluster_id: str | None, data: st.DataObject
) -> None:
    value = encode_voters(written, cluster_id)
    with pytest.raises(BadControlRecord):
        decode_voters(value[: data.draw(st.integers(0, len(value) - 1))])


def test_a_voter_that_is_named_twice_is_refused() -> None:
    one = encode_voters(VoterAssignment(VoterSet.of(1)), None)
    voter = one[3:-1]
    with pytest.raises(BadControlRecord, match="voter 1 is named twice"):
        decode_voters(one[:2] + b"\x03" + voter + voter + b"\x00")


def test_tagged_fields_that_are_not_known_are_skipped() -> None:
    value = encode_voters(VoterAssignment(VoterSet.of(1)), None)
    assert value.endswith(b"\x00")
    tagged = value[:-1] + b"\x01" + b"\x05" + b"\x03abc"
    assert decode_voters(tagged) == VoterAssignment(VoterSet.of(1))


@given(st.binary(max_size=60))
def test_strange_bytes_are_refused_or_read(value: bytes) -> None:
    with suppress(BadControlRecord):
        assert encode_voters(decode_voters(value), None)


@pytest.mark.parametrize("value", [None, b"", b"\x00\x01\x00\x01\x00"])
def test_a_strange_kraft_version_is_refused(value: bytes | None) -> None:
    with pytest.raises(BadControlRecord, match="kraft version record"):
        decode_kraft_version(value)


def kafka_control_records() -> dict[int, bytes]:
    (log,) = LOG.rglob("*0000.log")
    found: dict[int, bytes] = {}
    for record in decode(Path(log).read_bytes()):
        if record.control:
            assert record.value is not None
            found.setdefault(int(control_type(record.key)), record.value)
    return found


def test_kafkas_own_records_are_read_and_written_byte_for_byte() -> None:
    records = kafka_control_records()
    value = records[ControlType.KRAFT_VOTERS]
    read = decode_voters(value)
    assert encode_voters(read, None) == value
    first = read.current.voters[0]
    assert uuid_to_text(first.key.directory_id) == "Hb0r3ZQ2T0mW2bIYvQmZ1A"
    assert first.endpoints == (Endpoint(name="CONTROLLER", host="127.0.0.1", port=19001),)
    change = LeaderChange(leader=ReplicaId(1), voters=(ReplicaId(1),), granting=(ReplicaId(1),))
    _, level, _ = decode(encode_leader_change(change, read, timestamp_ms=5))
    assert level.value == records[ControlType.KRAFT_VERSION]


def test_the_first_batch_of_a_log_that_names_its_voters() -> None:
    change = LeaderChange(leader=ReplicaId(1), voters=(ReplicaId(1),), granting=(ReplicaId(1),))
    founders = VoterAssignment(VoterSet((Voter(ReplicaKey(ReplicaId(1), UUID(int=7))),)))
    batch = encode_leader_change(change, founders, CLUSTER_ID, timestamp_ms=5)
    (outline,) = check(batch, assignment_in=assignment_in)
    assert outline.assignment == founders
    opening, level, named = decode(batch)
    assert LeaderChange.decode(opening.value) == change
    assert decode_kraft_version(level.value) == 1
    assert decode_voters(named.value) == founders
    assert cluster_id_in(batch) == CLUSTER_ID
    assert all(record.control for record in (opening, level, named))


def test_a_fetched_batch_that_names_voters_says_so_in_its_outline() -> None:
    """The others are not looked into: an outline of data is what it was."""
    assignment = VoterAssignment(VoterSet.of(1, 2), (ReplicaKey(ReplicaId(2)),))
    named = encode_assignment(assignment, CLUSTER_ID, timestamp_ms=5)
    data = encode([b"word"], timestamp_ms=5)
    stamp(data, Offset(0), Epoch(1))
    stamp(named, Offset(1), Epoch(1))
    plain, found = check(bytes(data + named), assignment_in=assignment_in)
    assert plain.assignment is None
    assert found.assignment == assignment


def test_kafkas_own_log_says_who_voted_when() -> None:
    (log,) = LOG.rglob("*0000.log")
    batches = check(Path(log).read_bytes(), assignment_in=assignment_in)
    found = [(each.base, each.assignment) for each in batches if each.assignment is not None]
    assert [(base, each.current.sorted(), each.target) for base, each in found] == [
        (0, (1, 2, 3), None),
        (493, (1, 2, 3, 4), None),
        (499, (2, 3, 4), None),
    ]
