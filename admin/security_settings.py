"""The security of listeners and of connections to other nodes, from settings with Kafka's names.

A listener's own setting (`listener.name.NAME.`) wins over the general one. Nothing is read from
files here; `ListenerSecurity.check` and `ClientSecurity.check` do that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from admin.jaas import InvalidJaas, LoginModule, parse_jaas
from admin.setting_kinds import Migration
from admin.settings import InvalidSetting, of_listener
from quorum.clocks import monotonic_ms, wall_ms
from quorum.transport.security.credentials import LateCredentials
from quorum.transport.security.mechanisms import OAUTHBEARER, ClientMechanism, ServerMechanism
from quorum.transport.security.plain import PLAIN, PlainClient, PlainServer
from quorum.transport.security.protocols import (
    PLAIN_CLIENT,
    ClientSecurity,
    ListenerSecurity,
    SecurityProtocol,
)
from quorum.transport.security.sasl_client import ClientSasl
from quorum.transport.security.sasl_server import ServerSasl
from quorum.transport.security.scram import MECHANISMS as SCRAM
from quorum.transport.security.scram import ScramClient, ScramServer
from quorum.transport.security.secret import Secret
from quorum.transport.security.tls import ClientAuth, ClientTls, Pem, ServerTls, TlsSettings

if TYPE_CHECKING:
    # They bring a library that only nodes with OAUTHBEARER need.
    from quorum.transport.security.oauthbearer import KeySource, TokenSource

USER_PREFIX: Final = "user_"


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The settings of one listener, or of a client: those of `listener` first, then the general."""

    values: Mapping[str, Any]
    listener: str | None = None
    credentials: LateCredentials = field(default_factory=LateCredentials)

    def get(self, name: str) -> Any:
        """Return the value of a setting, or None."""
        if self.listener is not None:
            own = self.values.get(of_listener(self.listener, name))
            if own is not None:
                return own
        return self.values.get(name)

    def of_mechanism(self, name: str, mechanism: str) -> Any:
        """Return the value of a setting that a mechanism may have of its own, or None."""
        if self.listener is not None:
            own = self.values.get(of_listener(self.listener, name, mechanism))
            if own is not None:
                return own
        return self.get(name)

    def written(self, name: str, mechanism: str = "") -> str:
        """Return the name under which a setting of this listener is written."""
        return name if self.listener is None else of_listener(self.listener, name, mechanism)

    # TLS.

    def tls(self, protocol: SecurityProtocol, *, is_server: bool) -> TlsSettings:
        """Return the settings of TLS; raises `InvalidSetting`."""
        auth: ClientAuth = self.get("ssl.client.auth") or ClientAuth.NONE
        if protocol is SecurityProtocol.SASL_SSL and self.listener is not None:
            # As in Kafka: the general setting is for listeners that have nothing else.
            auth = self.values.get(of_listener(self.listener, "ssl.client.auth")) or ClientAuth.NONE
        chain, key = self._keystore()
        if is_server and chain is None:
            raise InvalidSetting(
                f"{self.written('ssl.keystore.location')} is not set: a {protocol.name} listener "
                "needs a PEM file with its private key and its certificates"
            )
        trusted = self._pem("ssl.truststore.location", "ssl.truststore.certificates")
        if is_server and auth is not ClientAuth.NONE and trusted is None:
            raise InvalidSetting(
                f"{self.written('ssl.truststore.location')} is not set: with ssl.client.auth="
                f"{auth.value} it names the authorities of the clients' certificates"
            )
        checks_host = self.get("ssl.endpoint.identification.algorithm")
        return TlsSettings(
            chain=chain,
            key=key,
            key_password=self.get("ssl.key.password"),
            trusted=trusted,
            versions=self.get("ssl.enabled.protocols") or TlsSettings().versions,
            cipher_suites=self.get("ssl.cipher.suites") or (),
            client_auth=auth,
            rules=self.get("ssl.principal.mapping.rules") or TlsSettings().rules,
            verifies_host=True if checks_host is None else checks_host,
        )

    def _keystore(self) -> tuple[Pem | None, Pem | None]:
        location = self.get("ssl.keystore.location")
        chain, key = self.get("ssl.keystore.certificate.chain"), self.get("ssl.keystore.key")
        if location is not None and (chain is not None or key is not None):
            raise InvalidSetting(
                "ssl.keystore.location is set, and PEM in the settings too "
                "(ssl.keystore.certificate.chain, ssl.keystore.key): choose one"
            )
        if (chain is None) != (key is None):
            raise InvalidSetting(
                "ssl.keystore.certificate.chain and ssl.keystore.key go together: one is not set"
            )
        if location is not None:
            return Pem(self.written("ssl.keystore.location"), location), None
        if chain is None:
            return None, None
        return (
            Pem("ssl.keystore.certificate.chain", text=Secret(chain)),
            Pem("ssl.keystore.key", text=key),
        )

    def _pem(self, of_file: str, of_text: str) -> Pem | None:
        location, text = self.get(of_file), self.get(of_text)
        if location is not None and text is not None:
            raise InvalidSetting(f"{of_file} and {of_text} are both set: choose one")
        if location is not None:
            return Pem(self.written(of_file), location)
        return None if text is None else Pem(of_text, text=Secret(text))

    # SASL.

    def login(self, mechanism: str) -> LoginModule | None:
        """Return the login module of a mechanism, or None; raises `InvalidSetting`."""
        text: Secret | None = self.of_mechanism("sasl.jaas.config", mechanism)
        name = self.written("sasl.jaas.config", mechanism)
        if text is None:
            return None
        try:
            module = parse_jaas(text.reveal())
        except InvalidJaas as error:
            raise InvalidSetting(f"{name}: {error}") from None
        if mechanism not in module.mechanisms:
            own = self.listener is not None and self.values.get(
                of_listener(self.listener, "sasl.jaas.config", mechanism)
            )
            if not own:
                return None
            raise InvalidSetting(f"{name}: {module.name} is of {' and '.join(module.mechanisms)}")
        return module

    def server_sasl(self) -> ServerSasl:
        """Return SASL of this listener; raises `InvalidSetting`."""
        enabled = self.get("sasl.enabled.mechanisms")
        if not enabled:
            raise InvalidSetting(
                f"{self.written('sasl.enabled.mechanisms')} is not set: name the mechanisms of the "
                "listener"
            )
        return ServerSasl(
            mechanisms={each: self._server_mechanism(each) for each in enabled},
            reauth_ms={
                each: self.of_mechanism("connections.max.reauth.ms", each) or 0 for each in enabled
            },
            failure_delay_ms=self.get("connection.failed.authentication.delay.ms"),
            receive_bytes_max=self.get("sasl.server.max.receive.size"),
            wall_clock=wall_ms,
        )

    def _server_mechanism(self, name: str) -> ServerMechanism:
        if name == PLAIN:
            module = self.login(name)
            options = {} if module is None else module.options
            users = {
                option.removeprefix(USER_PREFIX): password
                for option, password in options.items()
                if option.startswith(USER_PREFIX)
            }
            if not users:
                raise InvalidSetting(
                    f'{self.written("sasl.jaas.config", name)} names no users: user_NAME="password"'
                )
            return PlainServer(users)
        if name == OAUTHBEARER:
            from quorum.transport.security.oauthbearer import OAuthBearerServer

            return OAuthBearerServer(
                self._keys(),
                audience=self.get("sasl.oauthbearer.expected.audience") or (),
                issuer=self.get("sasl.oauthbearer.expected.issuer"),
                subject_claim=self.get("sasl.oauthbearer.sub.claim.name"),
                skew_seconds=self.get("sasl.oauthbearer.clock.skew.seconds"),
            )
        return ScramServer(SCRAM[name], self.credentials, wall_clock=wall_ms)

    def _keys(self) -> "KeySource":
        from quorum.transport.security.oauthbearer import KeySource

        name = "sasl.oauthbearer.jwks.endpoint.url"
        url = self.get(name)
        if url is None:
            raise InvalidSetting(
                f"{self.written(name)} is not set: OAUTHBEARER needs the keys of its tokens"
            )
        try:
            return KeySource(
                url,
                refresh_ms=self.get("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
                clock_ms=monotonic_ms,
            )
        except ValueError as error:
            raise InvalidSetting(f"{name}: {error}") from None

    def client_mechanism(self, name: str) -> ClientMechanism:
        """Return a mechanism with the credentials of this side; raises `InvalidSetting`."""
        module, where = self.login(name), self.written("sasl.jaas.config", name)
        if name == OAUTHBEARER:
            from quorum.transport.security.oauthbearer import OAuthBearerClient

            return OAuthBearerClient(self.token_source(module))
        if module is None:
            raise InvalidSetting(f"{where} is not set: it has the credentials for {name}")
        user, password = module.text("username"), module.options.get("password")
        if not user or password is None:
            raise InvalidSetting(f'{where} has no username="..." with its password="..."')
        if name == PLAIN:
            return PlainClient(user, password)
        return ScramClient(SCRAM[name], user, password, is_token=module.has_delegation_token)

    def token_source(self, module: LoginModule | None) -> "TokenSource":
        """Return where the tokens of this side are, for OAUTHBEARER; raises `InvalidSetting`."""
        from quorum.transport.security.oauthbearer import TokenSource

        name = "sasl.oauthbearer.token.endpoint.url"
        url = self.get(name)
        if url is None:
            raise InvalidSetting(f"{name} is not set: it says where the token for OAUTHBEARER is")
        options = {} if module is None else module.options
        try:
            return TokenSource(
                url,
                client_id=None if module is None else module.text("clientId"),
                client_secret=options.get("clientSecret"),
                scope=None if module is None else module.text("scope"),
            )
        except ValueError as error:
            raise InvalidSetting(f"{name}: {error}") from None


def listener_security(
    name: str, protocol: SecurityProtocol, settings: SecuritySettings
) -> ListenerSecurity:
    """Return the security of the listener `name`; raises `InvalidSetting`."""
    return ListenerSecurity(
        name=name,
        protocol=protocol,
        tls=ServerTls(settings.tls(protocol, is_server=True)) if protocol.has_tls else None,
        sasl=settings.server_sasl() if protocol.has_sasl else None,
        accepts_plaintext=protocol.has_tls and settings.get("security.migration") is not None,
    )


def client_security(
    protocol: SecurityProtocol,
    settings: SecuritySettings,
    *,
    mechanism_setting: str,
    is_node: bool = True,
) -> ClientSecurity:
    """Return the security of connections of a node, or of a client; raises `InvalidSetting`."""
    if protocol.has_tls and settings.get("security.migration") is Migration.PREPARE:
        return PLAIN_CLIENT
    sasl = None
    if protocol.has_sasl:
        mechanism = settings.get(mechanism_setting)
        if mechanism is None:
            raise InvalidSetting(
                f"{mechanism_setting} is not set: connections are {protocol.name}, and need to "
                "know the mechanism"
            )
        sasl = ClientSasl(settings.client_mechanism(mechanism))
    return ClientSecurity(
        protocol=protocol,
        tls=ClientTls(settings.tls(protocol, is_server=False), is_node=is_node)
        if protocol.has_tls
        else None,
        sasl=sasl,
    )
