"""Directory assignments: new disks, raised levels, and reports that are withheld."""

import logging
from pathlib import Path
from uuid import UUID

import pytest

from broker import assignments_manager
from broker.assignments_manager import DirectoryReport, directory_report
from broker.partition.assignment import PartitionKey
from quorum.records.decode import decode
from statemachine.commands import (
    AssignReplicasToDirs,
    ConfigChange,
    ConfigOp,
    ConfigOperation,
    DirectoryAssignment,
    ElectionType,
    ElectLeaders,
    FeatureUpdate,
    IncrementalAlterConfigs,
    UpdateFeatures,
)
from statemachine.partitions.registration import directory_of
from statemachine.vocabulary import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    METADATA_VERSION,
    NO_LEADER,
    TOPIC_RESOURCE,
)
from tests.broker.client_requests import batch, produce
from tests.broker.embedded_cluster import Brokers, cluster, until
from tests.controller.controller_in_memory import TheController

WITHOUT_ELR = 25
WITH_ELR = 29
BELOW_DIRECTORIES = 16


def values(brokers: Brokers, broker_id: int, topic: str) -> list[bytes | None]:
    log = brokers[broker_id].partition(topic).log
    return [record.value for record in decode(log.read(log.start, log.end.offset, 1 << 22))]


def said(brokers: Brokers, topic: str, broker_id: int, number: int = 0) -> UUID:
    """The directory that the metadata names for a replica."""
    return directory_of(brokers.controller.of(topic, number), broker_id)


def is_told(brokers: Brokers, topic: str, broker_id: int, number: int = 0) -> bool:
    return said(brokers, topic, broker_id, number) == brokers[broker_id].directory_id


def unassign(brokers: Brokers, broker_id: int, *topics: str, partitions: int = 1) -> None:
    """The metadata knows no more where the broker has these."""
    controller = brokers.controller
    controller.decide(
        AssignReplicasToDirs(
            broker_id=broker_id,
            broker_epoch=controller.image.brokers[broker_id].broker_epoch,
            assignments=tuple(
                DirectoryAssignment(
                    directory_id=DIRECTORY_UNASSIGNED,
                    topic_id=controller.image.topic_ids[topic],
                    partition=number,
                )
                for topic in topics
                for number in range(partitions)
            ),
        )
    )


def allow_unclean_elections(controller: TheController, topic: str) -> None:
    op = ConfigOp(
        name="unclean.leader.election.enable", operation=ConfigOperation.SET, value="true"
    )
    change = ConfigChange(resource_type=TOPIC_RESOURCE, resource_name=topic, ops=(op,))
    answer = controller.decide(IncrementalAlterConfigs(changes=(change,)))
    assert not answer.resources[0].error.code, answer


async def lose_disk(brokers: Brokers, broker_id: int) -> None:
    """The broker ends, and comes back on an empty disk."""
    await brokers.stop(broker_id)
    brokers.controller.fence(broker_id)
    await brokers.start(broker_id, disk="-new")


# --- a new disk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [WITHOUT_ELR, WITH_ELR])
async def test_a_broker_on_a_new_disk_copies_joins_the_isr_and_leads_again(
    tmp_path: Path, level: int
) -> None:
    async with cluster(tmp_path, 1, 2, level=level) as brokers:
        controller = brokers.controller
        await brokers.create("t", (1, 2))
        await produce(brokers[1], "t", batch(b"a"))
        await lose_disk(brokers, 1)
        assert controller.of("t").leader == 2
        await until(lambda: is_told(brokers, "t", 1))
        await until(lambda: set(controller.of("t").isr) == {1, 2})
        assert values(brokers, 1, "t") == [b"a"]
        controller.fence(2)
        assert controller.of("t").leader == 1
        assert (await produce(brokers[1], "t", batch(b"b"))).base_offset == 1


@pytest.mark.parametrize("level", [WITHOUT_ELR, WITH_ELR])
async def test_the_last_one_in_sync_does_not_lead_on_a_new_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    """It would lead with an empty log, and the other replica would give up what it has."""
    async with cluster(tmp_path, 1, 2, level=level) as brokers:
        controller = brokers.controller
        await brokers.create("t", (1, 2))
        await produce(brokers[1], "t", batch(b"a"))
        await until(lambda: values(brokers, 2, "t") == [b"a"])
        await brokers.stop(2)
        controller.fence(2)
        await produce(brokers[1], "t", batch(b"b"))
        old = brokers[1].directory_id
        await lose_disk(brokers, 1)
        key = brokers[1].partition("t").key
        await until(lambda: key in brokers[1].directories.withheld)
        await brokers.start(2)
        assert not controller.assigned
        assert said(brokers, "t", 1) == old
        assert controller.of("t").leader == NO_LEADER
        assert "t-0 has no leader and waits for this broker" in caplog.text

        # An operator decides to go on with what broker 2 has.
        found = ElectLeaders(election=ElectionType.UNCLEAN, partitions=(("t", 0),))
        controller.decide(found)
        assert controller.of("t").leader == 2
        await until(lambda: is_told(brokers, "t", 1) and set(controller.of("t").isr) == {1, 2})
        assert not brokers[1].directories.withheld
        assert values(brokers, 1, "t") == [b"a"]


@pytest.mark.parametrize("level", [WITHOUT_ELR, WITH_ELR])
async def test_the_old_disk_leads_again_when_it_comes_back(tmp_path: Path, level: int) -> None:
    async with cluster(tmp_path, 1, level=level) as brokers:
        await brokers.create("t", (1,))
        await produce(brokers[1], "t", batch(b"a"))
        await lose_disk(brokers, 1)
        await until(lambda: bool(brokers[1].directories.withheld))
        await brokers.stop(1)
        brokers.controller.fence(1)
        await brokers.start(1)
        assert brokers.controller.of("t").leader == 1
        assert values(brokers, 1, "t") == [b"a"]


@pytest.mark.parametrize("level", [WITHOUT_ELR, WITH_ELR])
async def test_a_loss_that_is_accepted_lets_the_new_disk_lead(tmp_path: Path, level: int) -> None:
    async with cluster(tmp_path, 1, level=level) as brokers:
        await brokers.create("t", (1,))
        await produce(brokers[1], "t", batch(b"a"))
        await lose_disk(brokers, 1)
        await until(lambda: bool(brokers[1].directories.withheld))
        assert brokers.controller.of("t").leader == NO_LEADER
        allow_unclean_elections(brokers.controller, "t")
        await until(lambda: brokers.controller.of("t").leader == 1)
        assert not brokers[1].directories.withheld
        assert (await produce(brokers[1], "t", batch(b"b"))).base_offset == 0


async def test_the_assignment_of_a_deleted_replica_is_withheld_no_longer(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await lose_disk(brokers, 1)
        await until(lambda: bool(brokers[1].directories.withheld))
        brokers.controller.delete("t")
        assert not brokers[1].directories.withheld


async def test_it_is_settled_when_the_controller_knows_and_not_before(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        controller, reporter = brokers.controller, brokers[1].directories
        await brokers.create("t", (1,))
        await until(lambda: reporter.is_settled)
        told: list[bool] = []
        reporter.on_settled = lambda: told.append(reporter.is_settled and is_told(brokers, "t", 1))
        unassign(brokers, 1, "t")
        assert not reporter.is_settled
        await until(lambda: bool(told))
        assert told[0]
        assert len(controller.assigned) == 1


async def test_a_withheld_assignment_does_not_keep_a_broker_fenced(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await lose_disk(brokers, 1)
        await until(lambda: bool(brokers[1].directories.withheld))
        assert brokers[1].directories.is_settled


# --- what the metadata does not know -------------------------------------------------------------


async def test_nothing_is_said_below_the_level_of_directories_and_all_when_it_is_raised(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, level=BELOW_DIRECTORIES) as brokers:
        controller = brokers.controller
        await brokers.create("t", (1, 2))
        assert said(brokers, "t", 1) == DIRECTORY_MIGRATING
        await lose_disk(brokers, 2)
        await until(lambda: set(controller.of("t").isr) == {1, 2})
        assert not controller.assigned
        raised = FeatureUpdate(name=METADATA_VERSION, level=WITHOUT_ELR)
        controller.decide(UpdateFeatures(updates=(raised,), controller_id=1, voters=()))
        assert controller.image.level == WITHOUT_ELR
        await until(lambda: is_told(brokers, "t", 1) and is_told(brokers, "t", 2))
        assert controller.of("t").leader == 1


async def test_many_replicas_are_told_in_bounded_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignments_manager, "ASSIGNED_PARTITIONS_MAX", 2)
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", *[(1,)] * 5)
        unassign(brokers, 1, "t", partitions=5)
        await until(lambda: all(is_told(brokers, "t", 1, number) for number in range(5)))
        assert [len(each.assignments) for each in brokers.controller.assigned] == [2, 2, 1]


async def test_an_unanswered_assignment_is_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "broker")
    async with cluster(tmp_path, 1) as brokers:
        controller = brokers.controller
        await brokers.create("t", (1,))
        port, controller.port = controller.port, 1
        unassign(brokers, 1, "t")
        await until(lambda: "AssignReplicasToDirs will be retried" in caplog.text)
        controller.port = port
        await until(lambda: is_told(brokers, "t", 1))


async def test_an_assignment_of_a_replica_that_is_gone_is_not_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, 1) as brokers:
        controller, node = brokers.controller, brokers[1]
        for topic in ("gone", "kept"):
            await brokers.create(topic, (1,))
        unassign(brokers, 1, "gone")
        node.is_held_back = True
        controller.delete("gone")
        await until(lambda: len(controller.assigned) == 1)
        node.is_held_back = False
        unassign(brokers, 1, "kept")
        await until(lambda: is_told(brokers, "kept", 1))
        kept = controller.image.topic_ids["kept"]
        assert [each.topic_id for each in controller.assigned[-1].assignments] == [kept]
        assert "was refused" not in caplog.text


async def test_an_incarnation_that_is_over_says_it_again_once_it_is_registered_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, 1) as brokers:
        controller, node = brokers.controller, brokers[1]
        await brokers.create("t", (1,))
        unassign(brokers, 1, "t")
        node.is_held_back = True
        controller.fence(1)
        epoch = controller.register(1, node.port, UUID(int=7 << 64), node.directory_id)
        await until(lambda: "STALE_BROKER_EPOCH" in caplog.text.upper())
        node.is_held_back = False
        node.learn()
        assert node.manager.broker_epoch != epoch
        node.manager.broker_epoch = epoch
        node.directories.registered()
        await until(lambda: is_told(brokers, "t", 1))
        assert controller.assigned[0].broker_epoch != epoch


# --- what is said of one replica -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("directory_id", "expected"),
    [
        (DIRECTORY_MIGRATING, DirectoryReport.REPORT),
        (DIRECTORY_UNASSIGNED, DirectoryReport.REPORT),
        (DIRECTORY_LOST, DirectoryReport.WITHHELD),
        (UUID(int=9 << 64), DirectoryReport.WITHHELD),
    ],
)
def test_a_replica_that_is_waited_for_is_spoken_of_where_nothing_real_was_known(
    directory_id: UUID, expected: DirectoryReport
) -> None:
    controller = TheController()
    own, other = UUID(int=7 << 64), UUID(int=8 << 64)
    epochs = [
        controller.register(each, 9092, UUID(int=each << 70), directory)
        for each, directory in ((1, own), (2, other))
    ]
    key = PartitionKey(controller.create("t", (1, 2)), 0)
    assert directory_report(controller.image, key, 1, own) is DirectoryReport.KNOWN
    assert directory_report(controller.image, key, 3, own) is DirectoryReport.KNOWN
    controller.fence(2)
    controller.fence(1)
    asked = DirectoryAssignment(directory_id=directory_id, topic_id=key.topic_id, partition=0)
    controller.decide(
        AssignReplicasToDirs(broker_id=1, broker_epoch=epochs[0], assignments=(asked,))
    )
    assert directory_report(controller.image, key, 1, own) is expected
    # Broker 2 left the ISR before broker 1: nobody waits for it.
    assert directory_report(controller.image, key, 2, own) is DirectoryReport.REPORT
    assert (
        directory_report(controller.image, PartitionKey(UUID(int=1), 0), 1, own)
        is DirectoryReport.KNOWN
    )
