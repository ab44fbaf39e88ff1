"""Broker configurations: definitions of the dynamic ones, and names of the static ones.

The order is alphabetical within each subject; types, defaults and bounds are Kafka's.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from statemachine.configs.definitions import (
    INT_MAX,
    LONG_MAX,
    Definition,
    boolean,
    class_name,
    integer,
    listed,
    long,
    number,
    one_of,
    password,
    short,
    table,
    text,
)
from statemachine.configs.topic_configs import BROKER_SYNONYMS, DAY_MS, TOPIC_CONFIGS
from statemachine.near_name import did_you_mean
from statemachine.reassignment.settings import CLUSTER_CONFIGS, OF_REASSIGNMENTS
from statemachine.reassignment.throttle import FOLLOWER_RATE, LEADER_RATE
from statemachine.vocabulary import CLUSTER_DEFAULT

_ANY_OR_NONE: Final = ("flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms")
"""Without a default and bounds for brokers: if not set, other broker configurations apply."""

_OF_TOPICS: Final = tuple(
    long(name, None, TOPIC_CONFIGS[topic].documentation)
    if topic in _ANY_OR_NONE
    else replace(TOPIC_CONFIGS[topic], name=name)
    for topic, name in BROKER_SYNONYMS.items()
)
"""The broker configurations that apply to topics without their own."""

_THROTTLES: Final = tuple(
    long(name, LONG_MAX, f"Bytes a second that {what} at most.", 0)
    for name, what in (
        (FOLLOWER_RATE, "throttled followers fetch"),
        (LEADER_RATE, "leaders serve to throttled followers"),
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

_PRODUCERS: Final = (
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

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
ALL_LOG_DIRS: Final = "*"
"""The value of `CORDONED_LOG_DIRS` that cordons every directory."""

_DIRECTORIES: Final = (
    listed(
        CORDONED_LOG_DIRS,
        "",
        "The directories of log.dirs that get no new replicas; * is all of them (KIP-1066).",
    ),
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
    *_OF_TOPICS,
    *_THROTTLES,
    *_THREADS,
    *_LOG_CLEANER,
    *_PRODUCERS,
    *_REMOTE_LOGS,
    *_CONNECTIONS,
    *_DIRECTORIES,
    *_LISTENERS,
    *_SASL,
    *_SSL,
)
"""All dynamic broker configurations, by name; without the listener for those of a listener."""


_STATIC: Final = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name
    auto.create.topics.enable auto.include.jmx.reporter auto.leader.rebalance.enable
    broker.heartbeat.interval.ms broker.id broker.id.generation.enable broker.rack
    broker.session.timeout.ms client.quota.callback.class
    connection.failed.authentication.delay.ms connections.max.idle.ms connections.max.reauth.ms
    control.plane.listener.name controlled.shutdown.enable controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms controller.listener.names
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.quorum.append.linger.ms controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
    controller.quorum.voters controller.quota.window.num controller.quota.window.size.seconds
    controller.socket.timeout.ms create.topic.policy.class.name default.replication.factor
    delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
    delegation.token.master.key delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests delete.topic.enable early.start.listeners
    eligible.leader.replicas.enable fetch.max.bytes fetch.purgatory.purge.interval.requests
    group.consumer.assignors group.consumer.heartbeat.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
    group.consumer.max.size group.consumer.migration.policy
    group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
    group.consumer.regex.refresh.interval.ms group.consumer.session.timeout.ms
    group.coordinator.append.linger.ms group.coordinator.new.enable
    group.coordinator.rebalance.protocols group.coordinator.threads
    group.initial.rebalance.delay.ms group.max.session.timeout.ms group.max.size
    group.min.session.timeout.ms group.share.assignors group.share.delivery.count.limit
    group.share.enable group.share.heartbeat.interval.ms
    group.share.initialize.retry.interval.ms group.share.max.groups
    group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
    group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.share.partition.max.record.locks
    group.share.persister.class.name group.share.record.lock.duration.ms
    group.share.session.timeout.ms group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.heartbeat.interval.ms
    group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms group.streams.num.standby.replicas
    group.streams.session.timeout.ms initial.broker.registration.timeout.ms
    inter.broker.listener.name inter.broker.protocol.version
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes internal.metadata.max.fetch.size.in.bytes
    kafka.metrics.polling.interval.secs kafka.metrics.reporters
    leader.imbalance.check.interval.seconds leader.imbalance.per.broker.percentage
    log.cleaner.enable log.dir log.dir.failure.timeout.ms log.dirs
    log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms
    log.message.format.version log.retention.check.interval.ms log.retention.hours
    log.retention.minutes log.roll.hours log.roll.jitter.hours
    max.incremental.fetch.session.cache.slots max.request.partition.size.limit metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms
    metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
    metrics.num.samples metrics.recording.level metrics.sample.window.ms node.id num.partitions
    num.replica.alter.log.dirs.threads offset.metadata.max.bytes offsets.commit.required.acks
    offsets.commit.timeout.ms offsets.load.buffer.size offsets.retention.check.interval.ms
    offsets.retention.minutes offsets.topic.compression.codec offsets.topic.num.partitions
    offsets.topic.replication.factor offsets.topic.segment.bytes
    password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
    password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret
    process.roles producer.id.expiration.check.interval.ms
    producer.purgatory.purge.interval.requests queued.max.request.bytes queued.max.requests
    quota.window.num quota.window.size.seconds remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
    remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
    replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes
    replica.fetch.response.max.bytes replica.fetch.wait.max.ms
    replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds request.timeout.ms reserved.broker.max.id
    sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
    sasl.server.max.receive.size security.inter.broker.protocol security.providers
    server.max.startup.time.ms share.coordinator.append.linger.ms
    share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes
    socket.request.max.bytes socket.send.buffer.bytes ssl.allow.dn.changes ssl.allow.san.changes
    ssl.principal.mapping.rules telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.state.log.min.isr
    transaction.state.log.num.partitions transaction.state.log.replication.factor
    transaction.state.log.segment.bytes transaction.two.phase.commit.enable
    transactional.id.expiration.ms unclean.leader.election.interval.ms
    unstable.api.versions.enable unstable.feature.versions.enable
"""

STATIC_BROKER_CONFIGS: Final = frozenset(_STATIC.split())
"""The configurations that a broker reads only from its own file when it starts.

They are those of `KafkaConfig` of Kafka 3.9 and 4.2 without ZooKeeper's.
"""

SENSITIVE_STATIC_CONFIGS: Final = frozenset(
    {
        "delegation.token.master.key",
        "delegation.token.secret.key",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
    }
)
"""The sensitive ones of these; of the dynamic configurations, passwords are sensitive."""

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")

SECURITY_CONFIGS: Final = frozenset(
    name
    for name in BROKER_CONFIGS
    if name.startswith(("ssl.key.", "ssl.keystore.", "ssl.truststore."))
)
"""Configurations that can be changed only for a single listener."""

_OF_CLUSTER_OR_LISTENER: Final = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)

PER_BROKER: Final = frozenset(
    name
    for name in BROKER_CONFIGS
    if name.startswith(("ssl.", "sasl.", "listener", "advertised.", "principal."))
    or name == CORDONED_LOG_DIRS
)
"""Configurations that cannot be set for all brokers: security, listeners, cordoned directories."""

OF_MECHANISMS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

EMBEDDED_DYNAMIC: Final = (LEADER_RATE, FOLLOWER_RATE, CORDONED_LOG_DIRS)
"""The configurations that an embedded broker changes while it runs."""

_LIKENESS_MIN: Final = 0.85
"""A name is compared with some hundred others in a millisecond; 0.6 would take up to 40."""
_UNKNOWN_REMEMBERED_MAX: Final = 64

assert SECURITY_CONFIGS <= PER_BROKER
assert not STATIC_BROKER_CONFIGS & BROKER_CONFIGS.keys()
assert not CLUSTER_CONFIGS.keys() & (BROKER_CONFIGS.keys() | STATIC_BROKER_CONFIGS)


def base_name(name: str) -> str:
    """Return the name without its listener and mechanism."""
    found = _OF_A_LISTENER.fullmatch(name)
    if found is None:
        return name
    base = found[1]
    return next((each for each in OF_MECHANISMS if base.endswith(each)), base)


def broker_definition(name: str) -> Definition | None:
    """Return the definition of a dynamic configuration of a broker or listener, or None."""
    return CLUSTER_CONFIGS.get(name) or BROKER_CONFIGS.get(base_name(name))


def broker_config_names() -> frozenset[str]:
    """Return the names of all configurations of brokers, without those of listeners."""
    return STATIC_BROKER_CONFIGS | BROKER_CONFIGS.keys() | CLUSTER_CONFIGS.keys()


@lru_cache(_UNKNOWN_REMEMBERED_MAX)
def unknown_broker_config(name: str) -> str | None:
    """Return a sentence about a name that is none of Kafka's and none of ours, else None.

    A plug-in of one of Kafka's brokers may have it: for those, controllers accept it as Kafka's do.
    """
    if name in STATIC_BROKER_CONFIGS or broker_definition(name) is not None:
        return None
    hint = did_you_mean(name, broker_config_names(), _LIKENESS_MIN)
    return f"{name} is not a configuration of brokers{hint}"


def broker_value_refusal(
    resource_name: str, name: str, value: str, *, is_embedded: bool
) -> str | None:
    """Return the reason to refuse the value for a broker, or None; an empty name is all brokers.

    What one of Kafka's brokers can change while it runs, it alone knows: it judges a request that
    it forwards (KIP-226). The controllers judge for an embedded broker.
    """
    reason = _name_refusal(resource_name, name)
    if reason is None and is_embedded:
        reason = _embedded_refusal(resource_name, name)
    if reason is not None:
        return reason
    definition = broker_definition(name)
    return None if definition is None else definition.refusal(value)


def _embedded_refusal(broker: str, name: str) -> str | None:
    if name in EMBEDDED_DYNAMIC:
        return None
    return unknown_broker_config(name) or (
        f"{name} cannot be changed while an embedded broker runs: if it has this setting, set it in"
        f" the file of broker {broker} and restart it; while it runs, it takes"
        f" {', '.join(EMBEDDED_DYNAMIC)}"
    )


def _name_refusal(resource_name: str, name: str) -> str | None:
    if not name:
        return "a configuration needs a name"
    if name in STATIC_BROKER_CONFIGS:
        return (
            f"{name} cannot be changed while a broker runs: set it in the broker's own file, and"
            " restart it"
        )
    if name in SECURITY_CONFIGS:
        return f"{name} can be changed only for a listener: listener.name.<listener>.{name}"
    base = base_name(name)
    if base.startswith(OF_REASSIGNMENTS) and base not in CLUSTER_CONFIGS:
        # Not a plug-in's: a misspelt name would leave reassignments unlimited.
        there = ", ".join(sorted(CLUSTER_CONFIGS))
        return f"{name} is not a setting of reassignments; the settings are {there}"
    if base in CLUSTER_CONFIGS and (base != name or resource_name != CLUSTER_DEFAULT):
        return f"{base} applies to the whole cluster: set it for all brokers, without naming one"
    if resource_name != CLUSTER_DEFAULT:
        return None
    if name in PER_BROKER or (base != name and base not in _OF_CLUSTER_OR_LISTENER):
        return f"{name} cannot be the same for all brokers: name one broker"
    return None
