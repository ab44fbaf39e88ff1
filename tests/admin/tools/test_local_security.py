"""The files of a secured local cluster: who may read them, what they say, and that they stay."""

import json
import random
import stat
from functools import partial
from pathlib import Path

import pytest

from admin.config import Config, load
from admin.formatted import formatted
from admin.tools.certificates import write_new
from admin.tools.local_plan import (
    SETTINGS_FILE,
    ClusterPlan,
    LocalError,
    MoreOfNode,
    Wanted,
    log_dir,
    settle,
    write_settings,
)
from admin.tools.local_security import LocalSecurity
from broker.config import BrokerConfig
from quorum.transport.security.credentials import ScramMechanism
from quorum.transport.security.protocols import SecurityProtocol
from quorum.transport.security.scram import credential_of

WANTED = Wanted(controllers=2, brokers=2, base_port=0, is_secure=True)
LEVEL = 29


def secured(folder: Path) -> tuple[ClusterPlan, LocalSecurity]:
    """A plan, with all its files written."""
    plan, security = settle(folder, WANTED, random.Random(1)), LocalSecurity(folder)
    write(plan, security)
    return plan, security


def write(plan: ClusterPlan, security: LocalSecurity) -> None:
    security.prepare(plan, LEVEL)
    write_settings(
        security.folder, plan, {}, MoreOfNode(partial(security.settings, plan), write_new)
    )


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_only_the_owner_reads_what_has_a_key_or_a_password(tmp_path: Path) -> None:
    secured(tmp_path / "cluster")
    users = json.loads((tmp_path / "cluster" / "security" / "users.json").read_text())
    assert set(users) == {
        "admin",
        "app",
        "controller-1",
        "controller-2",
        "broker-101",
        "broker-102",
    }
    assert len(set(users.values())) == len(users)
    token_key = (tmp_path / "cluster" / "security" / "delegation.key").read_bytes().strip()
    secrets = [*(each.encode() for each in users.values()), token_key, b"PRIVATE KEY"]
    found = contents(tmp_path / "cluster")
    with_secrets = [
        path for path, content in found.items() if any(each in content for each in secrets)
    ]
    # Two client files, the users, the key of the authority, that of delegation tokens, and a key
    # store and settings a node.
    assert len(with_secrets) == 5 + 2 * 4
    for path in with_secrets:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_every_node_takes_its_settings_and_every_listener_is_secured(tmp_path: Path) -> None:
    plan, security = secured(tmp_path)
    token_key = (tmp_path / "security" / "delegation.key").read_text().strip()
    for node in plan.nodes:
        config = load(tmp_path / node.name / SETTINGS_FILE, {})
        for each in config.listeners:
            assert each.security.protocol is SecurityProtocol.SASL_SSL
            each.security.check()
        assert config.tokens.secret_key == token_key
        config.quorum.security.check()
        assert config.quorum.security.protocol is SecurityProtocol.SASL_SSL
        if isinstance(config, Config):
            assert config.http is not None
            assert config.http.tls is not None
            assert config.http.tokens is not None
        if isinstance(config, BrokerConfig):
            assert config.inter_broker.protocol is SecurityProtocol.SASL_SSL
    for client in (security.admin(), security.application()):
        client.security.check()


def test_the_first_leader_finds_the_credentials_of_all_users(tmp_path: Path) -> None:
    plan, _ = secured(tmp_path)
    users = json.loads((tmp_path / "security" / "users.json").read_text())
    said = [formatted(log_dir(tmp_path, node)) for node in plan.controllers]
    assert said[0] is not None
    assert said[1] is not None
    assert said[0].scram_credentials == said[1].scram_credentials
    for found in said[0].scram_credentials:
        password = users.pop(found.name)
        expected = credential_of(ScramMechanism.SHA_512, password, found.salt, found.iterations)
        assert (found.stored_key, found.server_key) == (expected.stored_key, expected.server_key)
    assert not users


def test_written_again_everything_stays_and_what_is_missing_comes_back(tmp_path: Path) -> None:
    plan, security = secured(tmp_path)
    before = contents(tmp_path)
    write(settle(tmp_path, Wanted(), random.Random(2)), security)
    assert contents(tmp_path) == before
    # The settings of a node have the passwords that the others know.
    (tmp_path / "controller-1" / SETTINGS_FILE).unlink()
    write(plan, security)
    assert contents(tmp_path) == before


def test_a_folder_keeps_what_it_was_made_with(tmp_path: Path) -> None:
    settle(tmp_path, Wanted(controllers=1, brokers=1, base_port=0), random.Random(1))
    with pytest.raises(LocalError, match="--secure contradicts the cluster in"):
        settle(tmp_path, Wanted(is_secure=True), random.Random(1))
