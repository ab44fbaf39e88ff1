"""Apache Kafka's jars in a cache folder, fetched by Maven once, and the Java that runs them.

The folder is `kafka/VERSION` below `$XDG_CACHE_HOME/metaquorum` (`~/.cache/metaquorum`). Maven
checks every file against the checksum that its repository gives.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from statemachine.limits import METADATA_VERSION_MAX

JAVA_LOWEST: Final = 17
ASK_SECONDS_MAX: Final = 30

INSTEAD: Final = "or leave --kafka out: the embedded brokers need neither Java nor Maven"


class Unavailable(Exception):
    """Kafka cannot be run here; one sentence says what is missing and what would be right."""

    def __init__(self, lacks: str, instead: str = "") -> None:
        """`lacks` is that sentence; `instead` says how a local cluster works without it."""
        super().__init__(f"{lacks}, {instead}" if instead else lacks)
        self.lacks = lacks


def find_java() -> Path:
    """The Java that JAVA_HOME names, or that of the path; raises `Unavailable` below 17."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "there is no java"
        raise Unavailable(f"{where}: install Java {JAVA_LOWEST} or newer", INSTEAD)
    version = _version_of(found)
    if version is None or version < JAVA_LOWEST:
        shown = "cannot be run" if version is None else f"is Java {version}"
        raise Unavailable(f"{found} {shown}: install Java {JAVA_LOWEST} or newer", INSTEAD)
    return Path(found)


def find_maven() -> Path:
    """Maven's program on the path; raises `Unavailable`."""
    found = shutil.which("mvn")
    if found is None:
        raise Unavailable(
            "mvn, which fetches Kafka's jars, was not found: install Maven 3.6 or newer", INSTEAD
        )
    return Path(found)


def _version_of(java: str) -> int | None:
    """The feature release: 17 of "17.0.15", 8 of "1.8.0_402"; None if it does not say."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASK_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return None if match is None else int(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release: its brokers and its command-line tools."""

    version: str
    metadata_version: int
    """The highest level that its brokers can read."""
    logging: tuple[str, ...]
    """The Maven artifacts that write the log lines; those of Kafka leave the choice open."""
    logging_property: str
    """The system property of Java that names the file with the settings of logging."""
    logging_file: str

    @property
    def founded_at(self) -> int:
        """The highest level that its brokers and our controllers can read."""
        return min(self.metadata_version, METADATA_VERSION_MAX)

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The Maven artifacts of brokers and tools: `group:name:version`."""
        own = (f"org.apache.kafka:{name}:{self.version}" for name in ("kafka_2.13", "kafka-tools"))
        return (*own, *self.logging)


_RELOAD4J_FILE: Final = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_LOG4J2_FILE: Final = """\
status=error
appender.console.type=Console
appender.console.name=stdout
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.stdout.ref=stdout
"""

_LOG4J2: Final = (
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
    "org.apache.logging.log4j:log4j-core:2.25.3",
)

RELEASES: Final[Mapping[str, Release]] = MappingProxyType(
    {
        "3.9.1": Release(
            version="3.9.1",
            metadata_version=21,
            logging=("org.slf4j:slf4j-reload4j:1.7.36",),
            logging_property="log4j.configuration",
            logging_file=_RELOAD4J_FILE,
        ),
        "4.2.0": Release(
            version="4.2.0",
            metadata_version=29,
            logging=_LOG4J2,
            logging_property="log4j2.configurationFile",
            logging_file=_LOG4J2_FILE,
        ),
        "4.3.1": Release(
            version="4.3.1",
            metadata_version=30,
            logging=_LOG4J2,
            logging_property="log4j2.configurationFile",
            logging_file=_LOG4J2_FILE,
        ),
    }
)
"""The releases whose brokers are tested."""

TOOLS: Final[Mapping[str, Release]] = MappingProxyType(
    {
        **RELEASES,
        "4.1.1": Release(
            version="4.1.1",
            metadata_version=27,
            logging=_LOG4J2,
            logging_property="log4j2.configurationFile",
            logging_file=_LOG4J2_FILE,
        ),
    }
)
"""The releases whose command-line tools are tested."""


BROKER: Final = "kafka.Kafka"

_SMALL: Final = (
    "-Xms64m",
    "-Xmx320m",
    "-XX:+UseSerialGC",
    # Many of these processes run on one machine, for minutes: they must start fast.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A release with its jars, and a Java that can run them."""

    release: Release
    java: Path
    jars: Path
    java_options: tuple[str, ...] = _SMALL

    def broker(self, settings: Path, logging: Path) -> list[str]:
        """The command line of a broker with these two files."""
        name = self.release.logging_property
        value = logging.as_uri() if name == "log4j.configuration" else logging
        return self.tool(BROKER, [str(settings)], f"-D{name}={value}")

    def tool(self, name: str, arguments: Sequence[str], *options: str) -> list[str]:
        """The command line of one of Kafka's programs, by the name of its class."""
        jars = str(self.jars / "*")
        return [str(self.java), *self.java_options, *options, "-cp", jars, name, *arguments]


def find_runtime(
    version: str, say: Callable[[str], None], among: Mapping[str, Release] = RELEASES
) -> Runtime:
    """Find Java and the jars, fetched if need be; raises `Unavailable` with what to install."""
    release = release_of(version, among)
    java = find_java()
    return Runtime(release=release, java=java, jars=fetch(version, say, among))


PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
FETCH_SECONDS_MAX: Final = 540
SHOWN_CHARACTERS_MAX: Final = 400
"""The limit of what is shown of Maven's errors."""

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>metaquorum</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def jar_folder(version: str) -> Path:
    """The folder of the jars of this release; it exists once all of them are there."""
    named = os.environ.get("XDG_CACHE_HOME")
    cache = Path(named) if named else Path.home() / ".cache"
    return cache / "metaquorum" / "kafka" / version


def fetch(
    version: str, say: Callable[[str], None], among: Mapping[str, Release] = RELEASES
) -> Path:
    """The folder of the jars of this release, fetched first if they are missing.

    `say` is told that this takes a while. Raises `Unavailable`.
    """
    release, folder = release_of(version, among), jar_folder(version)
    if folder.is_dir():
        return folder
    parent = folder.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / f".{version}.lock").open("a", encoding="utf-8") as lock:
            # A second process waits here, and then finds the jars.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _fetch_locked(release, folder, say)
    except OSError as error:
        raise Unavailable(
            f"Kafka's jars cannot be kept in {parent} ({error.strerror or error}): make it "
            "writable, or name another folder in XDG_CACHE_HOME"
        ) from error
    return folder


def release_of(version: str, among: Mapping[str, Release] = RELEASES) -> Release:
    """The release of this number; raises `Unavailable` for an untested one."""
    release = among.get(version)
    if release is None:
        *others, newest = among
        raise Unavailable(
            f"Kafka {version} is not among the tested releases, which are {', '.join(others)} and "
            f"{newest}"
        )
    return release


def _fetch_locked(release: Release, folder: Path, say: Callable[[str], None]) -> None:
    maven, parent = find_maven(), folder.parent
    say(f"fetching Apache Kafka {release.version} with Maven, once, into {parent}")
    with tempfile.TemporaryDirectory(dir=parent, prefix=f".{release.version}-") as name:
        work = Path(name)
        (work / "pom.xml").write_text(_pom(release.artifacts), encoding="utf-8")
        _run_maven(maven, work, release)
        shutil.move(work / "jars", folder)


def _run_maven(maven: Path, work: Path, release: Release) -> None:
    command = [
        str(maven),
        "--quiet",
        "--batch-mode",
        "--strict-checksums",
        f"--file={work / 'pom.xml'}",
        f"{PLUGIN}:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={work / 'jars'}",
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"Maven did not fetch Kafka {release.version} within {FETCH_SECONDS_MAX} s: try "
            "again, what has arrived is kept"
        ) from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:SHOWN_CHARACTERS_MAX]
        raise Unavailable(
            f"Maven could not fetch Kafka {release.version}; is its repository reached? It said: "
            f"{said}"
        )


def _pom(artifacts: tuple[str, ...]) -> str:
    lines = []
    for each in artifacts:
        group, name, version = each.split(":")
        lines.append(
            f"    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{version}</version></dependency>"
        )
    return _POM.format(dependencies="\n".join(lines))
