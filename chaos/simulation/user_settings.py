"""Settings of the product, from a user's file, in place of those that a seed draws.

A simulation takes the settings that decide its course; any other is refused by its name, as it
would have no effect.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from admin.config import from_file
from admin.settings import InvalidSetting
from chaos.cluster.profile import ClusterProfile
from chaos.simulation.named_profiles import OF_SNAPSHOTS
from chaos.simulation.profile import BYTES_BETWEEN, Profile
from quorum.core.limits import FETCH_WAIT_MS_MAX

TIMEOUT_MS_MAX: Final = 5_000
"""Faults last for 20 s, and what is healed must work within 60 s."""
SESSION_MS_MIN: Final = 2_000
"""The shortest session that a seed draws."""

TIMEOUTS: Final[Mapping[str, str]] = {
    "quorum.election.timeout.ms": "election_timeout_ms",
    "quorum.election.backoff.max.ms": "election_backoff_ms_max",
    "quorum.fetch.timeout.ms": "fetch_timeout_ms",
    "quorum.request.timeout.ms": "request_timeout_ms",
    "quorum.retry.backoff.ms": "retry_backoff_ms",
    "quorum.retry.backoff.max.ms": "retry_backoff_ms_max",
}
SNAPSHOTS: Final[Mapping[str, str]] = {
    "metadata.log.max.record.bytes.between.snapshots": "bytes_between",
    "metadata.log.max.snapshot.interval.ms": "interval_ms",
    "metadata.max.retention.bytes": "retention_bytes",
    "metadata.max.retention.ms": "retention_ms",
}
CLUSTERS: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "session_timeout_ms",
    "broker.heartbeat.interval.ms": "heartbeat_interval_ms",
    "replica.lag.time.max.ms": "lag_ms_max",
}
TAKEN: Final = (*TIMEOUTS, *SNAPSHOTS, *CLUSTERS)
MOST_MS: Final[Mapping[str, int]] = {
    **dict.fromkeys(TIMEOUTS, TIMEOUT_MS_MAX),
    "broker.session.timeout.ms": 9_000,
    "replica.lag.time.max.ms": 10_000,
}


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The settings of one file, by the fields that they set."""

    timeouts: Mapping[str, Any]
    snapshots: Mapping[str, Any]
    cluster: Mapping[str, Any]

    def applied_to(self, profile: Profile) -> Profile:
        """The profile with these settings."""
        timeouts = profile.timeouts
        if self.timeouts:
            given = {
                **{name: getattr(timeouts, name) for name in TIMEOUTS.values()},
                **self.timeouts,
            }
            wait_ms = min(FETCH_WAIT_MS_MAX, given["fetch_timeout_ms"] // 3)
            timeouts = replace(timeouts, **given, fetch_wait_ms=wait_ms)
        snapshots = replace(profile.snapshots, **self.snapshots)
        profile = replace(profile, timeouts=timeouts, snapshots=snapshots)
        if snapshots.bytes_between > BYTES_BETWEEN[2]:
            profile = without(profile, OF_SNAPSHOTS)
        if isinstance(profile, ClusterProfile):
            profile = replace(profile, settings=replace(profile.settings, **self.cluster))
        return profile


def without(profile: Profile, faults: Iterable[object]) -> Profile:
    """The profile without these kinds of faults."""
    gone = {*faults}
    return replace(
        profile,
        faults=tuple(each for each in profile.faults if each not in gone),
        strikes=tuple(each for each in profile.strikes if each.fault not in gone),
    )


def read_settings(path: Path) -> UserSettings:
    """The settings of a .properties or .toml file; raises `InvalidSetting`."""
    values: dict[str, Any] = {}
    for given in from_file(path):
        name = given.setting.name
        if name not in TAKEN:
            taken = ", ".join(TAKEN)
            raise InvalidSetting(
                f"{given.where}: {name} has no effect in the simulation, which takes {taken}"
            )
        value, most_ms = given.value(), MOST_MS.get(name)
        if most_ms is not None and value > most_ms:
            raise InvalidSetting(
                f"{given.where}: {name} is {value}; a simulated run takes at most {most_ms}"
            )
        values[name] = value
    heartbeat_ms = values.get("broker.heartbeat.interval.ms", 0)
    session_ms = values.get("broker.session.timeout.ms", SESSION_MS_MIN)
    if 2 * heartbeat_ms > session_ms:
        raise InvalidSetting(
            f"{path}: broker.heartbeat.interval.ms is {heartbeat_ms}, more than half of "
            f"broker.session.timeout.ms, which is {session_ms}"
        )
    tables = (TIMEOUTS, SNAPSHOTS, CLUSTERS)
    return UserSettings(*({t[n]: v for n, v in values.items() if n in t} for t in tables))
