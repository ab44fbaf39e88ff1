import io
import uuid
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.leader_change_message.v0 import data as v0
from kio.schema.leader_change_message.v1 import data as v1
from kio.serial import entity_writer

from quorum.core.vocabulary import ReplicaId
from quorum.records.batch import check, header_at
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    LeaderChange,
    control_key,
    control_name,
    control_type,
    encode_leader_change,
)
from quorum.records.decode import decode

# kio's numbers are types of their own, which plain ones are not to mypy.
V0: Any = v0
V1: Any = v1

ids = st.lists(st.integers(0, 2**31 - 1).map(ReplicaId), max_size=5).map(tuple)
CHANGE = LeaderChange(
    leader=ReplicaId(1),
    voters=(ReplicaId(1), ReplicaId(2), ReplicaId(3)),
    granting=(ReplicaId(1), ReplicaId(3)),
)


def written_by_kio(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


@given(st.integers(0, 2**31 - 1).map(ReplicaId), ids, ids)
def test_a_leader_change_is_byte_for_byte_kafkas(
    leader: ReplicaId, voters: tuple[ReplicaId, ...], granting: tuple[ReplicaId, ...]
) -> None:
    change = LeaderChange(leader=leader, voters=voters, granting=granting)
    message = V0.LeaderChangeMessage(
        version=0,
        leader_id=leader,
        voters=tuple(V0.Voter(voter_id=voter) for voter in voters),
        granting_voters=tuple(V0.Voter(voter_id=voter) for voter in granting),
    )
    assert change.encode() == written_by_kio(message)
    assert LeaderChange.decode(change.encode()) == change


def test_version_1_with_directory_ids_is_read_too() -> None:
    directory = uuid.UUID(int=5)
    message = V1.LeaderChangeMessage(
        version=1,
        leader_id=1,
        voters=tuple(V1.Voter(voter_id=i, voter_directory_id=directory) for i in (1, 2, 3)),
        granting_voters=tuple(V1.Voter(voter_id=i, voter_directory_id=None) for i in (1, 3)),
    )
    assert LeaderChange.decode(written_by_kio(message)) == CHANGE


def test_tagged_fields_of_others_are_skipped() -> None:
    value = CHANGE.encode()
    voter = b"\x00\x00\x00\x02\x00"
    tagged = value.replace(voter, b"\x00\x00\x00\x02\x01\x90\x4e\x03abc", 1)
    assert tagged != value
    assert LeaderChange.decode(tagged) == CHANGE
    assert LeaderChange.decode(value[:-1] + b"\x02\x00\x01x\x90\x4e\x00") == CHANGE


@given(st.binary(max_size=60))
def test_noise_is_refused_or_read_but_never_another_error(value: bytes) -> None:
    with suppress(BadControlRecord):
        LeaderChange.decode(value)


@pytest.mark.parametrize("length", range(len(CHANGE.encode())))
def test_a_value_that_is_cut_is_refused(length: int) -> None:
    with pytest.raises(BadControlRecord):
        LeaderChange.decode(CHANGE.encode()[:length])


def test_no_value_a_later_version_and_trailing_bytes_are_refused() -> None:
    with pytest.raises(BadControlRecord, match="0 are left"):
        LeaderChange.decode(None)
    with pytest.raises(BadControlRecord, match="version 2, known are 0 to 1"):
        LeaderChange.decode(b"\x00\x02" + CHANGE.encode()[2:])
    with pytest.raises(BadControlRecord, match="1 bytes behind its end"):
        LeaderChange.decode(CHANGE.encode() + b"\x00")


def test_the_batch_that_opens_an_epoch_holds_one_leader_change() -> None:
    batch = encode_leader_change(CHANGE, timestamp_ms=5)
    assert len(check(batch)) == 1
    assert header_at(batch).is_control
    (record,) = decode(batch)
    assert (control_type(record.key), record.timestamp_ms) == (ControlType.LEADER_CHANGE, 5)
    assert LeaderChange.decode(record.value) == CHANGE


def test_control_records_have_names_even_unknown_ones() -> None:
    names = [control_name(control_key(type_)) for type_ in ControlType]
    assert names == [
        "abort",
        "commit",
        "leader change",
        "snapshot header",
        "snapshot footer",
        "kraft version",
        "kraft voters",
    ]
    assert control_name(b"\x00\x00\x00\x07") == "control type 7"
    assert control_type(b"\x00\x01\x00\x02 and more") == ControlType.LEADER_CHANGE


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x02"])
def test_a_key_that_names_no_type_is_refused(key: bytes | None) -> None:
    with pytest.raises(BadControlRecord, match="at least 4"):
        control_type(key)


def test_a_leader_change_reads_as_a_sentence() -> None:
    assert str(CHANGE) == "leader change: 1 leads [1, 2, 3] by the votes of [1, 3]"
