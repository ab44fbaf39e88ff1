"""The command lines of Kafka's programs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from admin.apache.releases import Release

BROKER: Final = "kafka.Kafka"

_SMALL: Final = (
    "-Xms64m",
    "-Xmx320m",
    "-XX:+UseSerialGC",
    # These processes are many on one machine and live for minutes: they shall be up soon.
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
)


def command(
    java: Path, jars: Path, main: str, arguments: Sequence[str], *, properties: Sequence[str] = ()
) -> list[str]:
    """The command line that runs the class `main`, with system properties `name=value`."""
    options = (f"-D{each}" for each in properties)
    return [str(java), *_SMALL, *options, "-cp", str(jars / "*"), main, *arguments]


def broker_command(
    java: Path, jars: Path, release: Release, settings: Path, logging: Path
) -> list[str]:
    """The command line of a broker with these two files."""
    value = logging.as_uri() if release.logging_property == "log4j.configuration" else str(logging)
    properties = (f"{release.logging_property}={value}",)
    return command(java, jars, BROKER, [str(settings)], properties=properties)
