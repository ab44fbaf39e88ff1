"""The releases of Apache Kafka that this project is tested with, and what each of them needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

GROUP: Final = "org.apache.kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Something that Maven can bring, by its coordinates."""

    group: str
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release: its brokers and its command-line tools."""

    version: str
    metadata_version: int
    """The highest level that its brokers can read."""
    logging: tuple[Artifact, ...]
    """What writes the log lines; Kafka's own artifacts leave the choice open."""
    logging_property: str
    """The system property of Java that names the file which says how."""
    logging_file: str

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        own = (Artifact(group=GROUP, name=n, version=self.version) for n in ("kafka_2.13", TOOLS))
        return (*own, *self.logging)


TOOLS: Final = "kafka-tools"
_LOG4J: Final = "2.25.3"

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

RELEASES: Final[Mapping[str, Release]] = MappingProxyType(
    {
        "3.9.1": Release(
            version="3.9.1",
            metadata_version=21,
            logging=(Artifact(group="org.slf4j", name="slf4j-reload4j", version="1.7.36"),),
            logging_property="log4j.configuration",
            logging_file=_RELOAD4J_FILE,
        ),
        "4.2.0": Release(
            version="4.2.0",
            metadata_version=29,
            logging=(
                Artifact(group="org.apache.logging.log4j", name="log4j-slf4j-impl", version=_LOG4J),
                Artifact(group="org.apache.logging.log4j", name="log4j-core", version=_LOG4J),
            ),
            logging_property="log4j2.configurationFile",
            logging_file=_LOG4J2_FILE,
        ),
    }
)
