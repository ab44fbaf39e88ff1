"""Dynamic broker configurations: their definitions and their names per listener.

The order is alphabetical within each subject; types, defaults and bounds are Kafka's.

"""

import re
from collections.abc import Mapping
from typing import Final

from statemachine.configs.definitions import (
    INT_MAX,
    LONG_MAX,
    ConfigType,
    Definition,
    boolean,
    class_name,
    integer,
    listed,
    long,
    number,
    one_of,
    password,
    ratio,
    short,
    some_of,
    table,
    text,
)
from statemachine.configs.static_broker_configs import STATIC_BROKER_CONFIGS
from statemachine.configs.topic_configs import (
    CLEANUP_POLICIES,
    DAY_MS,
    TIMESTAMP_TYPES,
    TOPIC_CONFIGS,
)
from statemachine.reassignment.settings import CLUSTER_CONFIGS, OF_REASSIGNMENTS
from statemachine.vocabulary import CLUSTER_DEFAULT

_SAME_AS_TOPICS: Final = tuple(
    TOPIC_CONFIGS[name]
    for name in (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    )
)

_THROTTLES: Final = tuple(
    long(name, LONG_MAX, f"Bytes a second that {what} at most.", 0)
    for name, what in (
        ("follower.replication.throttled.rate", "throttled followers fetch"),
        ("leader.replication.throttled.rate", "leaders serve to throttled followers"),
        (
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "are copied between the log directories of one broker",
        ),
    )
)

_THREADS: Final = tuple(
    integer(name, default, f"How many threads {what}.", 1)
    for name, default, what in (
        ("background.threads", 10, "do various work in the background"),
        ("num.io.threads", 8, "process requests"),
        ("num.network.threads", 3, "read requests and write answers, for each listener"),
        ("num.recovery.threads.per.data.dir", 2, "recover logs, for each log directory"),
        ("num.replica.fetchers", 1, "fetch from each leader broker"),
        ("remote.log.manager.copier.thread.pool.size", 10, "copy segments to remote storage"),
        ("remote.log.manager.expiration.thread.pool.size", 10, "delete from remote storage"),
        ("remote.log.manager.follower.thread.pool.size", 2, "read remote metadata as followers"),
        ("remote.log.reader.threads", 10, "read from remote storage"),
    )
)

_LOG_CLEANER: Final = (
    long("log.cleaner.backoff.ms", 15_000, "How long the cleaner sleeps without work.", 0),
    long("log.cleaner.dedupe.buffer.size", 128 << 20, "Bytes for the keys of all cleaner threads."),
    number("log.cleaner.io.buffer.load.factor", "0.9", "How full the buffer of keys may become."),
    integer("log.cleaner.io.buffer.size", 512 << 10, "Bytes to read and write through.", 0),
    number(
        "log.cleaner.io.max.bytes.per.second",
        "1.7976931348623157E308",
        "Bytes a second that the cleaner reads and writes at most.",
    ),
    integer("log.cleaner.threads", 1, "How many threads compact logs.", 0),
)

_LOGS: Final = (
    some_of(
        "log.cleanup.policy",
        "delete",
        "What becomes of the old records of topics that do not say.",
        CLEANUP_POLICIES,
    ),
    long("log.cleaner.delete.retention.ms", DAY_MS, "delete.retention.ms of topics.", 0),
    long("log.cleaner.max.compaction.lag.ms", LONG_MAX, "max.compaction.lag.ms of topics.", 1),
    ratio("log.cleaner.min.cleanable.ratio", "0.5", "min.cleanable.dirty.ratio of topics."),
    long("log.cleaner.min.compaction.lag.ms", 0, "min.compaction.lag.ms of topics.", 0),
    long("log.flush.interval.messages", LONG_MAX, "flush.messages of topics.", 1),
    long("log.flush.interval.ms", None, "flush.ms of topics."),
    integer("log.index.interval.bytes", 4_096, "index.interval.bytes of topics.", 0),
    integer("log.index.size.max.bytes", 10 << 20, "segment.index.bytes of topics.", 4),
    long("log.local.retention.bytes", -2, "local.retention.bytes of topics.", -2),
    long("log.local.retention.ms", -2, "local.retention.ms of topics.", -2),
    boolean(
        "log.message.downconversion.enable",
        True,
        "message.downconversion.enable of topics (before Kafka 4.0).",
    ),
    long(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        "message.timestamp.after.max.ms of topics.",
        0,
    ),
    long(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        "message.timestamp.before.max.ms of topics.",
        0,
    ),
    long(
        "log.message.timestamp.difference.max.ms",
        LONG_MAX,
        "message.timestamp.difference.max.ms of topics (before Kafka 4.0).",
        0,
    ),
    one_of(
        "log.message.timestamp.type",
        "CreateTime",
        "message.timestamp.type of topics.",
        TIMESTAMP_TYPES,
    ),
    boolean("log.preallocate", False, "preallocate of topics."),
    long("log.retention.bytes", -1, "retention.bytes of topics."),
    long("log.retention.ms", None, "retention.ms of topics."),
    long("log.roll.jitter.ms", None, "segment.jitter.ms of topics."),
    long("log.roll.ms", None, "segment.ms of topics."),
    integer("log.segment.bytes", 1 << 30, "segment.bytes of topics.", 14),
    long("log.segment.delete.delay.ms", 60_000, "file.delete.delay.ms of topics.", 0),
    integer("message.max.bytes", 1_048_588, "max.message.bytes of topics.", 0),
    integer("producer.id.expiration.ms", DAY_MS, "How long an idle producer is remembered.", 1),
    boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether a partition is checked to belong to the transaction that writes to it.",
    ),
)

_REMOTE_LOGS: Final = (
    integer("remote.fetch.max.wait.ms", 500, "How long a fetch waits for remote storage.", 1),
    long("remote.list.offsets.request.timeout.ms", 30_000, "How long ListOffsets waits.", 1),
    long("remote.log.index.file.cache.total.size.bytes", 1 << 30, "Bytes of index cache.", 1),
    long("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, "Bytes a second copied.", 1),
    long("remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, "Bytes a second read.", 1),
)

_CONNECTIONS: Final = (
    integer("max.connection.creation.rate", INT_MAX, "New connections a second at most.", 0),
    integer("max.connections", INT_MAX, "Connections at one time at most.", 0),
    integer("max.connections.per.ip", INT_MAX, "Connections from one address at most.", 0),
    text("max.connections.per.ip.overrides", "", "Other bounds for some addresses: host:count."),
)

_LISTENERS: Final = (
    text("advertised.listeners", None, "What clients are told (before Kafka 4.2)."),
    text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener.",
    ),
    listed("listeners", "PLAINTEXT://:9092", "Where the broker listens."),
    listed("config.providers", "", "Where values are looked up that are given indirectly."),
    listed(
        "metric.reporters",
        "org.apache.kafka.common.metrics.JmxReporter",
        "The classes that report metrics.",
    ),
    class_name(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The class that says who a connection is.",
    ),
)

_SASL: Final = (
    listed("sasl.enabled.mechanisms", "GSSAPI", "The SASL mechanisms that clients may use."),
    password("sasl.jaas.config", "The JAAS login of a mechanism."),
    text("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "The path of kinit."),
    long("sasl.kerberos.min.time.before.relogin", 60_000, "Milliseconds between two logins."),
    listed(
        "sasl.kerberos.principal.to.local.rules", "DEFAULT", "How principals become short names."
    ),
    text("sasl.kerberos.service.name", None, "The Kerberos principal of Kafka."),
    number("sasl.kerberos.ticket.renew.jitter", "0.05", "The random part of the renewal time."),
    number(
        "sasl.kerberos.ticket.renew.window.factor",
        "0.8",
        "The part of a ticket's life after which it is renewed.",
    ),
    short("sasl.login.refresh.buffer.seconds", 300, "Seconds before expiry to refresh a login."),
    short("sasl.login.refresh.min.period.seconds", 60, "Seconds between two refreshes."),
    number("sasl.login.refresh.window.factor", "0.8", "The part of a credential's life to use."),
    number("sasl.login.refresh.window.jitter", "0.05", "The random part of it."),
    text("sasl.mechanism.inter.broker.protocol", "GSSAPI", "The mechanism between brokers."),
)

_SSL: Final = (
    listed("ssl.cipher.suites", "", "The cipher suites that may be used; none means any."),
    one_of(
        "ssl.client.auth",
        "none",
        "Whether clients must show a certificate.",
        ("required", "requested", "none"),
    ),
    listed("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "The protocols that are offered."),
    text("ssl.endpoint.identification.algorithm", "https", "How a host is matched."),
    class_name("ssl.engine.factory.class", None, "The class that makes SSL engines."),
    password("ssl.key.password", "The password of the private key."),
    text("ssl.keymanager.algorithm", "SunX509", "The algorithm of the key manager."),
    password("ssl.keystore.certificate.chain", "The certificate chain, in PEM."),
    password("ssl.keystore.key", "The private key, in PEM."),
    text("ssl.keystore.location", None, "The file of the key store."),
    password("ssl.keystore.password", "The password of the key store."),
    text("ssl.keystore.type", "JKS", "The format of the key store."),
    text("ssl.protocol", "TLSv1.3", "The protocol of the SSL context."),
    text("ssl.provider", None, "The security provider."),
    text("ssl.secure.random.implementation", None, "The source of random numbers."),
    text("ssl.trustmanager.algorithm", "PKIX", "The algorithm of the trust manager."),
    password("ssl.truststore.certificates", "The trusted certificates, in PEM."),
    text("ssl.truststore.location", None, "The file of the trust store."),
    password("ssl.truststore.password", "The password of the trust store."),
    text("ssl.truststore.type", "JKS", "The format of the trust store."),
)

BROKER_CONFIGS: Final[Mapping[str, Definition]] = table(
    *_SAME_AS_TOPICS,
    *_THROTTLES,
    *_THREADS,
    *_LOG_CLEANER,
    *_LOGS,
    *_REMOTE_LOGS,
    *_CONNECTIONS,
    *_LISTENERS,
    *_SASL,
    *_SSL,
)
"""Every one of them, by name; a listener's have it without the listener."""


_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")

SECURITY_CONFIGS: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""What can be changed of a single listener only."""

_OF_CLUSTER_OR_LISTENER: Final = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)

PER_BROKER: Final = frozenset(
    name
    for name in BROKER_CONFIGS
    if name.startswith(("ssl.", "sasl.", "listener", "advertised.", "principal."))
)
"""What all brokers cannot have in common: security and listeners."""

OF_MECHANISMS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

assert SECURITY_CONFIGS <= PER_BROKER
assert not STATIC_BROKER_CONFIGS & BROKER_CONFIGS.keys()
assert not CLUSTER_CONFIGS.keys() & (BROKER_CONFIGS.keys() | STATIC_BROKER_CONFIGS)


def base_name(name: str) -> str:
    """The name without its listener and mechanism, if it has any."""
    found = _OF_A_LISTENER.fullmatch(name)
    if found is None:
        return name
    base = found[1]
    return next((each for each in OF_MECHANISMS if base.endswith(each)), base)


def broker_definition(name: str) -> Definition | None:
    """Return the definition of a dynamic configuration of a broker or of one of its listeners, or
    None.
    """
    return CLUSTER_CONFIGS.get(name) or BROKER_CONFIGS.get(base_name(name))


def broker_value_refusal(resource_name: str, name: str, value: str) -> str | None:
    """Return the reason to refuse the value for a broker (an empty name means all of them), or
    None.
    """
    reason = _name_refusal(resource_name, name)
    if reason is not None:
        return reason
    definition = broker_definition(name)
    return None if definition is None else definition.refusal(value)


def _name_refusal(resource_name: str, name: str) -> str | None:
    if not name:
        return "a configuration needs a name"
    if name in STATIC_BROKER_CONFIGS:
        return f"{name} cannot be changed while a broker runs: set it in the broker's own file"
    if name in SECURITY_CONFIGS:
        return f"{name} can be changed of a single listener only: listener.name.<listener>.{name}"
    base = base_name(name)
    if base.startswith(OF_REASSIGNMENTS) and base not in CLUSTER_CONFIGS:
        # No plug-in's: one that is misspelt would leave unlimited what it is to limit.
        there = ", ".join(sorted(CLUSTER_CONFIGS))
        return f"{name} is no setting of reassignments; there are {there}"
    if base in CLUSTER_CONFIGS and (base != name or resource_name != CLUSTER_DEFAULT):
        return f"{base} is of the whole cluster: set it for all brokers, without naming one"
    if resource_name != CLUSTER_DEFAULT:
        return None
    if name in PER_BROKER or (base != name and base not in _OF_CLUSTER_OR_LISTENER):
        return f"{name} cannot be the same for all brokers: name one broker"
    return None


_SENSITIVE_STATIC: Final = frozenset(
    {
        "delegation.token.master.key",
        "delegation.token.secret.key",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
    }
)


def broker_config_is_sensitive(name: str) -> bool:
    """Return True if the value must not be shown: a password, or a configuration that is not known
    here.
    """
    definition = broker_definition(name)
    if definition is not None:
        return definition.type is ConfigType.PASSWORD
    base = base_name(name)
    return base not in STATIC_BROKER_CONFIGS or base in _SENSITIVE_STATIC
