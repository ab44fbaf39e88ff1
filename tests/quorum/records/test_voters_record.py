from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import ReplicaId
from quorum.log.uuids import uuid_to_text
from quorum.records.batch import check
from quorum.records.control import BadControlRecord, ControlType, LeaderChange, control_type
from quorum.records.decode import decode
from quorum.records.voters import (
    Voter,
    VoterEndpoint,
    decode_kraft_version,
    decode_voters,
    encode_founding,
    encode_kraft_version,
    encode_voters,
)
from tests.support.tree import ROOT

LOG = ROOT / "tests" / "data" / "kraft-4.2.0"

endpoints = st.builds(
    VoterEndpoint, name=st.text(max_size=20), host=st.text(max_size=200), port=st.integers(0, 65535)
)
voters = st.builds(
    Voter,
    id=st.integers(0, 2**31 - 1).map(ReplicaId),
    directory_id=st.uuids(),
    endpoints=st.lists(endpoints, max_size=3).map(tuple),
    kraft_version_min=st.integers(0, 9),
    kraft_version_max=st.integers(0, 9),
)


@given(st.lists(voters, max_size=5).map(tuple))
def test_voters_survive_the_way_there_and_back(written: tuple[Voter, ...]) -> None:
    assert decode_voters(encode_voters(written)) == written


@given(st.lists(voters, min_size=1, max_size=2).map(tuple), st.data())
def test_a_voters_record_that_is_cut_is_refused(
    written: tuple[Voter, ...], data: st.DataObject
) -> None:
    value = encode_voters(written)
    with pytest.raises(BadControlRecord):
        decode_voters(value[: data.draw(st.integers(0, len(value) - 1))])


@given(st.binary(max_size=60))
def test_strange_bytes_are_refused_or_read(value: bytes) -> None:
    with suppress(BadControlRecord):
        assert encode_voters(decode_voters(value))


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
    assert encode_voters(read) == value
    assert {voter.id: uuid_to_text(voter.directory_id) for voter in read}[ReplicaId(1)] == (
        "Hb0r3ZQ2T0mW2bIYvQmZ1A"
    )
    assert read[0].endpoints == (VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=19001),)
    level = records[ControlType.KRAFT_VERSION]
    assert encode_kraft_version(decode_kraft_version(level)) == level


def test_the_first_batch_of_a_log_that_names_its_voters() -> None:
    change = LeaderChange(leader=ReplicaId(1), voters=(ReplicaId(1),), granting=(ReplicaId(1),))
    voter = Voter(id=ReplicaId(1), directory_id=UUID(int=7), endpoints=())
    batch = encode_founding(change, [voter], timestamp_ms=5)
    assert len(check(batch)) == 1
    opening, level, named = decode(batch)
    assert LeaderChange.decode(opening.value) == change
    assert decode_kraft_version(level.value) == 1
    assert decode_voters(named.value) == (voter,)
    assert all(record.control for record in (opening, level, named))
