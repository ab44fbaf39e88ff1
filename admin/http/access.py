"""The admission of HTTP requests: known hosts, known callers, and no foreign web pages.

A web page that an operator looks at can send requests to addresses that only the operator reaches.
Three rules keep it out. The Host must be a name of this node, or a name of the page's author could
be pointed at it (DNS rebinding). Where the credential is one that a browser adds by itself, or
none is needed, a request that changes something must come from a page of this node or from no page
at all. And a body must be declared as JSON, which a page of another origin may not do unasked.
"""

import ipaddress
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from aiohttp import web

from admin.http.caller import Caller
from admin.http.problems import Problem
from admin.http.tokens import TokenFile
from quorum.clocks import wall_ms
from quorum.protocol.principal import ANONYMOUS, KafkaPrincipal
from quorum.transport.audit_log import AuditLog
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.security.principal_mapping import NoRuleMatches
from quorum.transport.security.tls import ClientAuth, ServerTls

READING_METHODS: Final = frozenset({"GET", "HEAD"})
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SHOWN_CHARACTERS_MAX: Final = 60

_AUTHORITY: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of one listener."""

    known_hosts: frozenset[str] = frozenset()
    """Names of this node, besides localhost and the address that a connection has come to."""
    tokens: TokenFile | None = None
    tls: ServerTls | None = None
    refusals: RefusalLog
    audit_log: AuditLog = field(default_factory=lambda: AuditLog(wall_ms))
    """Of its own: what strangers cause does not use up the lines of other requests."""

    @property
    def takes_certificates(self) -> bool:
        """True if a client may present a certificate."""
        return self.tls is not None and self.tls.client_auth is not ClientAuth.NONE

    @property
    def is_open(self) -> bool:
        """True if no authentication is configured."""
        return self.tokens is None and not self.takes_certificates

    def admit(self, request: web.Request) -> Caller:
        """Return who sends a request that may be handled; raises `Problem`."""
        host = self.check_host(request)
        try:
            caller = self._caller(request)
        except Problem as problem:
            what = f"{request.method} {_short(request.raw_path)}"
            requester = Caller(ANONYMOUS, _client_host(request)).requester(what)
            self.audit_log.unauthenticated(requester, str(problem))
            raise
        if request.method not in READING_METHODS:
            # No page can add a bearer token that it does not have.
            if not caller.token:
                self._check_origin(request, host)
            _check_content_type(request)
        return caller

    def check_host(self, request: web.Request) -> str:
        """Return the Host of a request, which is a name of this node; raises `Problem`."""
        given = request.headers.getall("Host", [])
        if len(given) != 1:
            raise Problem(400, "Invalid Host", "give one Host header")
        name = host_in(given[0])
        if name is None or not (
            name in LOCAL_HOSTS or name in self.known_hosts or name == _local_host(request)
        ):
            self._refuse(request, "its Host is none of this node")
            raise Problem(
                421,
                "Misdirected request",
                f"{_short(given[0])!r} is no name of this node; http.allowed.hosts can add it",
            )
        return given[0]

    def _caller(self, request: web.Request) -> Caller:
        given = request.headers.getall("Authorization", [])
        if given:
            return self._bearer(request, given)
        certificate = _certificate(request) if self.takes_certificates else None
        if certificate is not None:
            return self._certified(request, certificate)
        if self.is_open:
            return Caller(ANONYMOUS, _client_host(request))
        ways = [
            *(["a bearer token"] if self.tokens is not None else []),
            *(["a client certificate"] if self.takes_certificates else []),
        ]
        raise _unauthenticated(f"this node takes {' or '.join(ways)}")

    def _certified(self, request: web.Request, certificate: bytes) -> Caller:
        assert self.tls is not None
        try:
            principal = self.tls.principal_of(certificate)
        except (NoRuleMatches, ValueError) as error:
            self._refuse(request, str(error))
            raise _unauthenticated("no principal stands for the client certificate") from None
        return Caller(principal, _client_host(request))

    def _bearer(self, request: web.Request, given: Sequence[str]) -> Caller:
        if self.tokens is None:
            raise _unauthenticated("this node takes no tokens (http.tokens.file)")
        scheme, _, secret = given[0].partition(" ")
        token = None
        if len(given) == 1 and scheme.lower() == "bearer":
            token = self.tokens.find(secret.strip())
        if token is None:
            self._refuse(request, "its token is not known")
            raise _unauthenticated("the bearer token is not known")
        principal = KafkaPrincipal.parse(token.principal)
        return Caller(principal, _client_host(request), token.name, token.role)

    def _check_origin(self, request: web.Request, host: str) -> None:
        origins = request.headers.getall("Origin", [])
        sites = request.headers.getall("Sec-Fetch-Site", [])
        is_tls = _ssl_object(request) is not None
        reason = foreign_origin(origins, sites, host, is_tls=is_tls)
        if reason is not None:
            self._refuse(request, "it comes from a page of another origin")
            raise Problem(
                403,
                "Foreign origin",
                f"{reason}: a page of another origin may change nothing without a bearer token",
            )

    def _refuse(self, request: web.Request, reason: str) -> None:
        peer = str(request.remote)
        self.refusals.refused(f"{peer}:0", f"refused an HTTP request of {peer}:", reason)


def _client_host(request: web.Request) -> str:
    return request.remote or ""


@lru_cache(maxsize=256)
def host_in(authority: str) -> str | None:
    """Return the host in a Host header, in its normal form; None for what is none."""
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None:
        return None
    return normal_host(found[1] or found[2])


@lru_cache(maxsize=256)
def normal_host(host: str) -> str:
    """The one form of a host that its spellings are compared in."""
    plain = host.lower().rstrip(".").partition("%")[0]
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return plain
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def foreign_origin(
    origins: Sequence[str], sites: Sequence[str], host: str, *, is_tls: bool
) -> str | None:
    """Return why a request comes from a page of another origin, or None.

    A browser sends Origin with every request that is not GET or HEAD, and Sec-Fetch-Site where it
    knows it. A program sends neither. `host` is the request's own Host, which is known.
    """
    if len(origins) > 1 or len(sites) > 1:
        return "Origin or Sec-Fetch-Site is given twice"
    # "none": a person has sent it, and no page.
    if sites and sites[0] not in ("same-origin", "none"):
        return f"Sec-Fetch-Site is {_short(sites[0])!r}"
    if not origins:
        return None
    scheme, separator, authority = origins[0].lower().partition("://")
    # A proxy may speak TLS in front of a listener that does not; never the other way.
    is_possible = scheme == "https" or (scheme == "http" and not is_tls)
    default = ":" + _DEFAULT_PORTS.get(scheme, "")
    is_same = authority.removesuffix(default) == host.lower().removesuffix(default)
    if separator and is_possible and is_same:
        return None
    return f"Origin is {_short(origins[0])!r}, and Host {_short(host)!r}"


def _check_content_type(request: web.Request) -> None:
    if request.body_exists and request.content_type != "application/json":
        raise Problem(
            415,
            "Not JSON",
            f"Content-Type is {_short(request.content_type)}; a body is application/json",
        )


def _unauthenticated(reason: str) -> Problem:
    headers = {"WWW-Authenticate": 'Bearer realm="metaquorum"'}
    return Problem(401, "Not authenticated", reason, headers=headers)


def _local_host(request: web.Request) -> str:
    """The address of this node that the connection has come to."""
    transport = request.transport
    name: Any = None if transport is None else transport.get_extra_info("sockname")
    return normal_host(name[0]) if isinstance(name, tuple) else ""


def _ssl_object(request: web.Request) -> ssl.SSLObject | None:
    transport = request.transport
    return None if transport is None else transport.get_extra_info("ssl_object")


def _certificate(request: web.Request) -> bytes | None:
    """The client's certificate, which the handshake has verified, as DER; None without one."""
    found = _ssl_object(request)
    return None if found is None else found.getpeercert(binary_form=True)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."


def known_hosts(*hosts: str) -> frozenset[str]:
    """The names of a node in the form that they are compared in."""
    return frozenset(map(normal_host, hosts))
