"""List what a release of Apache Kafka knows and this project does not serve yet.

The release's own jars say it: the schemas of messages (`common/message` in kafka-clients) and of
metadata records (`common/metadata` in kafka-metadata), and the constants of the classes of features
(kafka-server-common). Each line is a difference to work on: a version of an API, an API that
controllers serve, a version of a record, a level of a feature.

    python -m bench.compatibility.kafka_news 4.4.0
"""

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

import click

from admin.tools.kafka_runtime import RELEASES, Release, Unavailable, fetch
from quorum.protocol.apis import SPOKEN, VersionRange
from statemachine.features.features import FEATURES
from statemachine.features.features import RELEASES as LEVELS
from statemachine.records.codec import KAFKA_RECORDS
from statemachine.records.primitives import schema_of
from statemachine.vocabulary import METADATA_VERSION

CLASS_BYTES_MAX: Final = 1 << 20

_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_LEVEL: Final = re.compile(r"IBP_(\d+)_(\d+)_IV(\d+)")
_FEATURE: Final = re.compile(r"[a-z]+(\.[a-z]+)*\.version")
_FEATURE_LEVEL: Final = re.compile(r"[A-Z]+(?:_[A-Z]+)*_(\d+)")
_NO_FEATURES: Final = (METADATA_VERSION, "test.feature.version", "unit.test.feature.version")
_FEATURES_IN: Final = "org/apache/kafka/server/common/"


class Unreadable(Exception):
    """A jar is not what Kafka's jars are; the message names it."""


class Schema(NamedTuple):
    """The schema of a message or record, as its file in the jar has it."""

    name: str
    kind: str
    """request, response, metadata, ..."""
    api_key: int
    versions: VersionRange | None
    """None if the release has given it up."""
    unstable: bool
    """True if the highest version is not final."""
    listeners: tuple[str, ...]
    fields: Sequence[Mapping[str, Any]]

    @property
    def api(self) -> str:
        """The name of the API or the record."""
        return self.name.removesuffix("Request").removesuffix("Record")


class Known(NamedTuple):
    """The APIs, records and levels of a release."""

    schemas: Sequence[Schema]
    levels: Mapping[int, str]
    """Kafka's names of the levels of metadata.version."""
    features: Mapping[str, int]
    """The highest level of each other feature."""


# --- the jars -----------------------------------------------------------------------------------


def read_jars(folder: Path) -> Known:
    """Read the jars in a folder. Raises `Unreadable`."""
    schemas: list[Schema] = []
    names: set[str] = set()
    features: dict[str, int] = {}
    for jar in sorted(folder.glob("*.jar")):
        try:
            with ZipFile(jar) as archive:
                schemas += _schemas(archive)
                for constants in _feature_classes(archive):
                    names.update(each for each in constants if _LEVEL.fullmatch(each))
                    features |= _feature(constants)
        except (BadZipFile, ValueError, KeyError, TypeError, struct.error, IndexError) as error:
            raise Unreadable(f"{jar} cannot be read as one of Kafka's jars: {error}") from error
    if not schemas:
        raise Unreadable(f"no jar in {folder} has schemas in common/message or common/metadata")
    return Known(schemas, _numbered(names), features)


def _schemas(archive: ZipFile) -> Iterator[Schema]:
    for name in archive.namelist():
        if name.startswith(("common/message/", "common/metadata/")) and name.endswith(".json"):
            found = json.loads(_COMMENT.sub("", archive.read(name).decode()))
            if "apiKey" in found:
                yield _schema(found)


def _schema(found: Mapping[str, Any]) -> Schema:
    return Schema(
        name=found["name"],
        kind=found["type"],
        api_key=found["apiKey"],
        versions=_range(found["validVersions"]),
        unstable=found.get("latestVersionUnstable", False),
        listeners=tuple(found.get("listeners", ())),
        fields=found.get("fields", ()),
    )


def _range(text: str) -> VersionRange | None:
    """The versions of "none", "3" or "0-4"; "2+" has no end, and only its begin counts."""
    if text == "none":
        return None
    first, _, last = text.rstrip("+").partition("-")
    return VersionRange(int(first), int(last or first))


def _feature_classes(archive: ZipFile) -> Iterator[set[str]]:
    for info in archive.infolist():
        if info.filename.startswith(_FEATURES_IN) and info.filename.endswith("Version.class"):
            if info.file_size > CLASS_BYTES_MAX:
                raise ValueError(f"{info.filename} has {info.file_size} bytes")
            yield set(_constants(archive.read(info)))


_CONSTANT_BYTES: Final = MappingProxyType(
    {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4}
    | {15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
)
"""The sizes of the constants of a class, by tag (Java Virtual Machine Specification, 4.4)."""
_UTF8: Final = 1
_DOUBLE_ENTRIES: Final = (5, 6)


def _constants(data: bytes) -> Iterator[str]:
    """Yield the strings in the constant pool of a class."""
    count, at, entry = struct.unpack_from(">H", data, 8)[0], 10, 1
    while entry < count:
        tag, at, entry = data[at], at + 1, entry + 1
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at)
            yield data[at + 2 : at + 2 + size].decode(errors="replace")
            at += 2 + size
        else:
            at += _CONSTANT_BYTES[tag]
            entry += tag in _DOUBLE_ENTRIES


def _feature(constants: set[str]) -> dict[str, int]:
    names = {each for each in constants if _FEATURE.fullmatch(each)}.difference(_NO_FEATURES)
    levels = [int(found[1]) for each in constants if (found := _FEATURE_LEVEL.fullmatch(each))]
    return {names.pop(): max(levels)} if len(names) == 1 and levels else {}


def _numbered(names: Iterable[str]) -> Mapping[int, str]:
    """The levels of these constants: each one is one above the last, in the order of releases."""
    ordered = sorted(
        tuple(map(int, found.groups())) for each in names if (found := _LEVEL.fullmatch(each))
    )
    shown = [f"{major}.{minor}-IV{step}" for major, minor, step in ordered]
    by_name = {name: level for level, name in LEVELS.items()}
    anchor = next((at for at, name in enumerate(shown) if name in by_name), None)
    if anchor is None:
        return {}
    first = by_name[shown[anchor]] - anchor
    return {first + at: name for at, name in enumerate(shown)}


# --- the differences ------------------------------------------------------------------------------


def news(known: Known) -> Iterator[str]:
    """Yield what the release knows and this project does not serve, one line each."""
    yield from _section("Versions of APIs that are served", _newer_versions(known.schemas))
    yield from _section("APIs of controllers that are not known here", _new_apis(known.schemas))
    yield from _section("Metadata records", _newer_records(known.schemas))
    yield from _section("Levels of features", _newer_levels(known))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield title
    found = [f"  {each}" for each in lines]
    yield from found or ["  nothing new"]


def _newer_versions(schemas: Sequence[Schema]) -> Iterator[str]:
    for schema in _sorted(schemas, "request"):
        ours = SPOKEN.get(schema.api_key)
        if ours is None or schema.versions is None or schema.versions.highest <= ours.highest:
            continue
        state = ", the last one not final" if schema.unstable else ""
        yield (
            f"{schema.api} ({schema.api_key}) on {'/'.join(schema.listeners)}: Kafka has"
            f" {schema.versions}{state}, we speak {ours}"
        )
        for each in schemas:
            if each.api_key == schema.api_key and each.kind in ("request", "response"):
                yield from _new_fields(each, ours.highest)


def _new_apis(schemas: Sequence[Schema]) -> Iterator[str]:
    for schema in _sorted(schemas, "request"):
        if "controller" not in schema.listeners or schema.versions is None:
            continue
        if schema.api_key not in SPOKEN:
            yield f"{schema.api} ({schema.api_key}): Kafka has {schema.versions}"


def _newer_records(schemas: Sequence[Schema]) -> Iterator[str]:
    for schema in _sorted(schemas, "metadata"):
        shape = KAFKA_RECORDS.get(schema.api_key)
        if schema.versions is None:
            continue
        if shape is None:
            yield f"{schema.api} ({schema.api_key}): a new record, Kafka has {schema.versions}"
            continue
        newest = max((field.since for field in schema_of(shape)), default=0)
        if schema.versions.highest > newest:
            yield (
                f"{schema.api} ({schema.api_key}): Kafka has {schema.versions}, we write up to"
                f" {newest}"
            )
            yield from _new_fields(schema, newest)


def _newer_levels(known: Known) -> Iterator[str]:
    highest = max(LEVELS)
    for level, name in sorted(known.levels.items()):
        if level > highest:
            yield (
                f"{METADATA_VERSION} {level} ({name}); we support up to {highest}"
                f" ({LEVELS[highest]}). A release has levels of later ones that are not final"
            )
    for name, level in sorted(known.features.items()):
        feature = FEATURES.get(name)
        if feature is None:
            yield f"{name} up to {level}: a new feature"
        elif level > feature.highest:
            yield f"{name} {level}; we support up to {feature.highest}"


def _new_fields(schema: Schema, newest: int, path: str = "") -> Iterator[str]:
    """Yield the fields, nested ones included, that begin after our newest version."""
    yield from _fields(schema.kind, schema.fields, newest, path)


def _fields(
    kind: str, fields: Sequence[Mapping[str, Any]], newest: int, path: str
) -> Iterator[str]:
    for field in fields:
        since, where = _range(field["versions"]), f"{path}{field['name']}"
        if since is not None and since.lowest > newest:
            tag = f", tag {field['tag']}" if "tag" in field else ""
            null = ", nullable" if "nullableVersions" in field else ""
            about = " ".join(field.get("about", "").split())
            yield f"  {kind} v{since.lowest}: {where} {field['type']}{tag}{null}: {about}"
        else:
            yield from _fields(kind, field.get("fields", ()), newest, f"{where}.")


def _sorted(schemas: Sequence[Schema], kind: str) -> list[Schema]:
    return sorted((each for each in schemas if each.kind == kind), key=lambda each: each.api_key)


# --- the command --------------------------------------------------------------------------------


def jars_of(version: str) -> Path:
    """The jars of any release, fetched by Maven if need be. Raises `Unavailable`."""
    newest = list(RELEASES.values())[-1]
    untested = Release(
        version=version,
        metadata_version=newest.metadata_version,
        logging=newest.logging,
        logging_property=newest.logging_property,
        logging_file=newest.logging_file,
    )
    return fetch(version, partial(click.echo, err=True), {version: untested})


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.argument("release")
def main(release: str) -> None:
    """Print the news of a release, like 4.4.0, or of a folder with its jars."""
    try:
        folder = Path(release) if Path(release).is_dir() else jars_of(release)
        lines = list(news(read_jars(folder)))
    except (Unavailable, Unreadable) as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
