"""The errors of a node that cannot find the others with its configuration."""

import logging
from pathlib import Path

import pytest

from quorum.bootstrap import discovery_state
from quorum.core.vocabulary import HostPort, ReplicaId
from quorum.persistent_state import QuorumConfig

ME = ReplicaId(1)
SERVER: HostPort = ("127.0.0.1", 9093)


def warned(
    caplog: pytest.LogCaptureFixture,
    voters: dict[int, HostPort | None],
    *,
    bootstrap: tuple[HostPort, ...] = (),
    has_log: bool = False,
) -> str:
    config = QuorumConfig(
        node_id=ME,
        folder=Path("/data"),
        advertised=SERVER,
        voters={ReplicaId(each): place for each, place in voters.items()},
        bootstrap=bootstrap,
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING, "quorum"):
        discovery_state(config, has_log=has_log)
    return caplog.text


def test_founders_that_nobody_can_look_for_are_named(caplog: pytest.LogCaptureFixture) -> None:
    text = warned(caplog, {1: None, 2: None, 3: None})
    assert "The addresses of voters 2, 3 are unknown" in text
    assert "Set bootstrap.servers, or write quorum.voters as id@host:port" in text
    assert "The addresses of voters 2 are" in warned(caplog, {1: None, 2: None})


def test_nothing_is_said_where_a_majority_can_be_found(caplog: pytest.LogCaptureFixture) -> None:
    assert not warned(caplog, {1: None})
    assert not warned(caplog, {1: None, 2: SERVER, 3: None})
    assert not warned(caplog, {1: None, 2: None, 3: None}, bootstrap=(SERVER,))
    assert not warned(caplog, {1: None, 2: None, 3: None}, has_log=True)
    assert not warned(caplog, {})
