"""Kafka's own command-line tools, for tests that hold us against them.

They need Java and the jars of the release in the cache, where `metaquorum local --kafka VERSION`
puts them. Without either, the test is skipped and says so; it fetches nothing.
"""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from admin.apache.jars import cached
from admin.apache.java import Unavailable, find_java
from admin.apache.releases import RELEASES
from admin.apache.runtime import Runtime

TOOL_SECONDS_MAX: Final = 60


def runtime(version: str) -> Runtime:
    """What runs this release; the test is skipped where it is not at hand."""
    jars = cached(version)
    if jars is None:
        pytest.skip(f"the jars of Kafka {version} are not in the cache")
    try:
        return Runtime(release=RELEASES[version], java=find_java(), jars=jars)
    except Unavailable as error:
        pytest.skip(str(error))


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
