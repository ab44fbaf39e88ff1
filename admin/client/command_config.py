"""The file that `--command-config` names: Kafka's client.properties.

The names are those of Kafka's clients. Settings that are not about security are passed over, as
Kafka's own tools do with what they do not know. A name that only misspells one of security is
refused: without it the connection would fail for a reason that hides the cause.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from admin.properties import InvalidProperties, read_properties
from admin.security_settings import SecuritySettings, client_security
from admin.setting_kinds import MECHANISM, PROTOCOL
from admin.settings import SETTINGS, InvalidSetting, Setting
from admin.text_file import read_text
from quorum.protocol.principal import ANONYMOUS
from quorum.transport.address import Address, parse_addresses
from quorum.transport.security.client_log import SilentLog
from quorum.transport.security.mechanisms import OAUTHBEARER
from quorum.transport.security.protocols import (
    PLAIN_CLIENT,
    UNKNOWN_PRINCIPAL,
    ClientSecurity,
    SecurityProtocol,
)
from quorum.transport.security.tls import Pem
from statemachine.near_name import near_name

if TYPE_CHECKING:
    # It brings a library that only clients with OAUTHBEARER need.
    from quorum.transport.security.oauthbearer import TokenSource

FILE_BYTES_MAX: Final = 1024 * 1024

_OWN: Final = {
    each.name: each
    for each in (
        Setting("security.protocol", PROTOCOL, "The security protocol of the listener."),
        Setting("sasl.mechanism", MECHANISM, "The SASL mechanism."),
    )
}
"""The settings that a client has and a node has not."""

_NODES: Final = ("bootstrap.servers", "bootstrap.controllers")
"""The settings that name the brokers, or the controllers, to ask."""
_SECURITY: Final = (
    *_OWN,
    *(name for name in SETTINGS if name.startswith(("ssl.", "sasl."))),
)
_OF_KAFKA: Final = "sasl.oauthbearer.scope.claim.name"
"""The one setting of Kafka's clients that does not count here and is near to one that does."""
MISSPELT_MIN: Final = 0.9
"""The likeness, 0 to 1, from which on a name is taken for a misspelt one."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The security of a client: for our own connections, and for those of librdkafka."""

    security: ClientSecurity = PLAIN_CLIENT
    librdkafka: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    tokens: "TokenSource | None" = None
    """Where librdkafka's tokens of OAUTHBEARER are."""
    has_delegation_token: bool = False
    """True if user and password are those of a delegation token."""
    """With the passwords in plain text, as librdkafka takes them."""
    servers: tuple[Address, ...] | None = None
    """`bootstrap.servers` of the file: the brokers, if nothing else names nodes to ask."""
    controllers: tuple[Address, ...] | None = None
    """`bootstrap.controllers` likewise."""


NO_CONFIG: Final = ClientConfig()
"""Without a file: no TLS and no SASL."""


def load_client_config(path: Path) -> ClientConfig:
    """Load a client.properties; raises `InvalidSetting`."""
    try:
        text = read_text(path, FILE_BYTES_MAX)
    except ValueError as error:
        raise InvalidSetting(str(error)) from None
    try:
        given = {each.name: each for each in read_properties(text)}
    except InvalidProperties as error:
        raise InvalidSetting(f"{path}:{error.line}: {error}") from None
    values: dict[str, Any] = {}
    nodes: dict[str, tuple[Address, ...]] = {}
    for name, one in given.items():
        if name in _NODES:
            try:
                nodes[name] = parse_addresses(one.value)
            except ValueError as error:
                raise InvalidSetting(f"{path}:{one.line}: {name}: {error}") from None
            continue
        setting = _OWN.get(name) or SETTINGS.get(name)
        if setting is None or name not in _SECURITY:
            _check_spelling(name, f"{path}:{one.line}")
            continue
        try:
            values[name] = setting.parse(one.value)
        except InvalidSetting as error:
            raise InvalidSetting(f"{path}:{one.line}: {error}") from None
    try:
        config = client_config(values)
    except InvalidSetting as error:
        raise InvalidSetting(f"{path}: {error}") from None
    servers, controllers = map(nodes.get, _NODES)
    return replace(config, servers=servers, controllers=controllers)


def _check_spelling(name: str, place: str) -> None:
    """Raise `InvalidSetting` for a name that no client has, and that is near to one of security."""
    if name == _OF_KAFKA or name in SETTINGS:
        return
    near = near_name(name, _SECURITY, MISSPELT_MIN)
    if near:
        raise InvalidSetting(f"{place}: {name} is not a setting; did you mean {near}?")


def client_config(values: Mapping[str, Any]) -> ClientConfig:
    """Return the configuration of these settings, by name; raises `InvalidSetting`."""
    protocol: SecurityProtocol = values.get("security.protocol") or SecurityProtocol.PLAINTEXT
    settings = SecuritySettings(values)
    security = client_security(
        protocol, settings, mechanism_setting="sasl.mechanism", is_node=False
    )
    security = replace(security, log=SilentLog(), principal=_principal(protocol, settings))
    module = settings.login(settings.get("sasl.mechanism")) if protocol.has_sasl else None
    is_oauth = protocol.has_sasl and settings.get("sasl.mechanism") == OAUTHBEARER
    return ClientConfig(
        security,
        MappingProxyType(_librdkafka(protocol, settings)),
        tokens=settings.token_source(module) if is_oauth else None,
        has_delegation_token=module is not None and module.has_delegation_token,
    )


def _principal(protocol: SecurityProtocol, settings: SecuritySettings) -> str:
    """The principal that nodes give this client, as far as it knows without asking them."""
    if not protocol.has_sasl:
        has_name = protocol.has_tls and settings.tls(protocol, is_server=False).chain is not None
        return UNKNOWN_PRINCIPAL if has_name else str(ANONYMOUS)
    mechanism = settings.get("sasl.mechanism")
    module = settings.login(mechanism)
    if module is None or mechanism == OAUTHBEARER or module.has_delegation_token:
        return UNKNOWN_PRINCIPAL
    return f"User:{module.text('username')}"


def _librdkafka(protocol: SecurityProtocol, settings: SecuritySettings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if protocol:
        found["security.protocol"] = protocol.name
    if protocol.has_tls:
        found |= _librdkafka_tls(protocol, settings)
    if protocol.has_sasl:
        mechanism = settings.get("sasl.mechanism")
        found["sasl.mechanism"] = mechanism
        module = settings.login(mechanism)
        # librdkafka asks for a token of OAUTHBEARER when it needs one.
        if module is not None and mechanism != OAUTHBEARER:
            found["sasl.username"] = module.text("username")
            found["sasl.password"] = module.text("password")
    return found


def _librdkafka_tls(protocol: SecurityProtocol, settings: SecuritySettings) -> dict[str, Any]:
    tls = settings.tls(protocol, is_server=False)
    found: dict[str, Any] = {
        "ssl.endpoint.identification.algorithm": "https" if tls.verifies_host else "none"
    }
    if tls.trusted is not None:
        found |= _pem(tls.trusted, "ssl.ca")
    if tls.chain is not None:
        found |= _pem(tls.chain, "ssl.certificate")
        found |= _pem(tls.key or tls.chain, "ssl.key")
    if tls.key_password is not None:
        found["ssl.key.password"] = tls.key_password.reveal()
    return found


def _pem(pem: Pem, name: str) -> dict[str, str]:
    if pem.path is not None:
        return {f"{name}.location": str(pem.path)}
    return {f"{name}.pem": pem.read()}
