"""The news of a release of Kafka, read from jars that look like Kafka's."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from bench.compatibility.kafka_news import main
from quorum.protocol.apis import ApiKey
from statemachine.features.features import FEATURES
from statemachine.limits import METADATA_VERSION_MAX

FEATURES_IN = "org/apache/kafka/server/common"
ABOUT = "Something\n new."


def schema(kind: str, key: int, versions: str, *fields: Mapping[str, Any], **more: object) -> str:
    """A schema as in a jar, with its comment."""
    name = {"request": "FetchRequest", "response": "FetchResponse"}.get(kind, "ThingRecord")
    found = {
        "apiKey": key,
        "type": kind,
        "name": name,
        "validVersions": versions,
        "fields": fields,
        **more,
    }
    return f"// Licensed\n  // to all\n{json.dumps(found)}"


def field(name: str, versions: str, **more: object) -> dict[str, object]:
    """A field of a schema."""
    return {"name": name, "type": "int32", "versions": versions, "about": ABOUT, **more}


def constants(*strings: str) -> bytes:
    """The begin of a class: its constant pool, with a long in it, which counts as two."""
    pool = b"".join(b"\x01" + struct.pack(">H", len(each)) + each.encode() for each in strings)
    return (
        b"\xca\xfe\xba\xbe\0\0\0\x3d"
        + struct.pack(">H", len(strings) + 3)
        + b"\x05"
        + bytes(8)
        + pool
    )


def news(folder: Path, **files: str | bytes) -> list[str]:
    """The output of the command for a jar with these files, by the end of their names."""
    with ZipFile(folder / "kafka-clients-9.9.9.jar", "w") as jar:
        for name, content in files.items():
            kind, _, rest = name.partition("_")
            where = {"class": FEATURES_IN, "message": "common/message"}
            end = ".class" if kind == "class" else ".json"
            jar.writestr(f"{where.get(kind, 'common/metadata')}/{rest}{end}", content)
    done = CliRunner().invoke(main, [str(folder)])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_every_difference_is_a_line_with_its_new_fields(tmp_path: Path) -> None:
    spoken = ApiKey.FETCH.spoken.highest
    newer = f"{spoken + 1}+"
    inner = field("Deep", newer, tag=3, nullableVersions=newer)
    said = news(
        tmp_path,
        message_FetchRequest=schema(
            "request",
            1,
            f"4-{spoken + 1}",
            field("Old", "0+", fields=[inner]),
            field("New", newer),
            listeners=["broker", "controller"],
            latestVersionUnstable=True,
        ),
        message_FetchResponse=schema("response", 1, f"4-{spoken + 1}", field("Also", newer)),
        message_New=schema("request", 999, "0-2", listeners=["controller"]),
        message_OfBrokers=schema("request", 998, "0", listeners=["broker"]),
        metadata_Old=schema("metadata", 0, "0-5", field("Same", "0+"), field("Late", "5+")),
        metadata_New=schema("metadata", 99, "0"),
        class_MetadataVersion=constants(
            "IBP_4_3_IV0", "IBP_4_2_IV1", "IBP_4_4_IV0", "metadata.version"
        ),
        class_GroupVersion=constants("GV_0", "GV_1", "GV_7", "group.version"),
        class_FlyingVersion=constants("FV_2", "flying.version"),
    )
    assert said == [
        "Versions of APIs that are served",
        f"  Fetch (1) on broker/controller: Kafka has 4 to {spoken + 1}, the last one not final, we"
        f" speak 4 to {spoken}",
        f"    request v{spoken + 1}: Old.Deep int32, tag 3, nullable: Something new.",
        f"    request v{spoken + 1}: New int32: Something new.",
        f"    response v{spoken + 1}: Also int32: Something new.",
        "APIs of controllers that are not known here",
        "  Fetch (999): Kafka has 0 to 2",
        "Metadata records",
        "  Thing (0): Kafka has 0 to 5, we write up to 4",
        "    metadata v5: Late int32: Something new.",
        "  Thing (99): a new record, Kafka has 0",
        "Levels of features",
        f"  metadata.version {METADATA_VERSION_MAX + 1} (4.4-IV0); we support up to"
        f" {METADATA_VERSION_MAX} (4.3-IV0). A release has levels of later ones that are not final",
        "  flying.version up to 2: a new feature",
        f"  group.version 7; we support up to {FEATURES['group.version'].highest}",
    ]


def test_a_release_without_news_says_so(tmp_path: Path) -> None:
    said = news(tmp_path, metadata_Old=schema("metadata", 0, "0-4", field("Same", "0+")))
    assert said.count("  nothing new") == 4


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"not a jar", "cannot be read as one of Kafka's jars"), (None, "has schemas in")],
)
def test_jars_that_are_not_kafkas_are_refused(
    content: bytes | None, why: str, tmp_path: Path
) -> None:
    jar = tmp_path / "some.jar"
    if content is None:
        ZipFile(jar, "w").close()
    else:
        jar.write_bytes(content)
    done = CliRunner().invoke(main, [str(tmp_path)])
    assert done.exit_code == 1
    assert why in done.stderr
