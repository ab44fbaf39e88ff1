"""Kafka's jars in a cache folder: brought by Maven once, whole or not at all.

The folder is `kafka/VERSION` below `$XDG_CACHE_HOME/metaquorum` (`~/.cache/metaquorum`). Maven
checks every file against the checksum that its repository gives.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from admin.apache.java import Unavailable, find_maven
from admin.apache.releases import RELEASES, Artifact, Release

PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
FETCH_SECONDS_MAX: Final = 540
SHOWN_CHARACTERS_MAX: Final = 400
"""Of what Maven says when it fails."""

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
_DEPENDENCY: Final = (
    "    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
    "<version>{version}</version></dependency>"
)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where everything is kept that can be brought again."""
    named = environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "metaquorum"


def cached(version: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the jars of this release, if they are here already."""
    folder = cache_folder(environ) / "kafka" / version
    return folder if folder.is_dir() else None


def fetch(
    version: str, say: Callable[[str], None], environ: Mapping[str, str] = os.environ
) -> Path:
    """The folder of the jars of this release, brought first if they are not here.

    `say` hears that it takes a while. Raises `Unavailable`.
    """
    folder = cached(version, environ)
    if folder is not None:
        return folder
    release = release_of(version)
    parent = cache_folder(environ) / "kafka"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        # Whoever comes second waits, and finds them.
        with _locked(parent / f".{version}.lock"):
            return cached(version, environ) or _bring(release, parent, say, environ)
    except OSError as error:
        raise Unavailable(
            f"Kafka's jars cannot be kept in {parent} ({error.strerror or error}): make it "
            "writable, or name another folder in XDG_CACHE_HOME"
        ) from error


def release_of(version: str) -> Release:
    """The release of this number; raises `Unavailable` for one that was never tried."""
    release = RELEASES.get(version)
    if release is None:
        known = " and ".join(RELEASES)
        raise Unavailable(f"Kafka {version} is not among the tested releases, which are {known}")
    return release


def _bring(
    release: Release, parent: Path, say: Callable[[str], None], environ: Mapping[str, str]
) -> Path:
    maven = find_maven(environ)
    say(f"fetching Apache Kafka {release.version} with Maven, once, into {parent}")
    with tempfile.TemporaryDirectory(dir=parent, prefix=f".{release.version}-") as name:
        work = Path(name)
        (work / "pom.xml").write_text(_pom(release.artifacts), encoding="utf-8")
        _run_maven(maven, work, release, environ)
        folder = parent / release.version
        shutil.move(work / "jars", folder)
    return folder


def _run_maven(maven: Path, work: Path, release: Release, environ: Mapping[str, str]) -> None:
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
            env=dict(environ),
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"Maven did not bring Kafka {release.version} within {FETCH_SECONDS_MAX} s: try "
            "again, what has arrived is kept"
        ) from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:SHOWN_CHARACTERS_MAX]
        raise Unavailable(
            f"Maven could not bring Kafka {release.version}; is its repository reached? It said: "
            f"{said}"
        )


def _pom(artifacts: tuple[Artifact, ...]) -> str:
    lines = (
        _DEPENDENCY.format(
            group=escape(each.group), name=escape(each.name), version=escape(each.version)
        )
        for each in artifacts
    )
    return _POM.format(dependencies="\n".join(lines))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
