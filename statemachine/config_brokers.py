"""The configurations of brokers that can be changed while they run, and how they must be named.

Names, types, defaults and bounds are those of `DynamicBrokerConfig` of Kafka 4.2 (KIP-226); what
3.9 has besides is there too. A configuration of one listener has `listener.name.<listener>.` before
its name, and that of one mechanism of it the mechanism as well. A name that is no configuration of
Kafka's at all belongs to a plug-in of the broker and is let through, as Kafka does; but for the
settings of the whole cluster that are ours (`settings`).
"""

import re
from typing import Final

from statemachine.config_broker_table import BROKER_CONFIGS
from statemachine.config_static import STATIC_BROKER_CONFIGS
from statemachine.config_types import ConfigType, Definition
from statemachine.settings import CLUSTER_CONFIGS, OF_REASSIGNMENTS
from statemachine.vocabulary import CLUSTER_DEFAULT

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
    """What this configuration is, of a broker, of one of its listeners or of all; or None."""
    return CLUSTER_CONFIGS.get(name) or BROKER_CONFIGS.get(base_name(name))


def broker_value_refusal(resource_name: str, name: str, value: str) -> str | None:
    """Why the broker, or with an empty name all of them, may not get this, or None."""
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
    """Whether its value must not be shown: a password, or something whose meaning is unknown."""
    definition = broker_definition(name)
    if definition is not None:
        return definition.type is ConfigType.PASSWORD
    base = base_name(name)
    return base not in STATIC_BROKER_CONFIGS or base in _SENSITIVE_STATIC
