"""The configuration of a node from a file, the environment and flags, and its errors."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from admin.config import BrokerNodeConfig, Config, load
from admin.settings import SETTINGS, InvalidSetting, as_markdown
from broker.config import BrokerConfig
from quorum.core.vocabulary import ReplicaId
from quorum.transport.address import Address

CONTROLLER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "log.dir": "data",
        "quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094,3@[::1]:9095",
    }
)
BROKER: Final[Mapping[str, str]] = MappingProxyType(
    {**CONTROLLER, "process.roles": "broker", "node.id": "101", "listeners": "127.0.0.1:9092"}
)


def properties(folder: Path, values: Mapping[str, str], **more: str) -> Path:
    path = folder / "node.properties"
    lines = {**values, **{name.replace("_", "."): value for name, value in more.items()}}
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()), encoding="utf-8")
    return path


def refusal(path: Path | None, environ: Mapping[str, str] | None = None, *flags: str) -> str:
    with pytest.raises(InvalidSetting) as raised:
        load(path, environ or {}, flags)
    return str(raised.value)


def controller(path: Path | None, environ: Mapping[str, str], *flags: str) -> Config:
    config = load(path, environ, flags)
    assert isinstance(config, Config)
    return config


def test_a_controller_is_read_from_properties(tmp_path: Path) -> None:
    path = properties(
        tmp_path, CONTROLLER, quorum_fetch_timeout_ms="3s", quorum_observer_linger_ms="0"
    )
    config = controller(path, {})
    assert config.quorum.node_id == 1
    assert config.listener == Address("127.0.0.1", 9093)
    assert config.quorum.voters[ReplicaId(1)] == config.listener
    assert {str(address) for address in config.quorum.voters.values()} >= {"[::1]:9095"}
    timeouts = config.quorum.timeouts
    assert (timeouts.fetch_timeout_ms, timeouts.fetch_wait_ms) == (3_000, 500)
    assert timeouts.observer_linger_ms == 0
    assert config.http is None
    assert config.quorum.cluster_id is None


def test_a_leader_keeps_fetches_no_longer_than_a_third_of_the_fetch_timeout(
    tmp_path: Path,
) -> None:
    path = properties(tmp_path, CONTROLLER, quorum_fetch_timeout_ms="1s")
    assert controller(path, {}).quorum.timeouts.fetch_wait_ms == 333


def test_a_broker_is_read_from_toml_with_nested_tables_lists_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        'process.roles = "broker"\nnode.id = 101\nlisteners = "127.0.0.1:9092"\n'
        'log.dir = "data"\nquorum.voters = ["1@127.0.0.1:9093", "2@127.0.0.1:9094"]\n'
        '[replica]\nfetch.max.bytes = "64KiB"\nlag.time.max.ms = 5000\n',
        encoding="utf-8",
    )
    config = load(path, {})
    assert isinstance(config, BrokerConfig)
    assert (config.quorum.node_id, config.listener) == (101, ("127.0.0.1", 9092))
    assert dict(config.quorum.voters) == {1: ("127.0.0.1", 9093), 2: ("127.0.0.1", 9094)}
    assert config.replica_fetch_max_bytes == 65_536
    assert config.replica_lag_time_max_ms == 5_000


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = properties(tmp_path, CONTROLLER, num_partitions="2")
    environ = {"METAQUORUM_NUM_PARTITIONS": "3", "PATH": "kept out"}
    assert controller(path, {}).num_partitions == 2
    assert controller(path, environ).num_partitions == 3
    assert controller(path, environ, "num.partitions=4").num_partitions == 4


def test_the_window_of_the_quotas_of_mutations_is_its_samples_together(tmp_path: Path) -> None:
    assert controller(properties(tmp_path, CONTROLLER), {}).mutation_window_seconds == 11
    num, size = "controller.quota.window.num=3", "controller.quota.window.size.seconds=4"
    path = properties(tmp_path, CONTROLLER)
    assert controller(path, {}, num, size).mutation_window_seconds == 12


def test_a_node_needs_no_file() -> None:
    flags = [f"{name}={value}" for name, value in CONTROLLER.items()]
    assert controller(None, {}, *flags).quorum.node_id == 1


def test_options_of_commands_in_the_environment_are_not_settings(tmp_path: Path) -> None:
    path = properties(tmp_path, CONTROLLER)
    assert controller(path, {"METAQUORUM_BOOTSTRAP_SERVER": "127.0.0.1:9092"}).quorum.node_id == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("node.idd=1", "node.idd is not a setting; did you mean node.id?"),
        ("controller.quorum.voters=1@h:1", "did you mean quorum.voters?"),
        ("zzz=1", "zzz is not a setting; `metaquorum settings` lists them"),
        ("node.id=7", "node.id is already set in line 2"),
        ("node.id", "'node.id' is not name=value"),
        ("num.partitions=many", "num.partitions: 'many' is not a whole number"),
        ("num.partitions=0", "num.partitions is 0; it must be from 1 to 100000"),
        ("quorum.fetch.timeout.ms=200", "quorum.fetch.timeout.ms is 200; it must be from 300 to"),
        ("quorum.fetch.timeout.ms=5 seconds", "has no unit that is known: write ms, s, min, h, d"),
        ("log.segment.bytes=8Mi", "has no unit that is known: write B, kB, MB, GB, KiB, MiB, GiB"),
        ("cluster.id=mine", "'mine' is not a cluster id: 22 letters, digits, - and _ (a uuid)"),
        ("http.listener=8080", "http.listener: '8080': a port is missing, as in 8080:9092"),
        ("http.listener=127.0.0.1:9093", "http.listener and listeners are both 127.0.0.1:9093"),
        ("metadata.version=14", "metadata.version: '14' is no level of metadata.version: write a"),
        ("metadata.version=4.4", "or a release from 3.7-IV0 to 4.3-IV0, like 3.9 or 3.9-IV0"),
        ("metadata.max.idle.interval.ms=-1", "metadata.max.idle.interval.ms: '-1' is not a time"),
        ("broker.rack=a", "broker.rack is a setting of brokers; this node is a controller"),
        ("broker.rack=", "broker.rack is a setting of brokers"),
    ],
)
def test_an_invalid_line_is_refused_with_its_position_and_the_valid_form(
    tmp_path: Path, line: str, message: str
) -> None:
    path = properties(tmp_path, CONTROLLER)
    path.write_text(f"{path.read_text()}\n# by hand\n{line}\n", encoding="utf-8")
    said = refusal(path)
    assert message in said
    if "are both" not in message:
        assert said.startswith(f"{path}:8: ")


@pytest.mark.parametrize(
    ("voters", "message"),
    [
        ("1@h:1,1@h:2", "voter 1 is named twice"),
        ("1@h:1,2@h:1", "h:1 is the address of two voters"),
        ("-1@h:1", "'-1@h:1' is neither id nor id@host:port"),
        ("one", "'one' is neither id nor id@host:port, like 1@127.0.0.1:9093"),
        ("1,1", "voter 1 is named twice"),
        ("1@h:0", "a port is a number from 1 to 65535"),
        ("", "'' is neither id nor id@host:port"),
        (",".join(f"{i}@h:{i}" for i in range(1, 102)), "101 voters are named, at most 100"),
    ],
)
def test_wrong_voters_are_refused(tmp_path: Path, voters: str, message: str) -> None:
    assert message in refusal(properties(tmp_path, CONTROLLER, quorum_voters=voters))


def test_voters_may_be_named_by_id_alone(tmp_path: Path) -> None:
    config = controller(properties(tmp_path, CONTROLLER, quorum_voters="1,2@h:1, 3"), {})
    assert config.quorum.voters == {1: None, 2: Address("h", 1), 3: None}


def test_a_controller_that_is_not_among_the_voters_needs_servers_to_ask(tmp_path: Path) -> None:
    joining = {**CONTROLLER, "node.id": "4", "quorum.voters": "1,2,3"}
    said = refusal(properties(tmp_path, joining))
    assert "quorum.voters is 1,2,3, without an address, and bootstrap.servers is not set" in said
    path = properties(tmp_path, joining, bootstrap_servers="h:1, [::1]:2")
    assert controller(path, {}).quorum.bootstrap == (Address("h", 1), Address("::1", 2))


def test_a_node_without_voters_and_servers_is_told_of_both(tmp_path: Path) -> None:
    alone = {name: value for name, value in CONTROLLER.items() if name != "quorum.voters"}
    assert "neither bootstrap.servers nor quorum.voters is set" in refusal(
        properties(tmp_path, alone)
    )
    assert controller(properties(tmp_path, alone, bootstrap_servers="h:1"), {}).quorum.voters == {}


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ("h", "a port is missing"),
        ("h:1,h:1", "h:1 is listed twice"),
        (",".join(f"h:{port}" for port in range(1, 66)), "65 servers, at most 64"),
    ],
)
def test_wrong_servers_are_refused(tmp_path: Path, servers: str, message: str) -> None:
    assert message in refusal(properties(tmp_path, CONTROLLER, bootstrap_servers=servers))


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({}, "127.0.0.1:9093"),
        ({"listeners": "127.0.0.1:7000"}, "127.0.0.1:7000"),
        ({"listeners": "0.0.0.0:7000"}, "127.0.0.1:9093"),
        ({"advertised.listeners": "c1.example:9093"}, "c1.example:9093"),
    ],
)
def test_a_controller_is_found_where_it_says_or_else_where_it_listens(
    tmp_path: Path, more: Mapping[str, str], place: str
) -> None:
    """Its entry in quorum.voters counts last: it may be from before the node has moved."""
    config = controller(properties(tmp_path, {**CONTROLLER, **more}), {})
    assert str(config.quorum.advertised) == place


def test_a_controller_that_nobody_could_connect_to_is_refused(tmp_path: Path) -> None:
    path = properties(tmp_path, CONTROLLER, listeners="0.0.0.0:9093", quorum_voters="1")
    assert "which no client can connect to; set an address in advertised.listeners" in refusal(path)


@pytest.mark.parametrize(
    ("written", "level"),
    [("21", 21), ("3.9", 21), ("3.9-IV0", 21), ("3.9.1", 21), ("4.2", 29), ("4.3.1", 30)],
)
def test_the_level_of_a_new_cluster_is_a_number_or_a_release(
    tmp_path: Path, written: str, level: int
) -> None:
    config = load(properties(tmp_path, CONTROLLER, metadata_version=written), {})
    assert isinstance(config, Config)
    assert config.metadata_version == level
    assert config.no_op_interval_ms == 500


def test_a_missing_setting_is_named_with_every_way_to_give_it(tmp_path: Path) -> None:
    path = properties(tmp_path, {name: CONTROLLER[name] for name in ("process.roles", "node.id")})
    said = refusal(path)
    assert f"listeners is not set: write it in {path}, as METAQUORUM_LISTENERS, or as " in said
    assert "process.roles is not set: write it in a file (--config)" in refusal(None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"node.id": "2"}, "node.id 2 is a voter in quorum.voters; a broker needs another id"),
        ({"listeners": "0.0.0.0:9092"}, "which no client can connect to; set an address in adv"),
        ({"broker.heartbeat.interval.ms": "5s"}, "must be at most half of broker.session.timeout"),
    ],
)
def test_settings_of_a_broker_that_contradict_each_other_are_refused(
    tmp_path: Path, more: Mapping[str, str], message: str
) -> None:
    assert message in refusal(properties(tmp_path, {**BROKER, **more}))


def test_a_broker_may_listen_everywhere_when_it_says_where_to_find_it(tmp_path: Path) -> None:
    path = properties(
        tmp_path, BROKER, listeners="0.0.0.0:9092", advertised_listeners="broker.example:9092"
    )
    config = load(path, {})
    assert isinstance(config, BrokerConfig)
    assert config.listener.host == "0.0.0.0"
    assert config.quorum.advertised == ("broker.example", 9092)


def test_a_variable_that_is_no_setting_is_refused_with_the_near_one(tmp_path: Path) -> None:
    said = refusal(properties(tmp_path, CONTROLLER), {"METAQUORUM_NODEID": "1"})
    assert said == (
        "environment variable METAQUORUM_NODEID is not a setting; did you mean METAQUORUM_NODE_ID?"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", b"node.id = ", "is not TOML: Invalid value (at end of document)"),
        ("a.toml", b"node.id = 1\n'node.id' = 2", "node.id is set twice, in quotes and without"),
        ("a.toml", b"node.id = true", "node.id is a boolean; no setting takes one"),
        ("a.toml", b"node.id = 1.5", "node.id is 1.5; write text in quotes, a whole number"),
        ("a.properties", b"\xff", "is not UTF-8 text: byte 0 is wrong"),
        ("a.yaml", b"", "has the suffix .yaml; a configuration is .toml or .properties"),
        ("a", b"", "has no suffix"),
        ("a.toml", b"#" * (1024 * 1024 + 1), "is larger than 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    said = refusal(path)
    assert message in said
    assert str(path) in said


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert refusal(path) == f"{path} cannot be read: No such file or directory"


def test_a_flag_that_is_no_pair_is_refused() -> None:
    assert refusal(None, {}, "node.id") == "--override node.id is not name=value"


def test_every_default_lies_within_its_own_bounds() -> None:
    for setting in SETTINGS.values():
        assert not (setting.required and setting.default is not None)
        if setting.default is not None:
            parsed = setting.parse(str(setting.default))
            assert isinstance(setting.default, str) or parsed == setting.default


def test_the_documentation_has_a_row_for_every_setting() -> None:
    rows = as_markdown().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(SETTINGS)
    assert all(row.count(" | ") == 4 for row in rows)


AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_the_authorizer_has_the_settings_of_kafkas(tmp_path: Path) -> None:
    config = controller(properties(tmp_path, CONTROLLER), {})
    assert config.authorizer is None
    path = properties(
        tmp_path,
        CONTROLLER,
        authorizer_class_name=AUTHORIZER,
        super_users="User:CN=a,O=b; User:admin",
        allow_everyone_if_no_acl_found="true",
    )
    config = controller(path, {})
    assert config.authorizer is not None
    assert config.authorizer.super_users == {"User:CN=a,O=b", "User:admin"}
    assert config.authorizer.allow_if_no_acl
    assert config.early_listeners == {"CONTROLLER"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"}, "AclAuthorizer"),
        ({"super_users": "User:admin"}, "without authorizer.class.name"),
        ({"super_users": "admin", "authorizer_class_name": AUTHORIZER}, "'admin' is not a"),
        ({"allow_everyone_if_no_acl_found": "yes"}, "neither true nor false"),
        ({"early_start_listeners": "OTHER"}, "names OTHER"),
    ],
)
def test_an_authorizer_that_would_not_protect_is_refused(
    tmp_path: Path, settings: Mapping[str, str], words: str
) -> None:
    assert words in refusal(properties(tmp_path, CONTROLLER, **settings))


def test_the_key_of_tokens_has_two_names_and_shows_under_neither(tmp_path: Path) -> None:
    for name in ("delegation_token_secret_key", "delegation_token_master_key"):
        config = controller(properties(tmp_path, CONTROLLER, **{name: "swordfish"}), {})
        assert config.tokens.secret_key == "swordfish"
        broker = load(properties(tmp_path, BROKER, **{name: "swordfish"}), {}, ())
        assert isinstance(broker, BrokerConfig)
        assert broker.tokens.secret_key == "swordfish"
        # DescribeConfigs shows it.
        assert broker.settings[name.replace("_", ".")] == "[hidden]"
        assert "swordfish" not in repr(config)
        assert "swordfish" not in repr(broker)
    assert controller(properties(tmp_path, CONTROLLER), {}).tokens.secret_key is None


def test_two_keys_of_tokens_are_refused_unless_they_are_the_same(tmp_path: Path) -> None:
    keys = {"delegation_token_secret_key": "one", "delegation_token_master_key": "other"}
    said = refusal(properties(tmp_path, CONTROLLER, **keys))
    assert "delegation.token.secret.key and delegation.token.master.key differ" in said
    assert "one" not in said.split()
    same = dict.fromkeys(keys, "one")
    assert controller(properties(tmp_path, CONTROLLER, **same), {}).tokens.secret_key == "one"
    empty = refusal(properties(tmp_path, CONTROLLER, delegation_token_secret_key=""))
    assert empty.endswith("delegation.token.secret.key: it is empty; leave the setting out instead")


def test_tls_of_http_is_set_by_its_own_settings_alone(tmp_path: Path) -> None:
    general = {"ssl.keystore.location": "/node.pem", "ssl.client.auth": "required"}
    http = {"http.listener": "127.0.0.1:8443"}
    config = controller(properties(tmp_path, {**CONTROLLER, **general, **http}), {})
    assert config.http is not None
    assert config.http.tls is None
    own = {"listener.name.http.ssl.keystore.location": "/http.pem"}
    config = controller(properties(tmp_path, {**CONTROLLER, **general, **http, **own}), {})
    assert config.http is not None
    assert config.http.tls is not None
    assert not config.http.takes_certificates
    for more, said in (
        (
            {"listener.name.http.ssl.client.auth": "required"},
            "listener.name.http.ssl.client.auth is set without "
            "listener.name.http.ssl.keystore.location",
        ),
        (
            {**own, "listener.name.http.ssl.client.auth": "required"},
            "listener.name.http.ssl.truststore.location is not set",
        ),
    ):
        assert said in refusal(properties(tmp_path, {**CONTROLLER, **http, **more}))


def test_a_broker_has_an_http_listener_by_the_same_settings(tmp_path: Path) -> None:
    http = {"http.listener": "127.0.0.1:8080", "http.tokens.file": "/tokens"}
    config = load(properties(tmp_path, {**BROKER, **http}), {})
    assert isinstance(config, BrokerNodeConfig)
    assert config.http is not None
    assert config.http.listener == ("127.0.0.1", 8080)
    assert config.other_connections_max == config.http.limits.connections_max > 0
    assert config.http.tokens == Path("/tokens")
    plain = load(properties(tmp_path, BROKER), {})
    assert isinstance(plain, BrokerNodeConfig)
    assert plain.http is None
    taken = {"http.listener": BROKER["listeners"]}
    assert "each needs a port" in refusal(properties(tmp_path, {**BROKER, **taken}))


def test_no_setting_silences_the_audit_log(tmp_path: Path) -> None:
    path = properties(tmp_path, CONTROLLER)
    config = controller(path, {}, "log.levels=WARN,quorum=DEBUG")
    assert config.log.levels == {"root": 30, "quorum": 10}
    said = refusal(path, {}, "log.levels=WARN,audit=FATAL")
    assert "audit=FATAL: the audit log has no level, it is always written" in said
