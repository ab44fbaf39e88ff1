"""Kafka's own log dumper on logs that we write, and our dump of the same files beside it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct
from msgspec.structs import replace

from admin.tools.dump import Entry, entries
from admin.tools.kafka_runtime import RELEASES
from quorum.core.vocabulary import Epoch, Offset
from quorum.persistent_state import LOG_FOLDER
from quorum.records.encode import encode, stamp
from statemachine import commands
from statemachine.features.features import RANGES
from statemachine.records import codec, kafka_records
from tests.admin.tools.test_dump_real_files import as_dumped
from tests.controller.controller_commands import asked, heartbeat, isr, move, registration, topic
from tests.statemachine.support.kafka_schemas import KAFKA, NESTED, Row
from tests.support.controllers import a_controller
from tests.support.kafka_tools import dump_log
from tests.support.real_cluster import NOT_DECODED, Dumped, dumped

pytestmark = pytest.mark.process

UNDECODED = re.compile(r"payload: (?!\{\"type\")|skipping|[Ee]rror|Could not")


def check_alike(version: str, file: Path) -> list[Dumped]:
    """Both dumps of the file say the same, and every batch is valid; returns what they say."""
    text = dump_log(version, file)
    assert not UNDECODED.search(text), text
    assert text.count("isvalid: true") == text.count("baseOffset: ") > 0, text
    theirs = [_redacted(each) for each in dumped(text)]
    ours = [_without_extra(entry) for entry in entries(file)]
    told = [
        own._replace(type="controlType", version=NOT_DECODED, data={})
        if other.version == NOT_DECODED
        else own
        for own, other in zip(ours, theirs, strict=True)
    ]
    assert told == theirs
    return ours


def _redacted(record: Dumped) -> Dumped:
    """Return a record of Kafka's dump without the secrets of a credential, which it prints."""
    secrets = dict.fromkeys(("salt", "storedKey", "serverKey"), "(redacted)")
    is_secret = record.type == "USER_SCRAM_CREDENTIAL_RECORD"
    return record._replace(data={**record.data, **secrets}) if is_secret else record


def _without_extra(entry: Entry) -> Dumped:
    """Our output for a record, without our own additions."""
    return as_dumped(replace(entry, extra={}))


@pytest.mark.parametrize("version", RELEASES)
async def test_a_log_of_our_controllers_is_decoded_by_kafkas_dumper(
    version: str, tmp_path: Path
) -> None:
    level = RELEASES[version].founded_at
    async with a_controller(tmp_path, metadata_version=level) as node:
        controller = node.controller
        for broker_id in (101, 102, 103):
            await asked(controller, replace(registration(broker_id), features=RANGES))
            await asked(controller, heartbeat(controller, broker_id))
        await asked(
            controller, topic("orders", 101, 102, partitions=3, configs=(("retention.ms", "1000"),))
        )
        await asked(controller, move("orders", 102, 103))
        await asked(controller, isr(controller, "orders", (101, 102, 103)))
        whither = commands.Reassignment(topic="orders", partition=1, replicas=(103, 101))
        slowly = commands.BeginMove(reassignments=(whither,), throttle_bytes_per_s=1_000)
        await asked(controller, slowly)
        await asked(controller, topic("gone", 103))
        await asked(controller, commands.DeleteTopics(topics=("gone",)))
        await asked(controller, commands.FenceBrokers(broker_ids=(103,)))
    (log,) = (tmp_path / "node-1" / LOG_FOLDER).glob("*.log")
    told = check_alike(version, log)
    # Since when a broker is fenced stands beside what Kafka knows, and it passes over that.
    noted = [entry.extra["atMs"] for entry in entries(log) if "atMs" in entry.extra]
    assert len(noted) == 1, "one broker was fenced"
    # And whose the configurations of a throttle are: two lists, and rates of three brokers.
    owned = [entry.extra["configOwned"] for entry in entries(log) if "configOwned" in entry.extra]
    assert {each["move"] for each in owned} == {2}
    assert len(owned) == 2 + 3 + 1
    assert {
        "LeaderChange",
        "FEATURE_LEVEL_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD",
    } <= {record.type for record in told}


def test_every_record_in_every_version_has_kafkas_names(tmp_path: Path) -> None:
    """A record of each kind, with every field set and with none: our names are Kafka's."""
    values = [
        codec.encode(record, level)
        for shape, (_, rows) in KAFKA.items()
        for level in (6, 7, 8, 15, 17, 23, 30)
        for record in (_full(shape, rows, level), _bare(shape, rows))
    ]
    values = list(dict.fromkeys(values))
    batch = encode(values, timestamp_ms=1_795_236_537_164)
    stamp(batch, Offset(0), Epoch(1))
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(batch)
    told = check_alike("4.3.1", log)
    assert len({record.type for record in told}) == len(KAFKA)


def _full(shape: type[Struct], rows: list[Row], level: int) -> Any:
    """The record with something in every field that is written at this level."""
    if shape is kafka_records.RegisterBroker:
        newest = 4 if level >= 30 else 3 if level >= 17 else 2 if level >= 8 else level - 6
    elif shape in (kafka_records.Partition, kafka_records.PartitionChange):
        newest = 2 if level >= 23 else int(level >= 17)
    elif shape is kafka_records.BrokerRegistrationChange:
        newest = 3 if level >= 30 else 2
    else:
        newest = 2
    return shape(**dict(_filled(rows, newest)))


def _filled(rows: list[Row], newest: int) -> Iterator[tuple[str, Any]]:
    for name, kind, *more in rows:
        if name in ("target", "original") or (more and more[0] > newest):
            continue
        yield name, _sample(kind)


def _sample(kind: str) -> Any:
    plain = kind.removesuffix("?")
    item = plain.removeprefix("[]")
    one: Any
    if item in NESTED:
        shape, rows = NESTED[item]
        one = shape(**{row[0]: _sample(row[1]) for row in rows})
    else:
        one = {
            "string": "text",
            "uuid": UUID(int=0x1234 << 80),
            "bool": True,
            "bytes": b"\x00\xff",
            "float64": 1.5,
        }.get(item, 1)
    return (one,) if plain.startswith("[]") else one


def _bare(shape: type[Struct], rows: list[Row]) -> Any:
    """The record with as little as it can hold."""
    values: dict[str, Any] = {}
    for name, kind, *more in rows:
        if len(more) > 1:
            values[name] = more[2]
            if shape is kafka_records.PartitionChange:
                values[name] = None
        elif kind.endswith("?"):
            values[name] = None
        elif kind.startswith("[]"):
            values[name] = ()
        elif kind == "uuid":
            values[name] = UUID(int=0)
        else:
            values[name] = {"string": "", "bool": False, "bytes": b"", "float64": 0.0}.get(kind, 0)
    return shape(**values)
