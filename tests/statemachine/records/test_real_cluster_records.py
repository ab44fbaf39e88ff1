"""Our readers against a real Kafka 4.2 cluster: its files, and the output of its tools."""

from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from msgspec import Struct
from msgspec.structs import replace

from statemachine import commands
from statemachine.decide import decide
from statemachine.image.image import Image
from statemachine.image.snapshot import load
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.replay import replay
from tests.statemachine.support.kafka_files import (
    HERE,
    data_records,
    dumped,
    kafka_uuid,
    shared_testdata,
)
from tests.statemachine.support.reference_checks import check_partition, contents, indexed, scanned

LEVEL: Final = 29
LOG: Final = "00000000000000000000.log"

# Kafka's name where it is not ours in camel case.
NAMES: Final = {
    "endpoints": "endPoints",
    "removing": "removingReplicas",
    "adding": "addingReplicas",
    "elr": "eligibleLeaderReplicas",
    "level": "featureLevel",
    "min_supported": "minSupportedVersion",
    "max_supported": "maxSupportedVersion",
    "recovery": "leaderRecoveryState",
}
# The dump leaves out tagged fields with their default, and we have some of our own.
TAGGED: Final = {
    "recovery": 0,
    "elr": (),
    "last_known_elr": (),
    "target": (),
    "original": (),
    "base": (),
    "move": 0,
    "step": 0,
    "since_ms": 0,
    "fenced": 0,
    "in_controlled_shutdown": 0,
}

REGISTERED: Final = {
    "registered_at": None,
    "stopping_at": None,
    "cordoned_log_dirs": None,
    "cordoned": False,
    "leaving": False,
    "fenced_at_ms": None,
}


def as_dumped(value: Any) -> Any:
    """A record as Kafka's dump tool would print it."""
    match value:
        case UUID():
            return kafka_uuid(value)
        case tuple():
            return [as_dumped(item) for item in value]
        case Struct():
            return {
                _camel_case(name): as_dumped(content)
                for name in value.__struct_fields__
                if not _left_out(value, name, content := getattr(value, name))
            }
        case _:
            return value


def _left_out(record: Struct, name: str, content: Any) -> bool:
    match record:
        case kafka_records.PartitionChange():
            return content is None
        case kafka_records.BrokerRegistrationChange():
            return not content
        case kafka_records.RegisterBroker() if name in REGISTERED:
            return bool(content == REGISTERED[name])
        case kafka_records.Partition():
            return name in TAGGED and content == TAGGED[name]
        case _:
            return False


def _camel_case(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def files(pattern: str) -> list[Path]:
    """The shared files that match."""
    root = shared_testdata()
    return [] if root is None else sorted(root.glob(pattern))


def check_records_against_dump(path: Path, dump: dict[int, dict[str, Any]]) -> None:
    """Every record is read as Kafka reads it, and written as Kafka wrote it."""
    read = data_records(path)
    assert [record.offset for record in read] == sorted(dump)
    for offset, value in read:
        record = decode(value)
        assert not isinstance(record, kafka_records.Unknown), dump[offset]
        assert as_dumped(record) == dump[offset]["data"], offset
        assert encode(record, LEVEL) == value, dump[offset]


def test_a_real_log_is_read_as_kafka_dumps_it_and_written_as_kafka_wrote_it() -> None:
    check_records_against_dump(HERE / LOG, dumped(HERE / f"{LOG}.dump.txt.gz"))


def test_every_file_of_the_real_cluster_is_read_and_written_alike() -> None:
    dumps = files("controller-*/__cluster_metadata-0/*.dump.txt")
    if not dumps:
        pytest.skip("no shared testdata: set METAQUORUM_TESTDATA to read all controllers' files")
    for dump in dumps:
        check_records_against_dump(dump.parent / dump.name.removesuffix(".dump.txt"), dumped(dump))


def replayed(path: Path, *, below: int, image: Image | None = None) -> Image:
    """The image after the records of a log whose offsets are below this one."""
    image = image or Image()
    for offset, value in data_records(path):
        if image.end_offset <= offset < below:
            replay(image, decode(value), offset)
    assert indexed(image) == scanned(image)
    return image


def loaded(snapshot: Path) -> Image:
    """The image that a snapshot holds."""
    end_offset = int(snapshot.name.partition("-")[0])
    image = load((value for _, value in data_records(snapshot)), end_offset)
    assert image.end_offset == end_offset
    return image


def comparable(image: Image) -> dict[str, Any]:
    """The facts on which a log and a snapshot of it must agree.

    A snapshot does not say at which offset a broker registered, and its end may lie behind the
    last data record.
    """
    found = contents(image)
    del found["end_offset"]
    found["brokers"] = {
        broker_id: replace(
            broker, registered_at=0, stopping_at=None if broker.stopping_at is None else 0
        )
        for broker_id, broker in image.brokers.items()
    }
    return found


def check_snapshot_against_log(snapshot: Path, log: Path) -> None:
    """Kafka's own snapshot of its image is the image that we replay, every epoch included."""
    ours = replayed(log, below=int(snapshot.name.partition("-")[0]))
    assert comparable(ours) == comparable(loaded(snapshot))


@pytest.mark.parametrize("snapshot", sorted(path.name for path in HERE.glob("*.checkpoint")))
def test_replaying_a_real_log_gives_kafkas_own_snapshot(snapshot: str) -> None:
    check_snapshot_against_log(HERE / snapshot, HERE / LOG)


def test_a_log_and_each_of_its_snapshots_end_in_the_same_image() -> None:
    snapshots = files("controller-[123]/*/*.checkpoint")
    if not snapshots:
        pytest.skip("no shared testdata: set METAQUORUM_TESTDATA to read all controllers' files")
    for snapshot in snapshots:
        log = snapshot.parent / LOG
        check_snapshot_against_log(snapshot, log)
        from_start = replayed(log, below=10**6)
        from_snapshot = replayed(log, below=10**6, image=loaded(snapshot))
        assert comparable(from_snapshot) == comparable(from_start)


def test_the_image_of_the_real_cluster_agrees_with_the_output_of_its_tools() -> None:
    """The story of the cluster: `orders` was reassigned, `payments` deleted, 104 came back."""
    image = replayed(HERE / LOG, below=506)
    orders = image.topic_named("orders")
    assert orders is not None
    assert [(p.leader, p.replicas, p.isr) for _, p in orders.existing()] == [
        (103, (103, 104), (104, 103)),
        (101, (104, 101), (104, 101)),
        (103, (103, 104), (104, 103)),
        (101, (101, 102, 103), (101, 102, 103)),
    ]
    assert image.topic_named("payments") is not None
    assert not image.index.moving
    assert sorted(image.controllers) == [1, 2, 3, 4]
    assert image.brokers[104].broker_epoch == 447
    assert image.next_producer_id == 1000
    assert image.level == LEVEL
    after = replayed(HERE / LOG, below=10**6)
    assert list(after.topic_ids) == ["orders"]
    assert all(broker.fenced for broker in after.brokers.values())


def test_our_controller_goes_on_where_kafkas_stopped() -> None:
    """All brokers are fenced in the end. One comes back, and what is asked of it is decided."""
    image = replayed(HERE / LOG, below=10**6)

    def ask(command: commands.Command) -> tuple[kafka_records.Record, ...]:
        decided = decide(image, command).records
        for record in decided:
            replay(image, decode(encode(record, LEVEL)), image.end_offset)
        for topic in image.topics.values():
            for _, partition in topic.existing():
                check_partition(partition)
        return tuple(decided)

    back = commands.RegisterBroker(
        broker_id=102,
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        our_cluster_id="4L6g3nShT-eMCtK--X86sw",
        incarnation_id=UUID(int=102),
        endpoints=image.brokers[102].endpoints,
        features=image.brokers[102].features,
        log_dirs=image.brokers[102].log_dirs,
    )
    assert ask(back)
    epoch = image.brokers[102].broker_epoch
    assert ask(commands.BrokerHeartbeat(broker_id=102, broker_epoch=epoch, metadata_offset=epoch))
    new = commands.NewTopic(
        name="new", topic_id=UUID(int=5 << 80), partition_count=3, replication_factor=1
    )
    assert len(ask(commands.CreateTopics(topics=(new,)))) == 4
    move = commands.Reassignment(topic="orders", partition=0, replicas=(102, 103))
    # The move begins, its plan, and the change of the partition.
    assert len(ask(commands.AlterReassignments(reassignments=(move,)))) == 3
    assert ask(commands.FenceBrokers(broker_ids=(102,)))
