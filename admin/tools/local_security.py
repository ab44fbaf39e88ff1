"""The security of a cluster on this machine: an authority, certificates, users, ACLs, settings.

Every Kafka listener is SASL_SSL. Clients and brokers authenticate with SCRAM-SHA-512, whose
credentials are among the first records of the cluster. Nodes prove themselves to controllers with
PLAIN over TLS: a controller that starts has no log yet to look credentials up in. HTTP has TLS and
a bearer token. All passwords are random and stand in files that only their owner can read.
"""

import datetime
import json
import secrets
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.capabilities.needs import Role as TokenRole
from admin.client.admin_client import AdminClient
from admin.client.command_config import ClientConfig, load_client_config
from admin.client.security import Acl, create_acls
from admin.formatted import FILE_NAME
from admin.http import tokens
from admin.setting_kinds import Role
from admin.tools.certificates import Authority, write_authority, write_issued, write_new
from admin.tools.local_plan import (
    HOST,
    ClusterPlan,
    NodePlan,
    as_properties,
    log_dir,
)
from quorum.clocks import wall_ms
from quorum.core.vocabulary import Epoch
from quorum.records.control import SnapshotBatches
from quorum.transport.security.credentials import ScramMechanism
from quorum.transport.security.scram import credential_of
from statemachine.features.features import default_levels
from statemachine.records import codec
from statemachine.records.kafka_records import FeatureLevel, Record, UserScramCredential
from statemachine.security.authorization import STANDARD_AUTHORIZER
from statemachine.security.authorizer import (
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from statemachine.vocabulary import METADATA_VERSION

FOLDER: Final = "security"
USERS_FILE: Final = "users.json"
TOKENS_FILE: Final = "http.tokens"
TOKEN_FILE: Final = "http.token"
TOKEN_KEY_FILE: Final = "delegation.key"
GRANTED_FILE: Final = "granted"
"""Says that the application has got its ACLs, which an operator may remove later."""
ADMIN: Final = "admin"
"""The super user, whom the client file of the cluster names."""
APPLICATION: Final = "app"
"""A user that may write and read topics, and nothing else."""
CLIENT_FILE: Final = "client.properties"
APPLICATION_FILE: Final = "app.properties"

CONTROLLERS: Final = "CONTROLLER"
CLIENTS: Final = "CLIENTS"
MECHANISM: Final = ScramMechanism.SHA_512
DAYS: Final = 397
_HOSTS: Final = (HOST, "localhost")

_MODULES: Final = "org.apache.kafka.common.security"

APPLICATION_ACLS: Final = tuple(
    Acl(
        resource_type=kind,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal=f"User:{APPLICATION}",
        host=WILDCARD,
        operation=operation,
        permission_type=PermissionType.ALLOW,
    )
    for kind, name, operation in (
        (ResourceType.TOPIC, WILDCARD, Operation.READ),
        (ResourceType.TOPIC, WILDCARD, Operation.WRITE),
        (ResourceType.GROUP, WILDCARD, Operation.READ),
    )
)
"""The rights of the application; each implies DESCRIBE."""


@dataclass(frozen=True, slots=True)
class LocalSecurity:
    """The files of a secured cluster."""

    folder: Path
    """The folder of the cluster."""

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / FOLDER / "ca.pem"

    @property
    def token(self) -> Path:
        """The file with the bearer token for HTTP."""
        return self.folder / FOLDER / TOKEN_FILE

    def curl(self, web: object) -> str:
        """Return the command that asks the HTTP listener at `web`."""
        header = f'-H "Authorization: Bearer $(cat {self.token})"'
        return f"curl --cacert {self.authority} {header} https://{web}/v1/quorum"

    @property
    def client_file(self) -> Path:
        """The client.properties of the administrator."""
        return self.folder / CLIENT_FILE

    def admin(self) -> ClientConfig:
        """Return the security of the administrator's connections."""
        return load_client_config(self.client_file)

    def application(self) -> ClientConfig:
        """Return the security of the connections of the application."""
        return load_client_config(self.folder / APPLICATION_FILE)

    def prepare(self, plan: ClusterPlan, metadata_version: int) -> None:
        """Write what is missing of the files of a plan; those that exist stay."""
        self.issue(plan)
        self._format(plan, metadata_version)

    def issue(self, plan: ClusterPlan) -> None:
        """Write what is missing of the certificates, passwords and keys, and the client files."""
        home = self.folder / FOLDER
        if not self.authority.exists():
            authority = Authority.new(f"local-{plan.cluster_id}", days=10 * 365, now=now())
            write_authority(home, authority)
        authority = Authority.load(home)
        for node in plan.nodes:
            path = self._keystore(node)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_issued(path, authority.issue_node(node.name, _HOSTS, days=DAYS, now=now()))
        users = self.users(plan)
        if not self.token.exists():
            secret = tokens.create(
                home / TOKENS_FILE, ADMIN, TokenRole.ADMIN, principal=f"User:{ADMIN}"
            )
            write_new(self.token, f"{secret}\n".encode())
        if not self._token_key.exists():
            write_new(self._token_key, f"{secrets.token_urlsafe(32)}\n".encode())
        for name, user in ((CLIENT_FILE, ADMIN), (APPLICATION_FILE, APPLICATION)):
            if not (self.folder / name).exists():
                text = as_properties(self._client(user, users[user]))
                write_new(self.folder / name, text.encode())

    def renewal(self, node: NodePlan) -> str:
        """Return the commands that make and install another certificate of a node."""
        authority, path = self.folder / FOLDER, self._keystore(node)
        hosts = " ".join(f"--host {each}" for each in _HOSTS)
        new = shlex.quote(f"{path}.new")
        return (
            f"metaquorum certs create-node --dir {shlex.quote(str(authority))} --name {node.name} "
            f"{hosts} --file {new} && mv {new} {shlex.quote(str(path))}, and restart the node"
        )

    async def grant(self, client: AdminClient) -> None:
        """Give the application its ACLs, once."""
        path = self.folder / FOLDER / GRANTED_FILE
        if not path.exists():
            await client.carry_out(create_acls(APPLICATION_ACLS))
            write_new(path, b"")

    def settings(self, plan: ClusterPlan, node: NodePlan) -> dict[str, object]:
        """Return the settings of a node that has its files; they have passwords in them."""
        users = self.users(plan)
        common: dict[str, object] = {
            "listener.security.protocol.map": f"{CONTROLLERS}:SASL_SSL,{CLIENTS}:SASL_SSL",
            "controller.listener.names": CONTROLLERS,
            # The default of Kafka's brokers is another type.
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._keystore(node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "delegation.token.secret.key": self._token_key.read_text().strip(),
            **self._rights(plan),
        }
        if node.http is not None:
            common |= {
                "listener.name.http.ssl.keystore.location": self._keystore(node),
                "http.tokens.file": self.folder / FOLDER / TOKENS_FILE,
            }
        own = f'username="{node.name}" password="{users[node.name]}"'
        plain = f"listener.name.{CONTROLLERS.lower()}.plain.sasl.jaas.config"
        if node.role is Role.BROKER:
            scram = f"listener.name.{CLIENTS.lower()}.{MECHANISM.mechanism.lower()}"
            return {
                **common,
                "listeners": f"{CLIENTS}://{node.kafka}",
                "inter.broker.listener.name": CLIENTS,
                "sasl.enabled.mechanisms": MECHANISM.mechanism,
                "sasl.mechanism.inter.broker.protocol": MECHANISM.mechanism,
                plain: f"{_MODULES}.plain.PlainLoginModule required {own};",
                f"{scram}.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required {own};",
            }
        known = " ".join(f'user_{each.name}="{users[each.name]}"' for each in plan.nodes)
        return {
            **common,
            "listeners": f"{CONTROLLERS}://{node.kafka}",
            "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM.mechanism}",
            plain: f"{_MODULES}.plain.PlainLoginModule required {own} {known};",
        }

    def _rights(self, plan: ClusterPlan) -> Mapping[str, str]:
        """Return the settings of the authorizer: nodes and the administrator are super users."""
        supers = [ADMIN, *(node.name for node in plan.nodes)]
        return {
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ";".join(f"User:{each}" for each in supers),
        }

    @property
    def _token_key(self) -> Path:
        """The file with the key of delegation tokens, the same for all nodes."""
        return self.folder / FOLDER / TOKEN_KEY_FILE

    def _keystore(self, node: NodePlan) -> Path:
        return self.folder / node.name / "node.pem"

    def users(self, plan: ClusterPlan) -> Mapping[str, str]:
        """Return the passwords of all users, drawn when first asked for."""
        path = self.folder / FOLDER / USERS_FILE
        if path.exists():
            found: Mapping[str, str] = json.loads(path.read_text(encoding="utf-8"))
            return found
        names = [ADMIN, APPLICATION, *(node.name for node in plan.nodes)]
        users = {name: secrets.token_urlsafe(24) for name in names}
        write_new(path, json.dumps(users, indent=2).encode() + b"\n")
        return users

    def _client(self, user: str, password: str) -> dict[str, object]:
        login = f'username="{user}" password="{password}"'
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "sasl.mechanism": MECHANISM.mechanism,
            "sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required {login};",
        }

    def _format(self, plan: ClusterPlan, metadata_version: int) -> None:
        """Write the credentials for the first leader, as `kafka-storage format` does."""
        missing = [
            path
            for node in plan.controllers
            if not (path := log_dir(self.folder, node) / FILE_NAME).exists()
        ]
        if not missing:
            return
        batches = SnapshotBatches(Epoch(0), 0)
        records = [
            codec.encode(each, metadata_version)
            for each in _first_records(self.users(plan), metadata_version)
        ]
        content = bytes(batches.opening(None, None) + batches.data(records) + batches.closing())
        for path in missing:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, content)


def _first_records(users: Mapping[str, str], metadata_version: int) -> Iterator[Record]:
    yield FeatureLevel(name=METADATA_VERSION, level=metadata_version)
    for name, level in default_levels(metadata_version).items():
        if level:
            yield FeatureLevel(name=name, level=level)
    for user, password in users.items():
        found = credential_of(MECHANISM, password, secrets.token_bytes(18))
        yield UserScramCredential(
            name=user,
            mechanism=MECHANISM.number,
            salt=found.salt,
            stored_key=found.stored_key,
            server_key=found.server_key,
            iterations=found.iterations,
        )


def now() -> datetime.datetime:
    return datetime.datetime.fromtimestamp(wall_ms() // 1_000, datetime.UTC)
