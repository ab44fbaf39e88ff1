"""The nodes that are fuzzed: controllers and a broker, as processes, open or secured."""

import asyncio
import hashlib
import json
import random
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from chaos.processes.network import Network
from chaos.processes.nodes import PROGRAM, Nodes
from chaos.processes.proxies import free_addresses
from quorum.transport.address import Address
from quorum.transport.security.client_log import ClientLog
from quorum.transport.security.plain import PlainClient
from quorum.transport.security.protocols import ClientSecurity, SecurityProtocol
from quorum.transport.security.sasl_client import ClientSasl
from quorum.transport.security.secret import Secret
from quorum.transport.security.tls import ClientTls, Pem, TlsSettings

BROKER: Final = 101
NODE: Final = "node"
WITNESS: Final = "witness"
USER: Final = "nobody"
"""The users: that of the nodes, the well-behaved client, and one without rights."""
MIGHTY: Final = (NODE, WITNESS)

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Caller(Enum):
    """The sender of the frames, which decides how the nodes are secured."""

    STRANGER = "stranger"
    """Nodes without TLS, SASL or an authorizer: everybody may do everything."""
    UNAUTHENTICATED = "unauthenticated"
    """Nodes with TLS, SASL and an authorizer; it does not say who it is."""
    USER = "user"
    """Nodes with SASL and an authorizer; a user without rights."""

    @property
    def protocol(self) -> SecurityProtocol:
        """The security protocol of all listeners."""
        match self:
            case Caller.STRANGER:
                return SecurityProtocol.PLAINTEXT
            case Caller.UNAUTHENTICATED:
                return SecurityProtocol.SASL_SSL
            case Caller.USER:
                return SecurityProtocol.SASL_PLAINTEXT


class Loopback:
    """The network of nodes on this machine, without proxies and faults."""

    def __init__(self, nodes: Iterable[int]) -> None:
        nodes = tuple(nodes)
        self._addresses = dict(zip(nodes, free_addresses(len(nodes)), strict=True))

    def address_of(self, node: int) -> Address:
        return self._addresses[node]

    def listener_of(self, node: int) -> Address:
        return self._addresses[node]

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        return list(command)

    async def up(self, node: int) -> None:
        """There is nothing to set up."""

    def down(self, node: int) -> None:
        """There is nothing to remove."""

    async def close(self) -> None:
        """There is nothing to remove."""


class FuzzedCluster:
    """The controllers 1 to `controllers`, and broker 101."""

    def __init__(
        self,
        folder: Path,
        caller: Caller,
        *,
        controllers: int,
        rng: random.Random,
        program: Sequence[str] = PROGRAM,
        network: Callable[[Iterable[int]], Network] = Loopback,
    ) -> None:
        self.folder = folder
        self.caller = caller
        self.controllers = range(1, controllers + 1)
        self._passwords = {name: f"{rng.getrandbits(64):x}" for name in (*MIGHTY, USER)}
        ids = (*self.controllers, BROKER)
        self._http = dict(zip(self.controllers, free_addresses(controllers), strict=True))
        self.network = network(ids)
        self.nodes = Nodes(
            folder,
            ids,
            self.network,
            {},
            rng,
            voters=self.controllers,
            of_node=self._settings,
            program=program,
        )

    async def start(self) -> None:
        """Make what the settings name, and start all nodes; they are up a moment later."""
        if self.caller is not Caller.STRANGER:
            self._tokens.write_text("".join(map(self._token_line, (WITNESS, USER))))
        if self.caller.protocol.has_tls:
            await self._certs("create-authority", "--dir", str(self.folder / "ca"))
            for id in self.nodes.ids:
                host = ("--host", "127.0.0.1", "--file", str(self._keystore(id)))
                await self._certs(
                    "create-node", "--dir", str(self.folder / "ca"), "--name", str(id), *host
                )
        await self.nodes.start(self.nodes.ids)

    def address_of(self, id: int) -> Address:
        """The address of a node for the Kafka protocol."""
        return self.network.address_of(id)

    def http_of(self, id: int) -> Address:
        """The address of a controller for HTTP."""
        return self._http[id]

    def token(self, name: str) -> str | None:
        """The bearer token of a user, where there are tokens."""
        return None if self.caller is Caller.STRANGER else f"mq_{name}{self._passwords[name]}"

    def login(self, name: str) -> tuple[str, str] | None:
        """The user and the password, where there are users."""
        return (name, self._passwords[name]) if self.caller.protocol.has_sasl else None

    def security(self, name: str) -> ClientSecurity:
        """The security of a client that is this user."""
        protocol = self.caller.protocol
        tls = (
            ClientTls(
                TlsSettings(
                    trusted=Pem("ssl.truststore.location", path=self.folder / "ca" / "ca.pem"),
                )
            )
            if protocol.has_tls
            else None
        )
        sasl = (
            ClientSasl(PlainClient(name, Secret(self._passwords[name])))
            if protocol.has_sasl
            else None
        )
        return ClientSecurity(protocol=protocol, tls=tls, sasl=sasl, log=ClientLog())

    def tls_context(self) -> ssl.SSLContext | None:
        """The context of a client of HTTP."""
        if not self.caller.protocol.has_tls:
            return None
        return ssl.create_default_context(cafile=str(self.folder / "ca" / "ca.pem"))

    def rss_bytes(self, id: int) -> int:
        """The resident memory of a node."""
        status = Path(f"/proc/{self.nodes.process_id(id)}/status").read_text(encoding="ascii")
        (line,) = (each for each in status.splitlines() if each.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    @property
    def _tokens(self) -> Path:
        return self.folder / "tokens"

    def _token_line(self, name: str) -> str:
        token = self.token(name)
        assert token is not None
        line = {
            "name": name,
            "sha256": hashlib.sha256(token.encode()).hexdigest(),
            "role": "admin" if name in MIGHTY else "viewer",
            "principal": f"User:{name}",
        }
        return json.dumps(line) + "\n"

    def _keystore(self, id: int) -> Path:
        return self.folder / f"node-{id}" / "node.pem"

    def _settings(self, id: int) -> Mapping[str, str]:
        is_broker = id == BROKER
        found = {"process.roles": "broker" if is_broker else "controller"}
        if not is_broker:
            found["http.listener"] = str(self._http[id])
        if self.caller is Caller.STRANGER:
            return found
        name, protocol = "CLIENTS" if is_broker else "CONTROLLER", self.caller.protocol.name
        place = f"{name}://{self.network.address_of(id)}"
        users = " ".join(f'user_{user}="{word}"' for user, word in self._passwords.items())
        login = f'{_PLAIN} username="{NODE}" password="{self._passwords[NODE]}"'
        found |= {
            "listeners": place,
            "advertised.listeners": place,
            "listener.security.protocol.map": f"CONTROLLER:{protocol},CLIENTS:{protocol}",
            "controller.listener.names": "CONTROLLER",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f"{login} {users};",
            "authorizer.class.name": _AUTHORIZER,
            "super.users": ";".join(f"User:{each}" for each in MIGHTY),
        }
        if is_broker:
            found |= {
                "inter.broker.listener.name": "CLIENTS",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": f"{login} {users};",
            }
        else:
            found["http.tokens.file"] = str(self._tokens)
        if self.caller.protocol.has_tls:
            found["ssl.keystore.location"] = str(self._keystore(id))
            found["ssl.truststore.location"] = str(self.folder / "ca" / "ca.pem")
            if not is_broker:
                found["listener.name.http.ssl.keystore.location"] = str(self._keystore(id))
        return found

    async def _certs(self, *arguments: str) -> None:
        """Run `metaquorum certs`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *PROGRAM,
            "certs",
            *arguments,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()
