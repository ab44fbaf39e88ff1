"""A user's settings in a simulation: what they change, and what is refused."""

from pathlib import Path

import pytest

from admin.settings import InvalidSetting
from chaos.cluster.profile import ClusterProfile
from chaos.outcome import run
from chaos.simulation.profile import Profile
from chaos.simulation.user_settings import UserSettings, read_settings


def settings(tmp_path: Path, *lines: str) -> UserSettings:
    path = tmp_path / "node.properties"
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_settings(path)


def test_settings_take_the_place_of_what_the_seed_draws(tmp_path: Path) -> None:
    given = settings(
        tmp_path,
        "quorum.election.timeout.ms=700",
        "quorum.fetch.timeout.ms=900",
        "metadata.log.max.record.bytes.between.snapshots=1234",
        "broker.session.timeout.ms=3000",
    )
    quorum = given.applied_to(Profile.drawn(3))
    assert quorum.timeouts.election_timeout_ms == 700
    assert (quorum.timeouts.fetch_timeout_ms, quorum.timeouts.fetch_wait_ms) == (900, 300)
    assert quorum.snapshots.bytes_between == 1234
    assert quorum.strikes == Profile.drawn(3).strikes
    cluster = given.applied_to(ClusterProfile.drawn(3))
    assert isinstance(cluster, ClusterProfile)
    assert cluster.settings.session_timeout_ms == 3_000


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("quorum.election.timeout=700", r"node.properties:1: .* is not a setting; did you mean"),
        ("http.listener=127.0.0.1:80", r"http.listener has no effect in the simulation"),
        ("quorum.fetch.timeout.ms=60000", r"a simulated run takes at most 5000"),
        ("quorum.fetch.timeout.ms=soon", r"node.properties:1: quorum.fetch.timeout.ms"),
    ],
)
def test_a_setting_that_the_simulation_cannot_take_is_refused_by_name(
    tmp_path: Path, line: str, why: str
) -> None:
    with pytest.raises(InvalidSetting, match=why):
        settings(tmp_path, line)


def test_settings_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    heartbeat = "broker.heartbeat.interval.ms=1500"
    with pytest.raises(InvalidSetting, match=r"1500, more than half of .* which is 2000"):
        settings(tmp_path, heartbeat)
    fitting = settings(tmp_path, heartbeat, "broker.session.timeout.ms=3000")
    assert fitting.cluster["session_timeout_ms"] == 3_000


@pytest.mark.thorough
def test_a_quorum_runs_with_long_time_outs_and_no_snapshots(tmp_path: Path) -> None:
    given = settings(
        tmp_path,
        "quorum.election.timeout.ms=5000",
        "quorum.fetch.timeout.ms=5000",
        "metadata.log.max.record.bytes.between.snapshots=20971520",
    )
    for seed in (2, 4):
        assert run(given.applied_to(Profile.drawn(seed))).failure is None
