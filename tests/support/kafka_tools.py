"""Kafka's own programs, for comparisons in tests.

They need Java and Maven, which brings the jars once into the cache where `metaquorum local --kafka`
puts them too. Where one is missing, the test is skipped and says which.
"""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from admin.tools.kafka_runtime import Runtime, Unavailable, find_runtime
from tests.support.kafka_classes import sharing_classes

TOOL_SECONDS_MAX: Final = 60

VERSIONS: Final = (
    "4.3.1",
    pytest.param("4.2.0", marks=pytest.mark.long),
    pytest.param("3.9.1", marks=pytest.mark.long),
)
"""The releases of Kafka that a test runs with; the older ones in `make long`."""

_folders: Final[list[Path]] = []


def keep_classes_in(folder: Path) -> None:
    """The folder for what Java has read of Kafka in this run of the suite."""
    _folders[:] = [folder]


def runtime(version: str) -> Runtime:
    """The programs of this release; the test is skipped, with the reason, without them."""
    try:
        found = find_runtime(version, lambda _: None)
    except Unavailable as unavailable:
        pytest.skip(str(unavailable))
    for folder in _folders:
        found = sharing_classes(found, folder)
    return found


def dump_log(version: str, file: Path) -> str:
    """The output of Kafka's log dumper for a metadata log or checkpoint."""
    # 4.3 has moved it.
    package = "kafka.tools" if version in ("3.9.1", "4.2.0") else "org.apache.kafka.tools"
    arguments = ("--cluster-metadata-decoder", "--files", str(file))
    done = subprocess.run(
        runtime(version).tool(f"{package}.DumpLogSegments", arguments),
        capture_output=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
