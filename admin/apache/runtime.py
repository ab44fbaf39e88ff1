"""What it takes to run one release of Kafka on this machine: found once, then used for many."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from admin.apache.jars import fetch, release_of
from admin.apache.java import find_java
from admin.apache.processes import broker_command, command
from admin.apache.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A release with its jars, and a Java that can run them."""

    release: Release
    java: Path
    jars: Path

    def broker(self, settings: Path, logging: Path) -> list[str]:
        """The command line of a broker with these two files."""
        return broker_command(self.java, self.jars, self.release, settings, logging)

    def tool(self, name: str, arguments: Sequence[str]) -> list[str]:
        """The command line of one of Kafka's tools, by the name of its class."""
        return command(self.java, self.jars, name, arguments)


def find(version: str, say: Callable[[str], None]) -> Runtime:
    """All that it takes, fetched if need be; raises `Unavailable` with what to install."""
    release = release_of(version)
    java = find_java()
    return Runtime(release=release, java=java, jars=fetch(version, say))
