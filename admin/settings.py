"""Every setting of a node in one table: name, meaning, kind of value, default, bounds, roles.

Files, environment and flags are parsed by the table, and the documentation is made from it
(`as_markdown`). Names and defaults are Kafka's wherever Kafka has the setting. Nothing here does
I/O.
"""

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from admin import setting_kinds as kinds
from admin.http.limits import HttpLimits
from admin.setting_kinds import NODE_ID_MAX, SASL_MECHANISMS, Kind, Role
from broker import limits as broker_limits
from quorum.core.limits import (
    BATCH_BYTES_MAX,
    FETCH_WAIT_MS_MAX,
    SEGMENT_BYTES_MAX,
    Timeouts,
)
from quorum.snapshotting import SnapshotLimits
from quorum.transport.limits import CONNECTIONS_PER_ADDRESS_MAX
from quorum.transport.security.sasl_server import FAILURE_DELAY_MS, RECEIVE_BYTES_MAX
from quorum.transport.security.token_hmacs import DelegationTokenConfig
from statemachine.limits import (
    METADATA_VERSION_MAX,
    MUTATION_WINDOW_NUM,
    MUTATION_WINDOW_SIZE_SECONDS,
    NO_OP_INTERVAL_MS,
)
from statemachine.near_name import near_name

AGE_MS_MAX: Final = 10 * 365 * 24 * 3_600_000
RETENTION_BYTES_MAX: Final = 1 << 40
CONNECTIONS_MAX: Final = 65_536
PARTITIONS_MAX: Final = 100_000
QUOTA_WINDOW_MAX: Final = 3_600
REPLICATION_FACTOR_MAX: Final = 64
SEGMENT_BYTES_MIN: Final = 64 * 1024
FETCH_BYTES_MIN: Final = 4 * 1024

FETCH_TIMEOUT_MS_MIN: Final = 300
# A fetch that the leader parks must not look like a lost one.
REQUEST_TIMEOUT_MS_MIN: Final = FETCH_WAIT_MS_MAX + 1


class InvalidSetting(ValueError):
    """A setting is unknown, missing or wrong; the message names it and what would be right."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `default` is a number as in a file, or None.

    Without bounds of its own, a setting has those of its kind.
    """

    name: str
    kind: Kind
    help: str
    _: KW_ONLY
    only: Role | None = None
    """The role whose nodes alone have it; None for both."""
    required: bool = False
    default: int | str | None = None
    lowest: int | None = None
    highest: int | None = None
    per_listener: bool = False
    """True if a listener may have a value of its own: `listener.name.NAME.` before it."""
    per_mechanism: bool = False
    """True if a mechanism of a listener may: `listener.name.NAME.MECHANISM.` before it."""

    def applies_to(self, role: Role) -> bool:
        """True if nodes of this role have the setting."""
        return self.only in (None, role)

    def parse(self, text: str) -> Any:
        """The value that `text` stands for; raises `InvalidSetting` with what would be right."""
        written = text.strip()
        try:
            value = self.kind.parse(written)
        except ValueError as error:
            raise InvalidSetting(f"{self.name}: {error}") from None
        if self._range is not None and value not in self._range:
            raise InvalidSetting(f"{self.name} is {written}; it must be {self.bounds}")
        return value

    @property
    def _range(self) -> range | None:
        """The allowed numbers, or None where any value is allowed."""
        lowest = self.kind.lowest if self.lowest is None else self.lowest
        highest = self.kind.highest if self.highest is None else self.highest
        return None if lowest is None or highest is None else range(lowest, highest + 1)

    @property
    def bounds(self) -> str:
        """The allowed numbers in words, or nothing where any value is allowed."""
        if self._range is None:
            return ""
        return f"from {self._range[0]} to {self._range[-1]} {self.kind.unit}".rstrip()

    @property
    def environment(self) -> str:
        """The name of the variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")


ENVIRONMENT_PREFIX: Final = "METAQUORUM_"

_HTTP: Final = HttpLimits()
_QUORUM: Final = Timeouts()
_SNAPSHOTS: Final = SnapshotLimits()
_TOKENS: Final = DelegationTokenConfig()


_ROWS: Final = (
    # --- who and where ---------------------------------------------------------------------
    Setting(
        "process.roles",
        kinds.ROLE,
        "The role of this node: controller or broker.",
        required=True,
    ),
    Setting(
        "node.id",
        kinds.INTEGER,
        "The id of this node. Controllers and brokers share one range of ids.",
        required=True,
        lowest=0,
        highest=NODE_ID_MAX,
    ),
    Setting(
        "cluster.id",
        kinds.CLUSTER_ID,
        "The id of the cluster. Without it the first leader makes one, and every other node takes "
        "the one that it learns. Required for the voters of a new cluster below metadata.version "
        "21.",
    ),
    Setting(
        "listeners",
        kinds.LISTENERS,
        "The addresses of the Kafka listeners, `NAME://host:port,...`; of a single one also "
        "`host:port`, which is called CONTROLLER or PLAINTEXT.",
        required=True,
    ),
    Setting(
        "advertised.listeners",
        kinds.LISTENERS,
        "The addresses for clients and other nodes, where they differ from `listeners`.",
    ),
    Setting(
        "log.format",
        kinds.LOG_FORMAT,
        "The form of the log on stderr: lines of text, or one JSON object a line "
        "(`docs/logging.md`).",
        default="text",
    ),
    Setting(
        "log.levels",
        kinds.LOG_LEVELS,
        "The levels of the log at the start: one for all loggers, and others by name, like "
        "`INFO,quorum=DEBUG`. The levels are TRACE, DEBUG, INFO, WARN, ERROR and FATAL.",
        default="INFO",
    ),
    Setting(
        "http.listener",
        kinds.LISTENER,
        "The address of the HTTP listener. A controller serves everything there, a broker probes "
        "and metrics (`docs/metrics.md`). Without it there is none.",
    ),
    Setting(
        "http.connections.max",
        kinds.INTEGER,
        "The maximum of open HTTP connections; further ones are closed.",
        default=_HTTP.connections_max,
        highest=CONNECTIONS_MAX,
    ),
    Setting(
        "http.connections.max.per.ip",
        kinds.INTEGER,
        "The maximum of open HTTP connections of one address; a /64 network of IPv6 is one. Raise "
        "it where all requests come from one proxy.",
        default=_HTTP.connections_max_per_ip,
        highest=CONNECTIONS_MAX,
    ),
    Setting(
        "http.streams.max",
        kinds.INTEGER,
        "The maximum of event streams, which are not among those connections; a further one is "
        "refused (503).",
        default=_HTTP.streams_max,
        highest=CONNECTIONS_MAX,
        only=Role.CONTROLLER,
    ),
    Setting(
        "http.streams.max.per.ip",
        kinds.INTEGER,
        "The same of one address.",
        default=_HTTP.streams_max_per_ip,
        highest=CONNECTIONS_MAX,
        only=Role.CONTROLLER,
    ),
    Setting(
        "http.allowed.hosts",
        kinds.HOSTS,
        "Further names under which clients reach the HTTP listener, such as that of a proxy. A "
        "request with another Host is answered 421.",
    ),
    Setting(
        "http.tokens.file",
        kinds.PATH,
        "The bearer tokens of the HTTP listener, written by `metaquorum http-tokens create`. With "
        "it, every request needs a token or a client certificate.",
    ),
    Setting(
        "log.dir",
        kinds.PATH,
        "The data folder of this node; created if missing.",
        required=True,
    ),
    Setting(
        "broker.rack",
        kinds.TEXT,
        "The rack of this broker; replicas are spread over racks.",
        only=Role.BROKER,
    ),
    Setting(
        "cordoned.log.dirs",
        kinds.TEXT,
        "The log.dir of this broker, or `*`: it gets no new replicas (KIP-1066, from "
        "metadata.version 30 on). `metaquorum configs alter` can replace it while the broker runs.",
        only=Role.BROKER,
    ),
    Setting(
        "connections.max",
        kinds.INTEGER,
        "The maximum of open connections; a further one replaces an idle one, or is closed.",
        default=broker_limits.CONNECTIONS_MAX,
        highest=CONNECTIONS_MAX,
    ),
    Setting(
        "max.connections.per.ip",
        kinds.INTEGER,
        "The maximum of open connections of one address; a /64 network of IPv6 is one.",
        default=CONNECTIONS_PER_ADDRESS_MAX,
        highest=CONNECTIONS_MAX,
    ),
    # --- listeners ---------------------------------------------------------------------------
    Setting(
        "listener.security.protocol.map",
        kinds.PROTOCOL_MAP,
        "The security protocol of each listener name, `NAME:PROTOCOL,...`. Without it, a name that "
        "is a protocol stands for itself, and the controllers' listener is PLAINTEXT.",
    ),
    Setting(
        "controller.listener.names",
        kinds.LISTENER_NAMES,
        "The names of the listeners of controllers. The first is the one that controllers and "
        "brokers connect to; a broker takes its protocol from the map.",
    ),
    Setting(
        "inter.broker.listener.name",
        kinds.NAME,
        "The name of the listener that brokers use among themselves. Without it, that whose "
        "protocol is security.inter.broker.protocol.",
        only=Role.BROKER,
    ),
    Setting(
        "security.inter.broker.protocol",
        kinds.PROTOCOL,
        "The security protocol of connections between brokers; not together with "
        "inter.broker.listener.name.",
        only=Role.BROKER,
    ),
    Setting(
        "security.migration",
        kinds.MIGRATION,
        "For the time of a migration only: a listener with TLS also serves clients without it, "
        "which are anonymous. `prepare`: this node connects to others by PLAINTEXT; `switch`: by "
        "the protocol of the listener.",
        per_listener=True,
    ),
    # --- TLS -----------------------------------------------------------------------------------
    Setting(
        "ssl.keystore.type",
        kinds.STORE_TYPE,
        "The type of the key store. Only PEM is supported.",
        default="PEM",
        per_listener=True,
    ),
    Setting(
        "ssl.keystore.location",
        kinds.PATH,
        "A PEM file with the private key and the certificate chain of this node. It is loaded "
        "again when it changes.",
        per_listener=True,
    ),
    Setting(
        "ssl.keystore.certificate.chain",
        kinds.TEXT,
        "The certificate chain of this node as PEM, instead of a file.",
        per_listener=True,
    ),
    Setting(
        "ssl.keystore.key",
        kinds.PASSWORD,
        "The private key of this node as PEM (PKCS#8), instead of a file.",
        per_listener=True,
    ),
    Setting(
        "ssl.key.password",
        kinds.PASSWORD,
        "The password of an encrypted private key.",
        per_listener=True,
    ),
    Setting(
        "ssl.truststore.type",
        kinds.STORE_TYPE,
        "The type of the trust store. Only PEM is supported.",
        default="PEM",
        per_listener=True,
    ),
    Setting(
        "ssl.truststore.location",
        kinds.PATH,
        "A PEM file with the certificates of the authorities that are trusted. It is loaded again "
        "when it changes. Without it, a client trusts those of the system.",
        per_listener=True,
    ),
    Setting(
        "ssl.truststore.certificates",
        kinds.TEXT,
        "The certificates of the trusted authorities as PEM, instead of a file.",
        per_listener=True,
    ),
    Setting(
        "ssl.client.auth",
        kinds.CLIENT_AUTH,
        "Whether clients present a certificate: required, requested or none. For a SASL_SSL "
        "listener only with its `listener.name.NAME.` prefix.",
        default="none",
        per_listener=True,
    ),
    Setting(
        "ssl.principal.mapping.rules",
        kinds.MAPPING_RULES,
        "How the subject of a client's certificate becomes the name of its principal: a list of "
        "`DEFAULT` and `RULE:pattern/replacement/[LU]`, of which the first that matches counts.",
        default="DEFAULT",
        per_listener=True,
    ),
    Setting(
        "ssl.enabled.protocols",
        kinds.TLS_VERSIONS,
        "The TLS versions that are enabled.",
        default="TLSv1.2,TLSv1.3",
        per_listener=True,
    ),
    Setting(
        "ssl.cipher.suites",
        kinds.NAMES_OR_NONE,
        "The cipher suites that are enabled; empty for OpenSSL's choice. Those of TLSv1.3 can only "
        "be enabled or left out together.",
        default="",
        per_listener=True,
    ),
    Setting(
        "ssl.endpoint.identification.algorithm",
        kinds.ENDPOINT_IDENTIFICATION,
        "How a client compares a node's certificate with the host that it connects to: `https`, or "
        "empty for not at all.",
        default="https",
        per_listener=True,
    ),
    # --- SASL ----------------------------------------------------------------------------------
    Setting(
        "sasl.enabled.mechanisms",
        kinds.MECHANISMS,
        "The SASL mechanisms of a listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
        per_listener=True,
    ),
    Setting(
        "sasl.mechanism.controller.protocol",
        kinds.MECHANISM,
        "The SASL mechanism of connections to controllers.",
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol",
        kinds.MECHANISM,
        "The SASL mechanism of connections between brokers.",
        only=Role.BROKER,
    ),
    Setting(
        "sasl.jaas.config",
        kinds.PASSWORD,
        "The login module of a mechanism with its options, in Kafka's syntax; of a listener as "
        "`listener.name.NAME.MECHANISM.sasl.jaas.config`. It has the credentials for connections "
        "to other nodes, and for PLAIN the users (`user_NAME`).",
        per_listener=True,
        per_mechanism=True,
    ),
    Setting(
        "connections.max.reauth.ms",
        kinds.DURATION_OR_NONE,
        "A SASL client that has not authenticated again after this long is disconnected (KIP-368); "
        "0 disables it.",
        default=0,
        per_listener=True,
        per_mechanism=True,
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        kinds.DURATION,
        "The delay before a failed authentication is answered.",
        default=FAILURE_DELAY_MS,
        lowest=0,
        highest=10_000,
    ),
    Setting(
        "sasl.server.max.receive.size",
        kinds.SIZE,
        "The longest request of a client that has not authenticated, and the longest SASL message; "
        "a longer one closes the connection.",
        default=RECEIVE_BYTES_MAX,
        lowest=1_024,
        highest=1_048_576,
        per_listener=True,
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        kinds.TEXT,
        "Where the keys are that tokens of OAUTHBEARER are signed with: `file:///path`, or the "
        "`https://` or `http://` address of a JWKS.",
        per_listener=True,
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        kinds.DURATION,
        "The time after which the keys are fetched again.",
        default=3_600_000,
        lowest=1_000,
        highest=86_400_000,
        per_listener=True,
    ),
    Setting(
        "sasl.oauthbearer.expected.audience",
        kinds.NAMES,
        "The audiences of which a token must name one.",
        per_listener=True,
    ),
    Setting(
        "sasl.oauthbearer.expected.issuer",
        kinds.TEXT,
        "The issuer that a token must name.",
        per_listener=True,
    ),
    Setting(
        "sasl.oauthbearer.sub.claim.name",
        kinds.TEXT,
        "The claim of a token with the name of the principal.",
        default="sub",
        per_listener=True,
    ),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        kinds.INTEGER,
        "The difference in seconds that the clocks of this node and the issuer may have.",
        default=30,
        lowest=0,
        highest=3_600,
        per_listener=True,
    ),
    Setting(
        "sasl.oauthbearer.token.endpoint.url",
        kinds.TEXT,
        "Where a node that connects, or a client (`--command-config`), gets its token for "
        "OAUTHBEARER: `file:///path`, or the `https://` or `http://` address of a token endpoint, "
        "which gets `clientId` and `clientSecret` of sasl.jaas.config.",
        per_listener=True,
    ),
    # --- the quorum --------------------------------------------------------------------------
    Setting(
        "bootstrap.servers",
        kinds.SERVERS,
        "Nodes to ask first for the addresses of all others: any nodes of the cluster, or an "
        "address that leads to some. The nodes that they name are asked too.",
    ),
    Setting(
        "quorum.voters",
        kinds.VOTERS,
        "The controllers that found a cluster while the log is empty, `1,2,3` or "
        "`1@host:port,2@host:port`; afterwards the log names the voters. Any other controller "
        "observes until it is made a voter. The addresses are asked first.",
    ),
    Setting(
        "quorum.election.timeout.ms",
        kinds.DURATION,
        "A voter without a leader stands for election after a random time between this and twice "
        "this.",
        default=_QUORUM.election_timeout_ms,
    ),
    Setting(
        "quorum.election.backoff.max.ms",
        kinds.DURATION,
        "The maximum wait after a lost election; the wait doubles up to this.",
        default=_QUORUM.election_backoff_ms_max,
    ),
    Setting(
        "quorum.fetch.timeout.ms",
        kinds.DURATION,
        "A follower without a successful fetch for this long stands for election; a leader "
        "without fetches of a majority for this long checks whether it still leads.",
        default=_QUORUM.fetch_timeout_ms,
        lowest=FETCH_TIMEOUT_MS_MIN,
    ),
    Setting(
        "quorum.request.timeout.ms",
        kinds.DURATION,
        "A request without an answer for this long fails, and its connection is closed.",
        default=_QUORUM.request_timeout_ms,
        lowest=REQUEST_TIMEOUT_MS_MIN,
    ),
    Setting(
        "quorum.observer.linger.ms",
        kinds.DURATION,
        "The longest time for which a leader keeps committed records from brokers to send them "
        "more at once. It is a tenth of a millisecond for each broker, up to this; voters never "
        "wait for it, nor does anyone after a quiet time. 0 sends every commit at once. Kafka "
        "waits before the append instead, for all: `controller.quorum.append.linger.ms`.",
        only=Role.CONTROLLER,
        default=_QUORUM.observer_linger_ms,
        lowest=0,
        highest=FETCH_WAIT_MS_MAX,
    ),
    Setting(
        "quorum.retry.backoff.ms",
        kinds.DURATION,
        "The wait before a failed request is retried; it doubles each time.",
        default=_QUORUM.retry_backoff_ms,
    ),
    Setting(
        "quorum.retry.backoff.max.ms",
        kinds.DURATION,
        "The maximum wait before a failed request is retried.",
        default=_QUORUM.retry_backoff_ms_max,
    ),
    Setting(
        "metadata.version",
        kinds.METADATA_VERSION,
        "The metadata.version of a new cluster, as a number or a Kafka release: 15 is 3.7-IV0, 21 "
        "is 3.9, 30 is 4.3. It determines the levels of the other features.",
        only=Role.CONTROLLER,
        default=METADATA_VERSION_MAX,
    ),
    Setting(
        "metadata.max.idle.interval.ms",
        kinds.DURATION,
        "The active controller appends a NoOp record if nothing was appended for this long, so "
        "that brokers see progress; 0 disables it.",
        default=NO_OP_INTERVAL_MS,
        lowest=0,
        only=Role.CONTROLLER,
    ),
    Setting(
        "metadata.log.max.record.bytes.between.snapshots",
        kinds.SIZE,
        "A snapshot is taken after this many bytes of the metadata log.",
        default=_SNAPSHOTS.bytes_between,
        highest=SEGMENT_BYTES_MAX,
    ),
    Setting(
        "metadata.log.max.snapshot.interval.ms",
        kinds.DURATION,
        "A snapshot is taken at least this often if anything was committed; 0 disables it.",
        default=_SNAPSHOTS.interval_ms,
        lowest=0,
        highest=AGE_MS_MAX,
    ),
    Setting(
        "metadata.max.retention.bytes",
        kinds.SIZE,
        "The maximum size of the snapshots and the log; beyond it the oldest snapshot is deleted. "
        "Two are kept, with the log from the end of the older one.",
        default=_SNAPSHOTS.retention_bytes,
        highest=RETENTION_BYTES_MAX,
    ),
    Setting(
        "metadata.max.retention.ms",
        kinds.DURATION,
        "Snapshots of older records are deleted; two are kept.",
        default=_SNAPSHOTS.retention_ms,
        highest=AGE_MS_MAX,
    ),
    # --- brokers -----------------------------------------------------------------------------
    Setting(
        "broker.session.timeout.ms",
        kinds.DURATION,
        "A broker without a heartbeat for this long is fenced.",
        default=broker_limits.SESSION_TIMEOUT_MS,
        lowest=100,
    ),
    Setting(
        "broker.heartbeat.interval.ms",
        kinds.DURATION,
        "The time between two heartbeats; at most half of broker.session.timeout.ms.",
        default=broker_limits.HEARTBEAT_INTERVAL_MS,
        lowest=10,
        only=Role.BROKER,
    ),
    Setting(
        "replica.lag.time.max.ms",
        kinds.DURATION,
        "A follower that has not caught up for this long leaves the ISR.",
        default=broker_limits.REPLICA_LAG_TIME_MS_MAX,
        lowest=100,
        only=Role.BROKER,
    ),
    Setting(
        "replica.fetch.max.bytes",
        kinds.SIZE,
        "The bytes of records that a replica requests of one partition in one fetch.",
        default=broker_limits.REPLICA_FETCH_BYTES_MAX,
        lowest=FETCH_BYTES_MIN,
        highest=broker_limits.REPLICA_FETCH_ANSWER_BYTES_MAX,
        only=Role.BROKER,
    ),
    # --- authorization -----------------------------------------------------------------------
    Setting(
        "authorizer.class.name",
        kinds.AUTHORIZER,
        "The authorizer. Empty: everybody may do everything. The one that there is has the rules "
        "of Kafka's class of this name.",
    ),
    Setting(
        "super.users",
        kinds.PRINCIPALS,
        "Principals that may do everything, `User:name;User:name`; those of the nodes among them.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        kinds.BOOLEAN,
        "Whether everybody may use a resource that no ACL names.",
        default="false",
    ),
    Setting(
        "early.start.listeners",
        kinds.LISTENER_NAMES,
        "Listeners that are opened before the ACLs are loaded, for super users. By default those "
        "of `controller.listener.names`.",
        only=Role.CONTROLLER,
    ),
    # --- delegation tokens -------------------------------------------------------------------
    Setting(
        "delegation.token.secret.key",
        kinds.PASSWORD,
        "The key of the HMACs of delegation tokens, the same on every controller and broker. "
        "Without it the node takes no tokens.",
    ),
    Setting(
        "delegation.token.master.key",
        kinds.PASSWORD,
        "The same under its name before Kafka 4.0; not together with another "
        "delegation.token.secret.key.",
    ),
    Setting(
        "delegation.token.max.lifetime.ms",
        kinds.DURATION,
        "The maximum lifetime of a delegation token.",
        default=_TOKENS.max_lifetime_ms,
        highest=AGE_MS_MAX,
        only=Role.CONTROLLER,
    ),
    Setting(
        "delegation.token.expiry.time.ms",
        kinds.DURATION,
        "The time for which a new or renewed delegation token is valid.",
        default=_TOKENS.renew_period_ms,
        highest=AGE_MS_MAX,
        only=Role.CONTROLLER,
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        kinds.DURATION,
        "The time between two removals of expired delegation tokens.",
        default=_TOKENS.check_interval_ms,
        highest=AGE_MS_MAX,
        only=Role.CONTROLLER,
    ),
    # --- logs and topics ---------------------------------------------------------------------
    Setting(
        "log.segment.bytes",
        kinds.SIZE,
        "The size at which a new log segment begins.",
        default=SEGMENT_BYTES_MAX,
        lowest=SEGMENT_BYTES_MIN,
        highest=SEGMENT_BYTES_MAX,
    ),
    Setting(
        "message.max.bytes",
        kinds.SIZE,
        "The maximum size of a producer's record batch.",
        default=broker_limits.MESSAGE_BYTES_MAX,
        lowest=1024,
        highest=BATCH_BYTES_MAX,
        only=Role.BROKER,
    ),
    Setting(
        "num.partitions",
        kinds.INTEGER,
        "The default number of partitions of a new topic.",
        default=1,
        highest=PARTITIONS_MAX,
    ),
    Setting(
        "controller.quota.window.num",
        kinds.INTEGER,
        "The number of samples of a quota of controller mutations. Times the size of one, it is "
        "the time whose partitions a client may create or delete at once.",
        default=MUTATION_WINDOW_NUM,
        highest=QUOTA_WINDOW_MAX,
        only=Role.CONTROLLER,
    ),
    Setting(
        "controller.quota.window.size.seconds",
        kinds.INTEGER,
        "The size of one such sample, in seconds.",
        default=MUTATION_WINDOW_SIZE_SECONDS,
        highest=QUOTA_WINDOW_MAX,
        only=Role.CONTROLLER,
    ),
    Setting(
        "default.replication.factor",
        kinds.INTEGER,
        "The default number of replicas of a new topic.",
        default=1,
        highest=REPLICATION_FACTOR_MAX,
    ),
    Setting(
        "min.insync.replicas",
        kinds.INTEGER,
        "The default number of in-sync replicas that a write with acks=all requires.",
        default=1,
        highest=REPLICATION_FACTOR_MAX,
    ),
)

SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType({row.name: row for row in _ROWS})
BY_ENVIRONMENT: Final[Mapping[str, Setting]] = MappingProxyType(
    {row.environment: row for row in _ROWS}
)

assert len(SETTINGS) == len(BY_ENVIRONMENT) == len(_ROWS)


_OF_LISTENER: Final = re.compile(r"listener\.name\.([A-Za-z][A-Za-z0-9_-]*)\.(.+)")
_MARKS: Final = {False: "", True: " ¹"}


def setting_named(name: str) -> Setting | None:
    """The setting of this name, or of this name without the prefix of a listener; None if unknown.

    The prefix is `listener.name.NAME.` or `listener.name.NAME.MECHANISM.`, in lower case as in
    Kafka.
    """
    known = SETTINGS.get(name)
    found = _OF_LISTENER.fullmatch(name)
    if known is not None or found is None:
        return known
    listener, base = found[1].lower(), found[2]
    setting = SETTINGS.get(base)
    if setting is not None:
        if not setting.per_listener:
            return None
        return replace(setting, name=of_listener(listener, base), required=False)
    mechanism, _, base = base.partition(".")
    setting = SETTINGS.get(base)
    if setting is None or not setting.per_mechanism or mechanism.upper() not in SASL_MECHANISMS:
        return None
    return replace(setting, name=of_listener(listener, base, mechanism), required=False)


def of_listener(listener: str, name: str, mechanism: str = "") -> str:
    """The name of a setting with the prefix of a listener, and of a mechanism if one is given."""
    between = f"{mechanism.lower()}." if mechanism else ""
    return f"listener.name.{listener.lower()}.{between}{name}"


def setting_of_variable(variable: str) -> Setting | None:
    """The setting that a variable of the environment sets; None if it is none."""
    known = BY_ENVIRONMENT.get(variable)
    prefix = f"{ENVIRONMENT_PREFIX}LISTENER_NAME_"
    if known is not None or not variable.startswith(prefix):
        return known
    rest = variable.removeprefix(prefix)
    for row in sorted(_ROWS, key=lambda row: -len(row.name)):
        if not row.per_listener:
            continue
        base = row.environment.removeprefix(ENVIRONMENT_PREFIX)
        for mechanism in (*SASL_MECHANISMS, "") if row.per_mechanism else ("",):
            between = f"_{mechanism.replace('-', '_')}_" if mechanism else "_"
            listener = rest.removesuffix(between + base)
            if listener and listener != rest:
                return setting_named(of_listener(listener, row.name, mechanism))
    return None


def suggestion(name: str, known: Mapping[str, Setting]) -> str:
    """The rest of a sentence about an unknown `name`: which of `known` was probably meant."""
    near = near_name(name, known, 0.5)
    if near:
        return f"; did you mean {near}?"
    return "; `metaquorum settings` lists them"


def as_markdown() -> str:
    """The table as it appears in docs; a test keeps the two identical."""
    lines = [
        "| setting | of | default | allowed | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in _ROWS:
        default = "required" if row.required else "-"
        if row.default is not None:
            default = f"`{row.default}`" if row.default != "" else "empty"
        allowed = row.bounds or row.kind.name
        mark = _MARKS[row.per_listener]
        lines.append(
            f"| `{row.name}`{mark} | {row.only or 'both'} | {default} | {allowed} | {row.help} |"
        )
    return "\n".join(lines) + "\n"
