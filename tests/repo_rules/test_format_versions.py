"""Every file and every message between nodes carries its version, and a newer one is refused.

The table is that of docs/upgrading.md. `newer` gives this release the file or message as a later
release might write it, and returns what it says. A file that costs nothing to do without is not
refused: then `newer` shows that it is not misread.
"""

import asyncio
import json
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import pytest

from admin.backup.manifest import decode_manifest
from admin.capabilities.needs import Role
from admin.capabilities.registry import decode_request
from admin.cli.profile_file import Profiles
from admin.config import load
from admin.http import tokens
from admin.plan_file import parse_plan
from admin.tools import local_control, local_plan
from broker.storage import log_dir, partition_log
from lag.archive import place
from quorum.core.vocabulary import ReplicaId
from quorum.log import append_times, meta_properties, quorum_state
from quorum.log.checkpoint import read_checkpoint
from quorum.log.segmented_log import SegmentedLog
from quorum.metadata_loader import MetadataLoader
from quorum.protocol import codec, envelope
from quorum.protocol.apis import ApiKey
from quorum.protocol.extension import Extension, extension_of, is_newer, newer_reason
from quorum.protocol.principal import KafkaPrincipal
from quorum.records.control import ControlType, control_key, decode_kraft_version
from quorum.records.encode import encode as batch_of
from quorum.version import VERSION
from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import Loading
from statemachine.records import own_records
from statemachine.records.codec import KAFKA_RECORDS, OWN_RECORDS, encode
from tests.contracts.batches import batch, run
from tests.quorum.driver.test_committed_records import Log
from tests.quorum.log.damaged_folders import filled_folder
from tests.quorum.log.test_checkpoint import a_checkpoint, footer
from tests.support.tree import ROOT

NODE: Final = ReplicaId(1)
TOPIC: Final = UUID(int=7 << 64)
MAGIC_POSITION: Final = 16
CLIENT: Final = KafkaPrincipal("User", "ann")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A file or a message, and what this release does with a newer one."""

    name: str
    """As in the first column of the table."""
    version: str
    """As in the second column: the version that this release writes."""
    newer: Callable[[Path], object]
    says: str
    """A pattern of the error, or of what `newer` returns."""


def _raised(work: Callable[[], object]) -> str:
    """The error with which `work` refuses its input."""
    try:
        return f"not refused: {work()!r}"
    except Exception as error:  # noqa: BLE001 - the pattern decides whether it is the right one
        return f"{type(error).__name__}: {error}"


def _meta_properties(folder: Path) -> str:
    (folder / "meta.properties").write_text("version=2\nnode.id=1\nnode.name=a\n")
    return _raised(lambda: meta_properties.load_or_create(folder, None, NODE, rng=random.Random(1)))


def _boot_timestamp(folder: Path) -> str:
    (folder / "boot-timestamp").write_text("version=2\nboot.timestamp=5\nboot.count=9\n")
    return _raised(lambda: meta_properties.next_boot(folder, 1))


def _quorum_state(folder: Path) -> str:
    (folder / "quorum-state").write_text('{"leaderEpoch":9,"data_version":2}')
    return _raised(quorum_state.QuorumStateFile(folder).read)


def _segment(folder: Path) -> str:
    (file,) = filled_folder(folder / "log", [batch(0)])
    changed = bytearray(file.read_bytes())
    changed[MAGIC_POSITION] = 3
    file.write_bytes(bytes(changed))
    return _raised(lambda: SegmentedLog(folder / "log"))


def _replayed(value: bytes) -> str:
    log = Log()
    log.put(batch_of([value], timestamp_ms=5))
    loader: MetadataLoader[Any] = MetadataLoader(
        Image(), replay=replay_values, load_snapshot=Loading
    )
    loader.raise_to(log.end.offset)
    return _raised(lambda: loader.go_on(log))


def _newer_record(_: Path) -> str:
    return _replayed(b"\x01\x1b\x01" + bytes(30))


def _unknown_record(_: Path) -> str:
    return _replayed(b"\x01\xac\x02\x00anything")


def _newer_own_record(_: Path) -> str:
    value = encode(own_records.MovesForgotten(through=7), 29)
    return _replayed(value.replace(b"\x0a\x00", b"\x0a\x01", 1))


def _unknown_own_record(_: Path) -> str:
    # A NoOp with one tagged field, 10,500.
    return _replayed(b"\x01\x14\x00\x01\x84\x52\x02\x00a")


def _control_record(_: Path) -> str:
    return _raised(lambda: decode_kraft_version(b"\x00\x01\x00\x01\x00"))


def _checkpoint(folder: Path) -> str:
    header = batch_of(
        [b"\x00\x02" + bytes(9)],
        timestamp_ms=1,
        control_keys=[control_key(ControlType.SNAPSHOT_HEADER)],
    )
    return _raised(lambda: read_checkpoint(a_checkpoint(folder, header, footer())))


def _append_times(folder: Path) -> str:
    """The log is opened and written all the same, and the newer index stays as it is."""
    log = SegmentedLog(folder, wall_clock=lambda: 5)
    log.append(batch(0))
    log.commit()
    log.close()
    (index,) = folder.glob("*.appendtime")
    newer = struct.pack(">4sHH", append_times.MAGIC, append_times.VERSION + 1, 0) + bytes(40)
    index.write_bytes(newer)
    log = SegmentedLog(folder, wall_clock=lambda: 6)
    log.append(batch(1))
    log.commit()
    log.close()
    assert index.read_bytes() == newer
    assert log.end.offset == 2
    return _raised(lambda: list(append_times.append_times(index)))


def _partition_metadata(folder: Path) -> str:
    path, _ = log_dir.claim(folder, "t", 0, TOPIC)
    (path / "partition.metadata").write_text("version: 1\ntopic_id: x\nname: t\n")
    return _raised(lambda: log_dir.claim(folder, "t", 0, TOPIC))


def _partition_state(folder: Path) -> str:
    """The log is read instead."""
    filled_folder(folder / "log", run(0, 1, 1))
    newer = {"format": 2, "log_end": 2, "log_end_epoch": 1, "high_watermark": 2, "producers": []}
    (folder / "log" / "partition.state").write_bytes(msgspec.json.encode(newer))
    opened = partition_log.open_log(folder / "log", segment_bytes_max=1 << 20)
    opened.log.close()
    return f"high watermark {opened.high_watermark}"


def _clean_shutdown(folder: Path) -> str:
    """The shutdown counts as unclean."""
    (folder / ".kafka_cleanshutdown").write_text('{"version":1,"brokerEpoch":5}')
    return f"broker epoch {log_dir.take_clean_shutdown(folder)}"


def _local_plan(folder: Path) -> str:
    (folder / "local.json").write_text('{"format": 2}')
    return _raised(lambda: local_plan.settle(folder, local_plan.Wanted(), random.Random(1)))


def _cluster_file(folder: Path) -> str:
    (folder / "cluster.json").write_text('{"format": 2, "control": "/nowhere"}')
    return _raised(lambda: local_control.ask(folder, local_control.Action.STOP, None))


def _control_socket(_: Path) -> str:
    """An action of a newer command, at the socket of this release's `metaquorum local`."""

    async def ask() -> str:
        reader = asyncio.StreamReader()
        reader.feed_data(b'{"action": "upgrade", "node": null}\n')
        control = local_control.LocalControl(None, print)  # type: ignore[arg-type]
        return json.dumps(await control._answer(reader))

    return asyncio.run(ask())


def _profiles(folder: Path) -> str:
    (folder / "profiles.toml").write_text("format = 2\n[profiles.prod]\nregion = 'eu'\n")
    return _raised(lambda: Profiles(folder / "profiles.toml"))


def _tokens(folder: Path) -> str:
    """A token whose new field would limit it lets nobody in here."""
    path = folder / "tokens"
    tokens.create(path, "ci", Role.VIEWER, "User:ci")
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "expires": "2027-01-01"}) + "\n")
    found, invalid = tokens.read(path)
    assert not found
    return str(invalid)


def _manifest(_: Path) -> str:
    return _raised(lambda: decode_manifest(b'{"format": 2}', "a manifest"))


def _archive(_: Path) -> str:
    newer = json.dumps({"format": place.FORMAT, "schema": place.SCHEMA + 1, "cluster": None})
    return _raised(lambda: place.cluster_of(newer, "/a"))


def _plan(_: Path) -> str:
    return _raised(lambda: parse_plan('{"version": 2, "partitions": []}'))


def _settings(folder: Path) -> str:
    path = folder / "node.properties"
    path.write_text("node.id=1\nprocess.roles=controller\nlog.dir=/x\nlog.colour=red\n")
    return _raised(lambda: load(path, {}))


def _newer_api(api_key: ApiKey) -> Callable[[Path], str]:
    version = api_key.spoken.highest + 1
    return lambda _: _raised(lambda: codec.decode_request(api_key, version, b""))


def _newer_capability(_: Path) -> str:
    return _raised(lambda: decode_request("quorum.fly", b"\x80"))


def _newer_field(_: Path) -> str:
    body = msgspec.msgpack.encode({"to": 2, "gently": True})
    return _raised(lambda: decode_request("quorum.transfer-lead", body))


@dataclass
class _Message:
    """A decoded message with an extension of a newer release."""

    extension: bytes
    __api_key__ = 45
    __version__ = 1


def _extension(_: Path) -> str:
    newer = {"needs": 2, "consistency": 7, "door": "grpc"}
    found = extension_of(_Message(msgspec.msgpack.encode(newer)))
    assert found is not None
    assert is_newer(found)
    return newer_reason(found)


def _forwarded(principal: bytes, extension: dict[str, object]) -> object:
    forwarded = envelope.Forwarded(45, 1, 9, "c", CLIENT, b"", "127.0.0.1")
    found = codec.decode_request(58, 0, envelope.wrap(forwarded, timeout_ms=5))
    values = {each: getattr(found, each) for each in ("request_data", "client_host_address")}
    body = codec.request_body(
        58,
        0,
        **values,
        request_principal=principal or found.request_principal,
        extension=msgspec.msgpack.encode(extension),
    )
    return envelope.unwrap(codec.decode_request(58, 0, body))


def _envelope(_: Path) -> str:
    return _raised(lambda: _forwarded(b"", {"needs": 2, "door": "grpc"}))


def _principal(_: Path) -> str:
    return _raised(lambda: _forwarded(b"\x00\x01\x05User\x04ann", {}))


def _spoken(api_key: ApiKey) -> str:
    return str(api_key.spoken.highest)


FORMATS: Final = (
    Format(
        name="`meta.properties`",
        version="1",
        newer=_meta_properties,
        says=r"FormatUnknown: .*meta.properties: version 2, only version 1 is known\. Nothing has "
        r"been changed\. Start the version",
    ),
    Format(
        name="`boot-timestamp`",
        version="1",
        newer=_boot_timestamp,
        says="boot-timestamp: version 2, only version 1 is known. Remove the file",
    ),
    Format(
        name="`quorum-state`",
        version="1",
        newer=_quorum_state,
        says="FormatUnknown: .*quorum-state: version 2, only 0 and 1 are known. Nothing has been",
    ),
    Format(
        name="`*.log`: record batches",
        version="2",
        newer=_segment,
        says="FormatUnknown: .*a record batch of format 3 at byte 0.*only 2 is known. Nothing has",
    ),
    Format(
        name="records of Kafka",
        version="each its own",
        newer=_newer_record,
        says=f"LogFailure: .*version 1 of record type 27 .* is not known.*Start.*{VERSION}; ",
    ),
    Format(
        name="record types of Kafka",
        version=str(max(KAFKA_RECORDS)),
        newer=_unknown_record,
        says=f"LogFailure: .*record type 300 is not known.*metaquorum {VERSION}; the log",
    ),
    Format(
        name="records of metaquorum",
        version="0",
        newer=_newer_own_record,
        says=f"LogFailure: .*version 1 of MovesForgotten is not known.*Start.*{VERSION}; ",
    ),
    Format(
        name="record types of metaquorum",
        version=str(max(OWN_RECORDS)),
        newer=_unknown_own_record,
        says=f"LogFailure: .*tag 10500 of a NoOp is not known, a record of meta.*Start.*{VERSION};",
    ),
    Format(
        name="control records",
        version="0",
        newer=_control_record,
        says="UnknownVersion: a kraft version record of version 1, known is 0",
    ),
    Format(
        name="`*.checkpoint`",
        version="0",
        newer=_checkpoint,
        says="FormatUnknown: .*a snapshot header record of version 2, known is 0. Nothing has been",
    ),
    Format(
        name="`*.appendtime`",
        version=str(append_times.VERSION),
        newer=_append_times,
        says="an index of version 2, only version 1 is known",
    ),
    Format(
        name="`partition.metadata`",
        version="0",
        newer=_partition_metadata,
        says="FormatUnknown: .*partition.metadata: version 1, only version 0 is known. Nothing has",
    ),
    Format(
        name="`partition.state`", version="1", newer=_partition_state, says="^high watermark 0$"
    ),
    Format(
        name="`.kafka_cleanshutdown`", version="0", newer=_clean_shutdown, says="^broker epoch -1$"
    ),
    Format(
        name="`local.json`",
        version=str(local_plan.FORMAT),
        newer=_local_plan,
        says=f"local.json has format 2, and metaquorum {VERSION} reads 1: use the release that",
    ),
    Format(
        name="`cluster.json`",
        version=str(local_plan.FORMAT),
        newer=_cluster_file,
        says=f"cluster.json has format 2, and metaquorum {VERSION} reads 1: use the release that",
    ),
    Format(
        name="requests to `metaquorum local`",
        version="the actions",
        newer=_control_socket,
        says="upgrade.*is not an action.*restart, kill, stop",
    ),
    Format(
        name="`profiles.toml`",
        version="1",
        newer=_profiles,
        says=f"profiles.toml has format 2, and metaquorum {VERSION} reads 1: use the newer release",
    ),
    Format(
        name="tokens of HTTP",
        version="the fields",
        newer=_tokens,
        says=f"tokens:1 is no token that metaquorum {VERSION} can read",
    ),
    Format(
        name="manifests of backups",
        version="1",
        newer=_manifest,
        says="its format is 2, this program reads 1",
    ),
    Format(
        name="archives of lag reports",
        version=str(place.SCHEMA),
        newer=_archive,
        says="the archive /a has the schema version 2, and this version .* knows those up to 1",
    ),
    Format(
        name="plans of moves",
        version="1",
        newer=_plan,
        says="Not supported version field value 2; write 1",
    ),
    Format(
        name="settings of a node",
        version="the names",
        newer=_settings,
        says="InvalidSetting: .*log.colour",
    ),
    Format(
        name="DiscoverBrokers",
        version=_spoken(ApiKey.DISCOVER_BROKERS),
        newer=_newer_api(ApiKey.DISCOVER_BROKERS),
        says="DiscoverBrokers v1: spoken are versions 0",
    ),
    Format(
        name="AlterQuorum",
        version=_spoken(ApiKey.ALTER_QUORUM),
        newer=_newer_api(ApiKey.ALTER_QUORUM),
        says="AlterQuorum v1: spoken are versions 0",
    ),
    Format(
        name="Capability",
        version=_spoken(ApiKey.CAPABILITY),
        newer=_newer_api(ApiKey.CAPABILITY),
        says="Capability v1: spoken are versions 0",
    ),
    Format(
        name="capabilities: names",
        version="the names",
        newer=_newer_capability,
        says=f"'quorum.fly' is not known to metaquorum {VERSION}",
    ),
    Format(
        name="capabilities: fields",
        version="the fields",
        newer=_newer_field,
        says=f"unknown field `gently` .this node runs metaquorum {VERSION}",
    ),
    Format(
        name="requests of Kafka",
        version="each its own",
        newer=_newer_api(ApiKey.FETCH),
        says="Fetch v18: spoken are versions 4 to 17",
    ),
    Format(
        name="extensions of them",
        version="1",
        newer=_extension,
        says=f"the extension has format 2, and metaquorum {VERSION} knows 1: upgrade this node",
    ),
    Format(
        name="Envelope",
        version=str(envelope.VERSION),
        newer=_envelope,
        says=f"Unreadable: the extension has format 2, and metaquorum {VERSION} knows 1: upgrade",
    ),
    Format(
        name="the principal in it",
        version="0",
        newer=_principal,
        says="Unreadable: the principal is not of version 0",
    ),
)


@pytest.mark.parametrize("case", FORMATS, ids=lambda case: case.name)
def test_a_newer_version_is_refused_by_name_and_never_misread(case: Format, tmp_path: Path) -> None:
    said = str(case.newer(tmp_path))
    assert re.search(case.says, said, re.DOTALL), said


def test_the_page_has_each_of_them_with_its_version() -> None:
    page = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    told = {row[0]: row[1] for row in rows if len(row) == 4}
    assert {each.name: each.version for each in FORMATS}.items() <= told.items()


def test_a_field_that_may_be_ignored_is(tmp_path: Path) -> None:
    """Fields that a newer release adds beside a known version: JSON, tags, and properties."""
    (tmp_path / "quorum-state").write_text(
        '{"leaderId":2,"leaderEpoch":9,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
        '"appliedOffset":7,"data_version":1}'
    )
    assert quorum_state.QuorumStateFile(tmp_path).read().epoch == 9
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\nrack=a\n")
    meta = meta_properties.load_or_create(tmp_path, None, NODE, rng=random.Random(1))
    assert meta.others == (("rack", "a"),)
    assert "rack=a" in (tmp_path / "meta.properties").read_text()
    newer = msgspec.msgpack.encode({"as_of": 3, "colour": "red"})
    assert extension_of(_Message(newer)) == Extension(as_of=3)
