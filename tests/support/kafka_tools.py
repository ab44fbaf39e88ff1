"""Kafka's own programs, for tests that hold us against them.

They need Java and Maven, which brings the jars once into the cache where `metaquorum local --kafka`
puts them too. Where one is missing, the test is skipped and says which.
"""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from admin.apache.java import Unavailable
from admin.apache.runtime import Runtime, find

TOOL_SECONDS_MAX: Final = 60


def runtime(version: str) -> Runtime:
    """What runs this release; the test is skipped, with the reason, where it cannot be run."""
    try:
        return find(version, lambda _: None)
    except Unavailable as unavailable:
        pytest.skip(str(unavailable))


def dump_log(version: str, file: Path) -> str:
    """What Kafka's log dumper prints of a metadata log or checkpoint."""
    arguments = ("--cluster-metadata-decoder", "--files", str(file))
    done = subprocess.run(
        runtime(version).tool("kafka.tools.DumpLogSegments", arguments),
        capture_output=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
