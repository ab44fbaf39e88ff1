"""Levels of features that are in force and that a controller does not support."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import convert

from admin.client.admin_client import AdminClient
from admin.faults import Refused
from quorum.core.messages import AddVoterRequest, Error
from quorum.core.vocabulary import Offset, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter
from quorum.metadata_loader import MetadataLoader
from quorum.persistent_state import LISTENER_NAME
from quorum.ports import LogFailure
from quorum.records.encode import encode as batch
from statemachine.commands import Done, RegisterController
from statemachine.features.features import RANGES, unsupported_reason
from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import Loading
from statemachine.limits import METADATA_VERSION_MAX
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from tests.controller.controller_commands import asked
from tests.quorum.driver.test_committed_records import Log
from tests.support.controllers import active, controllers

ABOVE = METADATA_VERSION_MAX + 1
SENTENCE = (
    f"metadata.version {ABOVE} is in force, this release of metaquorum supports 15 to"
    f" {METADATA_VERSION_MAX} (3.7-IV0 to 4.3-IV0). Start a newer release, the one that the other"
    " nodes run or the one that wrote this log; until then the data folder stays as it is"
)
LEVEL = encode(kafka_records.FeatureLevel(name="metadata.version", level=ABOVE), 29)
NEW_VERSION = b"\x01\x00\x09"
"""The begin of a record of a version that comes with a later level."""


WAITING_MS = 200


def a_loader() -> MetadataLoader[Image]:
    return MetadataLoader(
        Image(),
        replay=replay_values,
        load_snapshot=Loading,
        refusal=lambda image: unsupported_reason(image.features),
    )


def failure(values: Sequence[bytes], *, by_snapshot: bool) -> str:
    """Return the failure that ends a controller that follows these records."""
    loader, log = a_loader(), Log()
    log.put(batch(list(values), timestamp_ms=5))
    if by_snapshot:
        loader.load(iter(values), Offset(len(values)))
    else:
        loader.raise_to(Offset(len(values)))
    with pytest.raises(LogFailure) as failed:
        loader.go_on(log)
    return str(failed.value)


@pytest.mark.parametrize("by_snapshot", [False, True])
@pytest.mark.parametrize("after", [(), (NEW_VERSION,)], ids=["alone", "with-records"])
def test_whoever_cannot_follow_stops_with_a_sentence(
    after: tuple[bytes, ...], *, by_snapshot: bool
) -> None:
    assert failure((LEVEL, *after), by_snapshot=by_snapshot) == SENTENCE


def test_an_unknown_version_of_a_record_alone_names_the_record() -> None:
    said = failure((NEW_VERSION,), by_snapshot=False)
    assert said.startswith(
        "what is committed from offset 0 on cannot be read: version 9 of record type 0"
        " (RegisterBroker) is not known, only 0 to 4. Start the release that"
    )


def registered(
    voter: int, highest: int = METADATA_VERSION_MAX - 1
) -> kafka_records.RegisterController:
    """A controller that supports metadata.version up to a level."""
    ranges = [each for each in RANGES if each.name != "metadata.version"]
    version = kafka_records.FeatureRange(
        name="metadata.version", min_supported=15, max_supported=highest
    )
    return kafka_records.RegisterController(
        controller_id=voter,
        incarnation_id=UUID(int=voter),
        endpoints=(),
        features=(version, *ranges),
    )


async def test_a_controller_that_does_not_support_a_level_in_force_is_no_voter(
    tmp_path: Path,
) -> None:
    """Neither AddRaftVoter nor AlterQuorum makes it one."""
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        leader = await active(nodes.values())
        command = convert(registered(2), RegisterController, from_attributes=True)
        assert await asked(leader.controller, command) == Done()
        async with AdminClient([leader.address], is_controller=True) as client:
            wanted = (
                f"metadata.version {METADATA_VERSION_MAX} is in force, and controller 2 supports 15"
                f" to {METADATA_VERSION_MAX - 1} of it, so it could not follow the log"
            )
            with pytest.raises(Refused, match=wanted):
                await client.alter_voters(keys(1, 2))
            voter = ReplicaKey(ReplicaId(2), UUID(int=2))
            with pytest.raises(Refused, match=wanted):
                await client.add_voter(voter, [(LISTENER_NAME, leader.address)])
        assert {each.id for each in leader.opened.quorum.node.voters} == {1}


async def test_a_controller_that_has_not_registered_its_levels_is_not_added(
    tmp_path: Path,
) -> None:
    """It is judged once it has: nobody knows before whether it could follow the log."""
    async with controllers(tmp_path, 1, observers=(2,), kraft_version=1) as nodes:
        leader = await active(nodes.values())
        voter, place = nodes[2].opened.quorum.node.me, nodes[2].address
        endpoints = (Endpoint(LISTENER_NAME, *place),)
        response = await leader.service.want_voters(
            "User:tester", AddVoterRequest(voter=Voter(voter, endpoints), timeout_ms=WAITING_MS)
        )
        assert response.error is Error.REQUEST_TIMED_OUT
        assert response.text is not None
        assert response.text.startswith("not done in time: controller 2 has not registered")
        assert {each.id for each in leader.opened.quorum.node.voters} == {1}
        async with (
            AdminClient([leader.address], is_controller=True) as client,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(client.add_voter(voter, [(LISTENER_NAME, place)]))
            assert await asked(leader.controller, nodes[2].controller.registration) == Done()
        assert {each.id for each in leader.opened.quorum.node.voters} == {1, 2}


def keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(ReplicaKey(ReplicaId(each)) for each in ids)
