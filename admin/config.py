"""The configuration of a node, from a file (TOML or properties), the environment and flags.

A flag wins over the environment, the environment over the file. `load` reads these sources,
checks the settings as a whole and returns one frozen value. It raises `InvalidSetting`, one
sentence that names the setting, its value, where it was written and what is right.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, assert_never

from admin.http.limits import HttpLimits
from admin.http.tls import ClientAuth, TlsFiles
from admin.settings import (
    BY_ENVIRONMENT,
    ENVIRONMENT_PREFIX,
    SETTINGS,
    InvalidSetting,
    Role,
    Setting,
    suggestion,
)
from broker.config import BrokerConfig, InvalidConfig
from controller.delegation_tokens import DelegationTokenConfig
from quorum.core.limits import FETCH_WAIT_MS_MAX, Timeouts
from quorum.core.vocabulary import ReplicaId
from quorum.persistent_state import QuorumConfig
from quorum.snapshotting import SnapshotLimits
from quorum.transport.address import Address

FILE_BYTES_MAX: Final = 1024 * 1024

COMMAND_LINE_VARIABLES: Final = frozenset(
    {"METAQUORUM_BOOTSTRAP_SERVER", "METAQUORUM_BOOTSTRAP_CONTROLLER"}
)
"""Variables with the prefix of settings that are options of commands."""


@dataclass(frozen=True, slots=True)
class Given:
    """A setting with the text that it was given, and where."""

    setting: Setting
    text: str
    where: str

    def value(self) -> Any:
        """Parse the text; raises `InvalidSetting`, which names the source."""
        try:
            return self.setting.parse(self.text)
        except InvalidSetting as error:
            raise InvalidSetting(f"{self.where}: {error}") from None


def gather(
    file: Path | None, environ: Mapping[str, str], overrides: Sequence[str]
) -> dict[str, Given]:
    """The given settings by name; raises `InvalidSetting` for an unknown name.

    `overrides` are `name=value`, as the flag `--override` takes them.
    """
    found = [
        *(() if file is None else from_file(file)),
        *from_environment(environ),
        *from_flags(overrides),
    ]
    return {one.setting.name: one for one in found}


def from_flags(overrides: Sequence[str]) -> Iterator[Given]:
    """The settings of `--override name=value`."""
    for override in overrides:
        name, separator, text = override.partition("=")
        if not separator:
            raise InvalidSetting(f"--override {override} is not name=value")
        yield _given(name.strip(), text, f"--override {override}")


def from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    """The settings of variables like METAQUORUM_NODE_ID."""
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in COMMAND_LINE_VARIABLES:
            continue
        setting = BY_ENVIRONMENT.get(variable)
        if setting is None:
            hint = suggestion(variable, BY_ENVIRONMENT)
            raise InvalidSetting(f"environment variable {variable} is not a setting{hint}")
        yield Given(setting, environ[variable], f"environment variable {variable}")


def from_file(path: Path) -> Iterator[Given]:
    """The settings of a `.toml` or `.properties` file."""
    try:
        text = read_text(path, FILE_BYTES_MAX)
    except ValueError as error:
        raise InvalidSetting(str(error)) from None
    match path.suffix:
        case ".toml":
            yield from _from_toml(text, path)
        case ".properties":
            yield from _from_properties(text, path)
        case suffix:
            shown = f"the suffix {suffix}" if suffix else "no suffix"
            raise InvalidSetting(f"{path} has {shown}; a configuration is .toml or .properties")


def read_text(path: Path, bytes_max: int) -> str:
    """Return the text of a file that a person has written; raises `ValueError`."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > bytes_max:
        raise ValueError(f"{path} is larger than {bytes_max} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: byte {error.start} is wrong") from None


def _from_toml(text: str, path: Path) -> Iterator[Given]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{path} is not TOML: {error}") from None
    seen: set[str] = set()
    for name, value in _flat(table, ""):
        if name in seen:
            raise InvalidSetting(f"{path}: {name} is set twice, in quotes and without")
        seen.add(name)
        yield _given(name, _as_text(name, value, path), str(path))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """The leaves of nested tables: `node.id = 1` and `[node] id = 1` are the same in TOML."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _as_text(name: str, value: object, path: Path) -> str:
    match value:
        case bool():
            raise InvalidSetting(f"{path}: {name} is a boolean; no setting takes one")
        case str() | int():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
        case _:
            raise InvalidSetting(
                f"{path}: {name} is {value!r}; write text in quotes, a whole number, "
                "or a list of texts"
            )


def _from_properties(text: str, path: Path) -> Iterator[Given]:
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}:{number}"
        written = line.strip()
        if not written or written[0] in "#!":
            continue
        if "\\" in written:
            raise InvalidSetting(f"{where}: backslashes are not supported; use one line")
        name, separator, value = written.partition("=")
        if not separator:
            raise InvalidSetting(f"{where}: {written!r} is not name=value")
        name = name.strip()
        if name in lines:
            raise InvalidSetting(f"{where}: {name} is already set in line {lines[name]}")
        lines[name] = number
        yield _given(name, value.strip(), where)


def _given(name: str, text: str, where: str) -> Given:
    setting = SETTINGS.get(name)
    if setting is None:
        hint = suggestion(name, SETTINGS)
        raise InvalidSetting(f"{where}: {name} is not a setting{hint}")
    return Given(setting, text, where)


WILDCARDS = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The settings of an HTTP listener."""

    listener: Address
    hosts: tuple[str, ...]
    """Names of this node."""
    limits: HttpLimits
    tokens: Path | None
    tls: TlsFiles | None

    @property
    def takes_certificates(self) -> bool:
        """True if clients may present a certificate."""
        return self.tls is not None and self.tls.client_auth is not ClientAuth.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one controller; `admin/settings.py` says what each means."""

    quorum: QuorumConfig
    listener: Address
    http: HttpConfig | None
    broker_session_timeout_ms: int
    metadata_version: int
    no_op_interval_ms: int
    """A NoOp record follows when nothing was appended for this long; 0: never."""
    num_partitions: int
    default_replication_factor: int
    min_insync_replicas: int
    connections_max: int
    connections_per_address_max: int
    tokens: DelegationTokenConfig


def load(
    file: Path | None, environ: Mapping[str, str], overrides: Sequence[str] = ()
) -> Config | BrokerConfig:
    """Load the configuration of a controller or a broker. Raises `InvalidSetting`."""
    given = gather(file, environ, overrides)
    role = _role(given, file)
    values = _values(given, role, file)
    match role:
        case Role.CONTROLLER:
            return _controller(values)
        case Role.BROKER:
            try:
                return _broker(values, given)
            except InvalidConfig as error:
                raise InvalidSetting(str(error)) from None
        case _:
            assert_never(role)


def _role(given: Mapping[str, Given], file: Path | None) -> Role:
    if "process.roles" not in given:
        raise _missing("process.roles", file)
    role: Role = given["process.roles"].value()
    for name, one in given.items():
        if not one.setting.applies_to(role):
            raise InvalidSetting(
                f"{one.where}: {name} is a setting of {one.setting.only}s; this node is a {role}"
            )
    return role


def _values(given: Mapping[str, Given], role: Role, file: Path | None) -> dict[str, Any]:
    """Every setting of the role by name: as given, by default, or None where it has neither."""
    values: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        if not setting.applies_to(role):
            continue
        if name in given:
            values[name] = given[name].value()
        elif setting.required:
            raise _missing(name, file)
        else:
            values[name] = setting.default
    return values


def _missing(name: str, file: Path | None) -> InvalidSetting:
    setting = SETTINGS[name]
    where = "in a file (--config)" if file is None else f"in {file}"
    return InvalidSetting(
        f"{name} is not set: write it {where}, as {setting.environment}, or as "
        f"--override {name}=... ({setting.help})"
    )


def _quorum(values: Mapping[str, Any]) -> QuorumConfig:
    _check_can_find(values)
    return QuorumConfig(
        node_id=ReplicaId(values["node.id"]),
        cluster_id=values["cluster.id"],
        folder=values["log.dir"],
        voters=values["quorum.voters"] or {},
        bootstrap=values["bootstrap.servers"] or (),
        advertised=_advertised(values),
        timeouts=_timeouts(values),
        snapshots=_snapshots(values),
    )


def _timeouts(values: Mapping[str, Any]) -> Timeouts:
    fetch_timeout_ms = values["quorum.fetch.timeout.ms"]
    return Timeouts(
        election_timeout_ms=values["quorum.election.timeout.ms"],
        election_backoff_ms_max=values["quorum.election.backoff.max.ms"],
        fetch_timeout_ms=fetch_timeout_ms,
        # A follower must get several chances to fetch before it gives up on the leader.
        fetch_wait_ms=min(FETCH_WAIT_MS_MAX, fetch_timeout_ms // 3),
        request_timeout_ms=values["quorum.request.timeout.ms"],
        retry_backoff_ms=values["quorum.retry.backoff.ms"],
        retry_backoff_ms_max=values["quorum.retry.backoff.max.ms"],
    )


def _snapshots(values: Mapping[str, Any]) -> SnapshotLimits:
    return SnapshotLimits(
        bytes_between=values["metadata.log.max.record.bytes.between.snapshots"],
        interval_ms=values["metadata.log.max.snapshot.interval.ms"],
        retention_bytes=values["metadata.max.retention.bytes"],
        retention_ms=values["metadata.max.retention.ms"],
    )


def _controller(values: Mapping[str, Any]) -> Config:
    if values["http.listener"] == values["listeners"]:
        raise InvalidSetting(
            f"http.listener and listeners are both {values['listeners']}; each needs a port"
        )
    return Config(
        quorum=replace(_quorum(values), segment_bytes=values["log.segment.bytes"]),
        listener=values["listeners"],
        http=_http(values),
        broker_session_timeout_ms=values["broker.session.timeout.ms"],
        metadata_version=values["metadata.version"],
        no_op_interval_ms=values["metadata.max.idle.interval.ms"],
        num_partitions=values["num.partitions"],
        default_replication_factor=values["default.replication.factor"],
        min_insync_replicas=values["min.insync.replicas"],
        connections_max=values["connections.max"],
        connections_per_address_max=values["max.connections.per.ip"],
        tokens=DelegationTokenConfig(
            secret_key=values["delegation.token.secret.key"],
            max_lifetime_ms=values["delegation.token.max.lifetime.ms"],
            renew_period_ms=values["delegation.token.expiry.time.ms"],
            check_interval_ms=values["delegation.token.expiry.check.interval.ms"],
        ),
    )


def _http(values: Mapping[str, Any]) -> HttpConfig | None:
    listener: Address | None = values["http.listener"]
    if listener is None:
        return None
    addresses = (listener, values["listeners"], _advertised(values))
    return HttpConfig(
        listener=listener,
        hosts=(
            *(each.host for each in addresses if each.host not in WILDCARDS),
            *(values["http.allowed.hosts"] or ()),
        ),
        limits=HttpLimits(
            connections_max=values["http.connections.max"],
            connections_max_per_ip=values["http.connections.max.per.ip"],
        ),
        tokens=values["http.tokens.file"],
        tls=_http_tls(values),
    )


def _http_tls(values: Mapping[str, Any]) -> TlsFiles | None:
    prefix = "listener.name.http.ssl"
    keystore, truststore = (
        values[f"{prefix}.keystore.location"],
        values[f"{prefix}.truststore.location"],
    )
    client_auth = values[f"{prefix}.client.auth"] or ClientAuth.NONE
    if client_auth is not ClientAuth.NONE and truststore is None:
        raise InvalidSetting(
            f"{prefix}.client.auth is {client_auth}, and {prefix}.truststore.location is not set: "
            "name the authorities of clients' certificates"
        )
    if keystore is None:
        if truststore is not None:
            raise InvalidSetting(
                f"{prefix}.truststore.location is set without {prefix}.keystore.location: the "
                "listener needs a key and a certificate to speak TLS"
            )
        return None
    return TlsFiles(keystore=keystore, truststore=truststore, client_auth=client_auth)


def _check_can_find(values: Mapping[str, Any]) -> None:
    """Raise `InvalidSetting` unless the node can find or found a cluster."""
    voters: Mapping[int, Address | None] = values["quorum.voters"] or {}
    if not voters and not values["bootstrap.servers"]:
        raise InvalidSetting(
            "neither bootstrap.servers nor quorum.voters is set: name servers of the cluster that "
            "this node is to join, or the voters that found a new one"
        )
    if values["node.id"] in voters or values["bootstrap.servers"] or any(voters.values()):
        return
    raise InvalidSetting(
        f"quorum.voters is {','.join(map(str, sorted(voters)))}, without an address, and "
        f"bootstrap.servers is not set: node {values['node.id']}, which is not among them, could "
        "find nobody; name servers of the cluster in bootstrap.servers"
    )


def _advertised(values: Mapping[str, Any]) -> Address:
    """The advertised address; the entry in quorum.voters comes last."""
    voters: Mapping[int, Address | None] = values["quorum.voters"] or {}
    listener: Address = values["listeners"]
    named: Address | None = values["advertised.listeners"]
    if named is None:
        named = listener if listener.host not in WILDCARDS else voters.get(values["node.id"])
    if named is None or named.host in WILDCARDS:
        raise InvalidSetting(
            f"listeners is {listener}, which no client can connect to; set an address in "
            "advertised.listeners"
        )
    return named


def _broker(values: Mapping[str, Any], given: Mapping[str, Given]) -> BrokerConfig:
    return BrokerConfig(
        quorum=_quorum(values),
        listener=values["listeners"],
        rack=values["broker.rack"],
        session_timeout_ms=values["broker.session.timeout.ms"],
        heartbeat_interval_ms=values["broker.heartbeat.interval.ms"],
        replica_lag_time_max_ms=values["replica.lag.time.max.ms"],
        replica_fetch_max_bytes=values["replica.fetch.max.bytes"],
        log_segment_bytes=values["log.segment.bytes"],
        message_bytes_max=values["message.max.bytes"],
        min_insync_replicas=values["min.insync.replicas"],
        connections_max=values["connections.max"],
        connections_per_address_max=values["max.connections.per.ip"],
        settings={name: one.text for name, one in given.items()},
    )
