"""The plan of a cluster on this machine, and its files.

A folder belongs to one cluster for good: its `local.json` keeps the cluster id, the nodes and their
ports, and each node has a folder with its settings and data. No process is started here.
"""

import json
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from admin.setting_kinds import Role
from admin.settings import SETTINGS
from quorum.core.vocabulary import uuid_to_text
from quorum.log.filesystem import replace_file
from quorum.transport.address import Address, parse_address
from quorum.version import VERSION

HOST: Final = "127.0.0.1"
CONTROLLERS: Final = 3
BROKERS: Final = 4
CONTROLLERS_MAX: Final = 9
BROKERS_MAX: Final = 50
BASE_PORT: Final = 19_000
FIRST_BROKER_ID: Final = 101
HTTP_PORT_OFFSET: Final = 50
"""The HTTP port of a node is its Kafka port plus this."""
PORTS_SPANNED: Final = 201

# Below the range from which systems take the ports of outgoing connections, so that the port of a
# node that is down for a moment stays free for it.
FREE_PORT_LOWEST: Final = 10_000
FREE_PORT_HIGHEST: Final = 32_000
FREE_PORT_TRIES: Final = 200

FORMAT: Final = 1
PLAN_FILE: Final = "local.json"
CLUSTER_FILE: Final = "cluster.json"
SETTINGS_FILE: Final = "node.properties"
LOG_FILE: Final = "node.log"

assert CONTROLLERS_MAX < HTTP_PORT_OFFSET
assert HTTP_PORT_OFFSET + CONTROLLERS_MAX < FIRST_BROKER_ID
assert BROKERS_MAX <= HTTP_PORT_OFFSET
assert FIRST_BROKER_ID + BROKERS_MAX + HTTP_PORT_OFFSET <= PORTS_SPANNED


class LocalError(Exception):
    """The cluster cannot be set up or started; one sentence says why, and how to proceed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node: its role and its listeners. Brokers of Kafka have no HTTP listener."""

    role: Role
    id: int
    kafka: Address
    http: Address | None = None

    @property
    def name(self) -> str:
        """The name of the node and of its folder."""
        return f"{self.role}-{self.id}"

    def as_data(self) -> dict[str, Any]:
        """The node as JSON has it."""
        http = {} if self.http is None else {"http": str(self.http)}
        return {"id": self.id, "kafka": str(self.kafka), **http}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """A cluster of this machine; its nodes are started in this order."""

    cluster_id: str
    nodes: Sequence[NodePlan]
    kafka: str | None = None
    """The release of Kafka whose brokers these are; None for the embedded ones."""
    is_secure: bool = False
    """True if every listener has TLS and authenticates its clients (`local_security`)."""

    @property
    def controllers(self) -> tuple[NodePlan, ...]:
        """The controllers, by rising id."""
        return tuple(node for node in self.nodes if node.role is Role.CONTROLLER)

    @property
    def brokers(self) -> tuple[NodePlan, ...]:
        """The brokers, by rising id."""
        return tuple(node for node in self.nodes if node.role is Role.BROKER)

    def as_data(self, describe: Callable[[NodePlan], Mapping[str, Any]]) -> dict[str, Any]:
        """The cluster as JSON has it, with more about each node."""
        return {
            "format": FORMAT,
            "cluster_id": self.cluster_id,
            "controllers": [{**node.as_data(), **describe(node)} for node in self.controllers],
            "brokers": [{**node.as_data(), **describe(node)} for node in self.brokers],
            **({} if self.kafka is None else {"kafka_version": self.kafka}),
            **({"secure": True} if self.is_secure else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested shape; None takes that of the folder or, for a new one, the default."""

    controllers: int | None = None
    brokers: int | None = None
    base_port: int | None = None
    """0 takes free ports."""
    kafka: str | None = None
    """Brokers of this release of Kafka instead of the embedded ones."""
    is_secure: bool = False
    """TLS and SASL on every listener; a folder that has them keeps them."""


def settle(folder: Path, wanted: Wanted, rng: random.Random) -> ClusterPlan:
    """Read the plan of `folder`, or make a new one and write it there; raises `LocalError`.

    `rng` draws the cluster id, and the ports if free ones are wanted.
    """
    path = folder / PLAN_FILE
    if path.exists():
        plan = _read(path)
        _check_wanted(folder, plan, wanted)
        return plan
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LocalError(
            f"{folder} is not empty and has no {PLAN_FILE}, so it is not the folder of a local "
            "cluster: choose another --dir"
        )
    plan = _new(wanted, rng)
    check_ports(plan, remedy="stop what holds it, or choose another --base-port")
    folder.mkdir(mode=0o700 if plan.is_secure else 0o777, parents=True, exist_ok=True)
    data = plan.as_data(lambda _: {})
    replace_file(path, json.dumps(data, indent=2).encode() + b"\n")
    return plan


class MoreOfNode(NamedTuple):
    """Settings of single nodes, which win over what every node needs, and how files are written."""

    settings: Callable[[NodePlan], Mapping[str, object]] = lambda _: {}
    write: Callable[[Path, bytes], None] = replace_file
    """Writes a new file; the settings may have passwords in them."""


NO_MORE: Final = MoreOfNode()


def write_settings(
    folder: Path, plan: ClusterPlan, more: Mapping[str, str], of_node: MoreOfNode = NO_MORE
) -> None:
    """Write the settings file of every node that has none; an existing file stays.

    `more` are further settings, each for the roles that it applies to.
    """
    voters = ",".join(f"{node.id}@{node.kafka}" for node in plan.controllers)
    for node in plan.controllers if plan.kafka else plan.nodes:
        path = folder / node.name / SETTINGS_FILE
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        settings = {
            **node_settings(node, plan.cluster_id, voters, log_dir(folder, node)),
            **of_node.settings(node),
            **{name: each for name, each in more.items() if SETTINGS[name].applies_to(node.role)},
        }
        of_node.write(path, as_properties(settings).encode())


def node_settings(node: NodePlan, cluster_id: str, voters: str, data: Path) -> dict[str, object]:
    """The settings that every node needs."""
    return {
        "process.roles": node.role,
        "node.id": node.id,
        "cluster.id": cluster_id,
        "listeners": node.kafka,
        **({} if node.http is None else {"http.listener": node.http}),
        "log.dir": data,
        "quorum.voters": voters,
    }


def as_properties(values: Mapping[str, object], command: str = "local") -> str:
    """A properties file; of what can stand in the values here, only backslashes are escaped."""
    lines = (f"{name}={value}".replace("\\", "\\\\") for name, value in values.items())
    return "\n".join([f"# Written once by `metaquorum {command}`; it may be edited.", *lines, ""])


def log_dir(folder: Path, node: NodePlan) -> Path:
    """The data folder of the node."""
    return (folder / node.name / "data").absolute()


def local_folder(data: Path) -> Path | None:
    """The folder of the local cluster that a data folder (`log_dir`) belongs to, or None."""
    folder = data.absolute().parent.parent
    return folder if (folder / PLAN_FILE).is_file() else None


def takes_commands(folder: Path) -> bool:
    """True if a `metaquorum local` runs the cluster in this folder; a demo takes no commands."""
    try:
        return "control" in json.loads((folder / CLUSTER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def check_ports(plan: ClusterPlan, *, remedy: str = "stop what holds it") -> None:
    """Raise `LocalError` for the first port that another process holds."""
    for node in plan.nodes:
        for address, purpose in ((node.kafka, "the Kafka protocol"), (node.http, "HTTP")):
            if address is not None and not _is_free(address):
                raise LocalError(
                    f"port {address.port} of {address.host} is taken; {node.role} {node.id} wants "
                    f"it for {purpose}: {remedy}"
                )


def _new(wanted: Wanted, rng: random.Random) -> ClusterPlan:
    controllers = CONTROLLERS if wanted.controllers is None else wanted.controllers
    brokers = BROKERS if wanted.brokers is None else wanted.brokers
    base_port = BASE_PORT if wanted.base_port is None else wanted.base_port
    ids = [*range(1, controllers + 1), *range(FIRST_BROKER_ID, FIRST_BROKER_ID + brokers)]
    if base_port == 0:
        base_port = _free_base_port(ids, rng)
    return ClusterPlan(
        cluster_id=_cluster_id(rng),
        nodes=tuple(_node(id, base_port, is_kafka=wanted.kafka is not None) for id in ids),
        kafka=wanted.kafka,
        is_secure=wanted.is_secure,
    )


def _node(id: int, base_port: int, *, is_kafka: bool = False) -> NodePlan:
    """Return the plan of a node; with `is_kafka` the brokers are Kafka's."""
    kafka = Address(HOST, base_port + id)
    role = Role.BROKER if id >= FIRST_BROKER_ID else Role.CONTROLLER
    has_http = role is Role.CONTROLLER or not is_kafka
    http = Address(HOST, base_port + HTTP_PORT_OFFSET + id) if has_http else None
    return NodePlan(role=role, id=id, kafka=kafka, http=http)


def _free_base_port(ids: Sequence[int], rng: random.Random) -> int:
    for _ in range(FREE_PORT_TRIES):
        base_port = rng.randrange(FREE_PORT_LOWEST, FREE_PORT_HIGHEST - PORTS_SPANNED)
        nodes = [_node(id, base_port) for id in ids]
        addresses = [address for node in nodes for address in (node.kafka, node.http) if address]
        if all(map(_is_free, addresses)):
            return base_port
    raise LocalError(
        f"no {PORTS_SPANNED} ports in a row were found free between {FREE_PORT_LOWEST} and "
        f"{FREE_PORT_HIGHEST}: choose a --base-port"
    )


def _is_free(address: Address) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do it: a connection that lingers after its end does not hold a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
    return True


def _cluster_id(rng: random.Random) -> str:
    while True:
        text = uuid_to_text(UUID(int=rng.getrandbits(128), version=4))
        # A command line would take an id that begins with a dash for an option.
        if not text.startswith("-"):
            return text


def _read(path: Path) -> ClusterPlan:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        check_format(path, data)
        return ClusterPlan(
            cluster_id=str(data["cluster_id"]),
            nodes=(
                *(_node_of(Role.CONTROLLER, each) for each in data["controllers"]),
                *(_node_of(Role.BROKER, each) for each in data["brokers"]),
            ),
            kafka=data.get("kafka_version"),
            is_secure=data.get("secure", False),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalError(
            f"{path} cannot be read as the plan of a local cluster ({error!r}): restore it, or "
            "choose another --dir"
        ) from error


def check_format(path: Path, data: Any) -> None:
    """Raise `LocalError` for a file of another release, `ValueError` for what is no JSON object.

    The `cluster.json` of a former release may have no format.
    """
    if not isinstance(data, dict):
        raise ValueError("not an object")
    found = data.get("format", FORMAT)
    if found != FORMAT:
        raise LocalError(
            f"{path} has format {found}, and metaquorum {VERSION} reads {FORMAT}: use the release "
            "that wrote it"
        )


def _node_of(role: Role, data: Mapping[str, Any]) -> NodePlan:
    http = parse_address(data["http"]) if "http" in data else None
    return NodePlan(role=role, id=int(data["id"]), kafka=parse_address(data["kafka"]), http=http)


def _check_wanted(folder: Path, plan: ClusterPlan, wanted: Wanted) -> None:
    kept = {
        "--controllers": (wanted.controllers, len(plan.controllers)),
        "--brokers": (wanted.brokers, len(plan.brokers)),
        "--base-port": (wanted.base_port or None, plan.controllers[0].kafka.port - 1),
        "--kafka": (wanted.kafka, plan.kafka or "the embedded brokers"),
    }
    if wanted.is_secure and not plan.is_secure:
        raise LocalError(
            f"--secure contradicts the cluster in {folder}, which has no security: leave the flag "
            "out, or choose another --dir"
        )
    for flag, (asked, stored) in kept.items():
        if asked is not None and asked != stored:
            raise LocalError(
                f"{flag} {asked} contradicts the cluster in {folder}, which has {stored}: leave "
                "the flag out, or choose another --dir"
            )
