"""The configuration of a node, from a file (TOML or properties), the environment and flags.

A flag wins over the environment, the environment over the file. `load` reads these sources,
checks the settings as a whole and returns one frozen value. It raises `InvalidSetting`, one
sentence that names the setting, its value, where it was written and what is right.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, assert_never

from admin.http.limits import HttpLimits
from admin.properties import InvalidProperties, read_properties
from admin.scrubber import Scrubber
from admin.security_settings import SecuritySettings, client_security, listener_security
from admin.setting_kinds import Role
from admin.settings import (
    BY_ENVIRONMENT,
    ENVIRONMENT_PREFIX,
    SETTINGS,
    InvalidSetting,
    Setting,
    of_listener,
    setting_named,
    setting_of_variable,
    suggestion,
)
from admin.text_file import read_text
from broker.config import BrokerConfig, InvalidConfig
from quorum.core.limits import FETCH_WAIT_MS_MAX, Timeouts
from quorum.core.vocabulary import ReplicaId
from quorum.persistent_state import LISTENER_NAME, QuorumConfig
from quorum.process_log import LogConfig
from quorum.snapshotting import SnapshotLimits
from quorum.transport.address import Address
from quorum.transport.listener import Listener, named
from quorum.transport.security.credentials import LateCredentials
from quorum.transport.security.protocols import ClientSecurity, SecurityProtocol
from quorum.transport.security.secret import HIDDEN, Secret
from quorum.transport.security.tls import ClientAuth, ServerTls
from quorum.transport.security.token_hmacs import DelegationTokenConfig
from statemachine.security.authorization import STANDARD_AUTHORIZER, AuthorizerConfig

FILE_BYTES_MAX: Final = 1024 * 1024

COMMAND_LINE_VARIABLES: Final = frozenset(
    {
        "METAQUORUM_BOOTSTRAP_SERVER",
        "METAQUORUM_BOOTSTRAP_CONTROLLER",
        "METAQUORUM_COMMAND_CONFIG",
        "METAQUORUM_PROFILE",
        "METAQUORUM_PROFILES",
    }
)
"""Variables with the prefix of settings that are options of commands."""


@dataclass(frozen=True, slots=True)
class Given:
    """A setting with the text that it was given, and where."""

    setting: Setting
    text: str = field(repr=False)
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
        setting = setting_named(name.strip())
        # What may be a secret, or meant as one, is not shown.
        is_shown = setting is not None and not setting.kind.is_secret
        yield _given(name.strip(), text, f"--override {override if is_shown else name}")


def from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    """The settings of variables like METAQUORUM_NODE_ID."""
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in COMMAND_LINE_VARIABLES:
            continue
        setting = setting_of_variable(variable)
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
    try:
        for each in read_properties(text):
            where = f"{path}:{each.line}"
            if each.name in lines:
                first = lines[each.name]
                raise InvalidSetting(f"{where}: {each.name} is already set in line {first}")
            lines[each.name] = each.line
            yield _given(each.name, each.value.strip(), where)
    except InvalidProperties as error:
        shown = repr(error.text) if setting_named(error.text) else "what stands there"
        raise InvalidSetting(f"{path}:{error.line}: {shown} is not name=value") from None


def _given(name: str, text: str, where: str) -> Given:
    setting = setting_named(name)
    if setting is None:
        hint = suggestion(name, SETTINGS)
        raise InvalidSetting(f"{where}: {name} is not a setting{hint}")
    return Given(setting, text, where)


WILDCARDS = frozenset({"0.0.0.0", "::"})
PLAINTEXT_LISTENER: Final = "PLAINTEXT"
"""The name of a broker's listener that was written without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The settings of an HTTP listener."""

    listener: Address
    hosts: tuple[str, ...]
    """Names of this node."""
    limits: HttpLimits
    tokens: Path | None
    tls: ServerTls | None

    @property
    def takes_certificates(self) -> bool:
        """True if clients may present a certificate."""
        return self.tls is not None and self.tls.client_auth is not ClientAuth.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNodeConfig(BrokerConfig):
    """The settings of one broker, with those of its HTTP listener."""

    http: HttpConfig | None = None

    @property
    def other_connections_max(self) -> int:
        """The connections of the HTTP listener."""
        return 0 if self.http is None else self.http.limits.connections_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one controller; `admin/settings.py` says what each means."""

    quorum: QuorumConfig
    listeners: tuple[Listener, ...]
    credentials: LateCredentials
    """What the SASL listeners look up; the daemon says where."""
    http: HttpConfig | None
    broker_session_timeout_ms: int
    metadata_version: int
    no_op_interval_ms: int
    """A NoOp record follows when nothing was appended for this long; 0: never."""
    num_partitions: int
    default_replication_factor: int
    min_insync_replicas: int
    mutation_window_seconds: int
    """The time whose quota of controller mutations a client may use at once."""
    connections_max: int
    connections_per_address_max: int
    tokens: DelegationTokenConfig
    authorizer: AuthorizerConfig | None
    """None: everybody may do everything."""
    early_listeners: frozenset[str]
    """The names of the listeners that do not wait for the ACLs."""
    settings: Mapping[str, str]
    """The settings as they were given, without secrets."""
    scrubber: Scrubber
    log: LogConfig

    @property
    def listener(self) -> Address:
        """The address of the listener for the other nodes."""
        return named(self.listeners, self.quorum.listener_name).address


def load(
    file: Path | None, environ: Mapping[str, str], overrides: Sequence[str] = ()
) -> Config | BrokerNodeConfig:
    """Load the configuration of a controller or a broker. Raises `InvalidSetting`."""
    given = gather(file, environ, overrides)
    role = _role(given, file)
    values = _values(given, role, file)
    match role:
        case Role.CONTROLLER:
            return _controller(values, given)
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
            default = setting.default
            values[name] = setting.parse(default) if isinstance(default, str) else default
    for name, one in given.items():
        # Those of a single listener, which are not in the table.
        if name not in values:
            values[name] = one.value()
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
        # A broker, which has no such setting, leads no quorum.
        observer_linger_ms=values.get("quorum.observer.linger.ms", 0),
    )


def _snapshots(values: Mapping[str, Any]) -> SnapshotLimits:
    return SnapshotLimits(
        bytes_between=values["metadata.log.max.record.bytes.between.snapshots"],
        interval_ms=values["metadata.log.max.snapshot.interval.ms"],
        retention_bytes=values["metadata.max.retention.bytes"],
        retention_ms=values["metadata.max.retention.ms"],
    )


def _controller(values: Mapping[str, Any], given: Mapping[str, Given]) -> Config:
    main = _controller_listener(values, Role.CONTROLLER)
    credentials = LateCredentials()
    listeners = _listeners(values, main, main, credentials)
    of_quorum = named(listeners, main)
    return Config(
        quorum=replace(
            _quorum(values),
            advertised=_reachable(of_quorum, values["quorum.voters"] or {}, values["node.id"]),
            segment_bytes=values["log.segment.bytes"],
            listener_name=main,
            security=_to_controllers(values, main, credentials),
        ),
        listeners=listeners,
        credentials=credentials,
        http=_http(values, listeners, main),
        broker_session_timeout_ms=values["broker.session.timeout.ms"],
        metadata_version=values["metadata.version"],
        no_op_interval_ms=values["metadata.max.idle.interval.ms"],
        num_partitions=values["num.partitions"],
        default_replication_factor=values["default.replication.factor"],
        min_insync_replicas=values["min.insync.replicas"],
        mutation_window_seconds=values["controller.quota.window.num"]
        * values["controller.quota.window.size.seconds"],
        connections_max=values["connections.max"],
        connections_per_address_max=values["max.connections.per.ip"],
        tokens=DelegationTokenConfig(
            secret_key=_token_key(values),
            max_lifetime_ms=values["delegation.token.max.lifetime.ms"],
            renew_period_ms=values["delegation.token.expiry.time.ms"],
            check_interval_ms=values["delegation.token.expiry.check.interval.ms"],
        ),
        authorizer=_authorizer(values),
        early_listeners=_early_listeners(values, listeners),
        settings=shown_settings(given),
        scrubber=scrubber_of(given),
        log=_log(values),
    )


def scrubber_of(given: Mapping[str, Given]) -> Scrubber:
    """Return a scrubber that knows the secrets among these settings."""
    return Scrubber(one.text for one in given.values() if one.setting.kind.is_secret)


def shown_settings(given: Mapping[str, Given]) -> Mapping[str, str]:
    """Return the settings as they were given; `[hidden]` stands for each that is a secret."""
    return {name: HIDDEN if one.setting.kind.is_secret else one.text for name, one in given.items()}


def _log(values: Mapping[str, Any]) -> LogConfig:
    return LogConfig(format=values["log.format"], levels=values["log.levels"])


def _token_key(values: Mapping[str, Any]) -> str | None:
    """Return the key of delegation tokens, which has two names; None where there are no tokens."""
    key: Secret | None = values["delegation.token.secret.key"]
    old: Secret | None = values["delegation.token.master.key"]
    if key is not None and old is not None and key != old:
        raise InvalidSetting(
            "delegation.token.secret.key and delegation.token.master.key differ; the second is the "
            "old name of the first: leave it out"
        )
    found = key or old
    return None if found is None else found.reveal()


def _authorizer(values: Mapping[str, Any]) -> AuthorizerConfig | None:
    """Return the settings of the authorizer, or None without one.

    Rights that nobody checks are refused: their operator believes that the node is protected.
    """
    if values["authorizer.class.name"]:
        return AuthorizerConfig(
            super_users=values["super.users"] or frozenset(),
            allow_if_no_acl=values["allow.everyone.if.no.acl.found"],
        )
    if values["super.users"]:
        raise InvalidSetting(
            "super.users is set without authorizer.class.name, so that everybody may do "
            f"everything; set authorizer.class.name={STANDARD_AUTHORIZER}"
        )
    return None


def _early_listeners(values: Mapping[str, Any], listeners: Sequence[Listener]) -> frozenset[str]:
    known = frozenset(each.name for each in listeners)
    given = values["early.start.listeners"]
    if given is None:
        return known & frozenset(values["controller.listener.names"] or known)
    unknown = sorted(frozenset(given) - known)
    if unknown:
        raise InvalidSetting(f"early.start.listeners names {unknown[0]}, which is no listener")
    return frozenset(given)


def _stream_limits(values: Mapping[str, Any]) -> dict[str, int]:
    """The limits of event streams, which a broker does not have."""
    settings = {"streams_max": "http.streams.max", "streams_max_per_ip": "http.streams.max.per.ip"}
    return {name: values[each] for name, each in settings.items() if each in values}


def _http(values: Mapping[str, Any], listeners: Sequence[Listener], main: str) -> HttpConfig | None:
    listener: Address | None = values["http.listener"]
    if listener is None:
        return None
    if listener in [each.address for each in listeners]:
        raise InvalidSetting(f"http.listener and listeners are both {listener}; each needs a port")
    advertised = _reachable(
        named(listeners, main), values["quorum.voters"] or {}, values["node.id"]
    )
    addresses = (listener, *(each.address for each in listeners), advertised)
    return HttpConfig(
        listener=listener,
        hosts=(
            *(each.host for each in addresses if each.host not in WILDCARDS),
            *(values["http.allowed.hosts"] or ()),
        ),
        limits=HttpLimits(
            connections_max=values["http.connections.max"],
            connections_max_per_ip=values["http.connections.max.per.ip"],
            **_stream_limits(values),
        ),
        tokens=values["http.tokens.file"],
        tls=_http_tls(values),
    )


_HTTP: Final = "http"
"""The name of the HTTP listener, where a setting is its own."""


def _http_tls(values: Mapping[str, Any]) -> ServerTls | None:
    """Return TLS of the HTTP listener, which has its own settings only: none is taken over."""
    prefix = of_listener(_HTTP, "ssl.")
    own = {name: value for name, value in values.items() if name.startswith(prefix)}
    keystore = of_listener(_HTTP, "ssl.keystore.location")
    if keystore in own or of_listener(_HTTP, "ssl.keystore.certificate.chain") in own:
        settings = SecuritySettings(own, _HTTP).tls(SecurityProtocol.SSL, is_server=True)
        return ServerTls(replace(settings, alpn=("http/1.1",)))
    for name in own:
        raise InvalidSetting(
            f"{name} is set without {keystore}: the listener needs a key and a certificate to "
            "speak TLS"
        )
    return None


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


def _protocol_of(name: str, values: Mapping[str, Any], controllers: str) -> SecurityProtocol:
    """Return the security protocol of a listener's name, as Kafka does without the map too."""
    mapped: Mapping[str, SecurityProtocol] | None = values["listener.security.protocol.map"]
    if mapped is not None and name in mapped:
        return mapped[name]
    if mapped is None and name in SecurityProtocol.__members__:
        return SecurityProtocol[name]
    if mapped is None and name == controllers:
        return SecurityProtocol.PLAINTEXT
    raise InvalidSetting(
        f"listener.security.protocol.map has no protocol for {name}; write {name}:SASL_SSL, say"
    )


def _controller_listener(values: Mapping[str, Any], role: Role) -> str:
    """Return the name of the listener that controllers and brokers connect to."""
    names: tuple[str, ...] = values["controller.listener.names"] or ()
    written = [each.name or LISTENER_NAME for each in values["listeners"]]
    if role is Role.BROKER:
        return names[0] if names else LISTENER_NAME
    if not names:
        return LISTENER_NAME if LISTENER_NAME in written else written[0]
    if names[0] not in written:
        raise InvalidSetting(
            f"controller.listener.names begins with {names[0]}, which is not in listeners"
        )
    return names[0]


def _listeners(
    values: Mapping[str, Any], main: str, controllers: str, credentials: LateCredentials
) -> tuple[Listener, ...]:
    """Return the listeners; one that was written without a name is called `main`."""
    advertised = {each.name or main: each.address for each in values["advertised.listeners"] or ()}
    found = []
    for each in values["listeners"]:
        name = each.name or main
        protocol = _protocol_of(name, values, controllers)
        settings = SecuritySettings(values, name, credentials)
        security = listener_security(name, protocol, settings)
        found.append(Listener(each.address, security, advertised.pop(name, None)))
    if advertised:
        raise InvalidSetting(
            f"advertised.listeners names {', '.join(advertised)}, which is not in listeners"
        )
    return tuple(found)


def _reachable(listener: Listener, voters: Mapping[int, Address | None], node_id: int) -> Address:
    """The advertised address of a listener; the entry in quorum.voters comes last."""
    named = listener.advertised
    if named is None:
        is_wildcard = listener.address.host in WILDCARDS
        named = voters.get(node_id) if is_wildcard else listener.address
    if named is None or named.host in WILDCARDS:
        raise InvalidSetting(
            f"listeners is {listener.address}, which no client can connect to; set an address in "
            "advertised.listeners"
        )
    return named


def _inter_broker_listener(values: Mapping[str, Any]) -> str:
    """Return the name of the listener that brokers use among themselves."""
    name: str | None = values["inter.broker.listener.name"]
    protocol: SecurityProtocol | None = values["security.inter.broker.protocol"]
    written = [each.name or PLAINTEXT_LISTENER for each in values["listeners"]]
    if name is not None:
        if protocol is not None:
            raise InvalidSetting(
                "inter.broker.listener.name and security.inter.broker.protocol are both set; "
                "choose one"
            )
        if name not in written:
            raise InvalidSetting(f"inter.broker.listener.name is {name}, which is not in listeners")
        return name
    if len(written) == 1 and protocol is None:
        return written[0]
    wanted = protocol or SecurityProtocol.PLAINTEXT
    # Names and protocols are the same unless there is a map.
    mapped = values["listener.security.protocol.map"] or {}
    found = [each for each in written if mapped.get(each, each) in (wanted, wanted.name)]
    if len(found) != 1:
        raise InvalidSetting(
            f"{len(found)} listeners have the security protocol {wanted.name} of connections "
            "between brokers; set inter.broker.listener.name"
        )
    return found[0]


def _broker(values: Mapping[str, Any], given: Mapping[str, Given]) -> BrokerNodeConfig:
    controllers = _controller_listener(values, Role.BROKER)
    main = _inter_broker_listener(values)
    credentials = LateCredentials()
    listeners = _listeners(values, main, controllers, credentials)
    among_brokers = named(listeners, main)
    to_controllers = _to_controllers(values, controllers, credentials)
    advertised = _reachable(among_brokers, values["quorum.voters"] or {}, values["node.id"])
    is_open = not (to_controllers.protocol or among_brokers.security.protocol)
    return BrokerNodeConfig(
        http=_http(values, listeners, main),
        quorum=replace(
            _quorum(values),
            # Nodes of another protocol could not ask it who is where.
            advertised=advertised if is_open else None,
            security=to_controllers,
        ),
        listeners=tuple(
            replace(each, advertised=advertised) if each is among_brokers else each
            for each in listeners
        ),
        inter_broker_listener=main,
        inter_broker=client_security(
            among_brokers.security.protocol,
            SecuritySettings(values, main, credentials),
            mechanism_setting="sasl.mechanism.inter.broker.protocol",
        ),
        credentials=credentials,
        rack=values["broker.rack"],
        cordoned_log_dirs=values["cordoned.log.dirs"] or "",
        session_timeout_ms=values["broker.session.timeout.ms"],
        heartbeat_interval_ms=values["broker.heartbeat.interval.ms"],
        replica_lag_time_max_ms=values["replica.lag.time.max.ms"],
        replica_fetch_max_bytes=values["replica.fetch.max.bytes"],
        log_segment_bytes=values["log.segment.bytes"],
        message_bytes_max=values["message.max.bytes"],
        min_insync_replicas=values["min.insync.replicas"],
        connections_max=values["connections.max"],
        connections_per_address_max=values["max.connections.per.ip"],
        tokens=DelegationTokenConfig(secret_key=_token_key(values)),
        authorizer=_authorizer(values),
        settings=shown_settings(given),
        log=_log(values),
    )


def _to_controllers(
    values: Mapping[str, Any], controllers: str, credentials: LateCredentials
) -> ClientSecurity:
    """Return the security of connections to controllers."""
    return client_security(
        _protocol_of(controllers, values, controllers),
        SecuritySettings(values, controllers, credentials),
        mechanism_setting="sasl.mechanism.controller.protocol",
    )
