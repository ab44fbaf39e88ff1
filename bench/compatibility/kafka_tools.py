"""Kafka's command-line tools, of several releases.

The tools of a release run one after the other in one Java, which is started again after a tool that
does not end; the console tools, which read and write streams, have a Java each.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from admin.tools.kafka_runtime import Runtime
from bench.compatibility import downloads, operations, reasons
from bench.compatibility.model import (
    BROKERS,
    EVERYWHERE,
    NOWHERE,
    Act,
    Call,
    Case,
    Client,
    Failed,
    Operation,
    Place,
    Reason,
)
from bench.compatibility.runners import Words, run, within_limit
from quorum.core.vocabulary import uuid_to_text
from tests.process.kafka_tools_process import SCRIPTS, Said, ToolsRoom, acl_tool, tools_room

NAME: Final = "Kafka's command-line tools"
VERSIONS: Final = ("3.9.1", "4.1.1", "4.2.0", "4.3.1")
SINCE_4: Final = VERSIONS[1:]
_CONSOLE: Final = {
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
}
_IN_3_9: Final = {
    "kafka-acls.sh": acl_tool("3.9.1"),
    "kafka-broker-api-versions.sh": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-console-producer.sh": "kafka.tools.ConsoleProducer",
}
_TIMEOUT_MS: Final = "20000"
_NOT_AT_CONTROLLERS: Final = {Place.CONTROLLERS: reasons.BROKERS_ONLY}


class _Tools:
    """The tools of one release."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self._runtime = runtime
        self._folder = folder
        self._stack = ExitStack()
        self._room: ToolsRoom | None = None
        self._classes = {**SCRIPTS, **_CONSOLE}
        if runtime.release.version.startswith("3."):
            self._classes |= _IN_3_9

    def close(self) -> None:
        """End the Java."""
        self._stack.close()
        self._room = None

    def _logging(self) -> str:
        """The option of a Java that logs warnings, as those of Kafka's scripts do."""
        release = self._runtime.release
        file = self._folder / "logging.properties"
        text = release.logging_file.replace("INFO", "WARN").replace("=info", "=warn")
        file.write_text(text, encoding="utf-8")
        return f"-D{release.logging_property}={file.as_uri()}"

    def __call__(self, case: Case, act: Act) -> str:
        asked = act(case)
        assert isinstance(asked, Words)
        script, *arguments = asked.words
        name = self._classes[script]
        if script in _CONSOLE:
            return run(self._runtime.tool(name, arguments, self._logging()), asked.stdin)
        if self._room is None:
            self._room = self._stack.enter_context(tools_room(self._runtime, self._folder))
        room = self._room
        said: Said = within_limit(lambda: room.run(name, arguments), self.close)
        if said.code:
            raise Failed(f"exit code {said.code}: {' '.join(said.text.split())[:1_500]}")
        return said.text


@contextmanager
def _started(version: str, folder: Path) -> Iterator[Callable[[Case, Act], str]]:
    tools = _Tools(downloads.kafka_tools(version), folder)
    try:
        yield tools
    finally:
        tools.close()


def _servers(case: Case) -> list[str]:
    kind = "controller" if case.place is Place.CONTROLLERS else "server"
    return [f"--bootstrap-{kind}", case.servers]


def _call(
    operation: Operation,
    script: str,
    words: Callable[[Case], Sequence[str]],
    *,
    places: Sequence[Place] = BROKERS,
    no: Mapping[Place, Reason] = NOWHERE,
    stdin: Callable[[Case], str] = lambda _: "",
) -> Call:
    """A call with the words after those that name the servers."""
    file = f"{script}.sh"

    def act(case: Case) -> Words:
        rest, servers = list(words(case)), _servers(case)
        # This tool alone wants the servers behind its subcommand.
        line = [*rest, *servers] if script == "kafka-cluster" else [*servers, *rest]
        return Words([file, *line], stdin(case))

    return Call(operation=operation, act=act, places=places, no=no, program=script)


def _file(case: Case, content: object) -> str:
    path = case.folder / f"{case.name}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def _plan(case: Case, replicas: Sequence[int]) -> str:
    partition = {"topic": case.name, "partition": 0, "replicas": list(replicas)}
    return _file(case, {"version": 1, "partitions": [partition]})


def _kept_records(case: Case) -> str:
    partition = {"topic": case.name, "partition": 0, "offset": operations.KEPT_FROM}
    return _file(case, {"version": 1, "partitions": [partition]})


def _controller_file(case: Case) -> str:
    """The settings of a Kafka controller in the place of the one that is not a voter."""
    removed = case.site.a_follower()
    lines = (
        "process.roles=controller",
        f"node.id={removed.id}",
        "controller.listener.names=CONTROLLER",
        f"listeners=CONTROLLER://{case.site.controller(removed.id)}",
        f"log.dirs={case.site.data(removed.id)}",
        "",
    )
    path = case.folder / f"{case.name}.properties"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def _removal(case: Case) -> list[str]:
    voter = case.site.a_follower()
    directory = uuid_to_text(voter.directory_id)
    return [
        *("remove-controller", "--controller-id", str(voter.id)),
        # An id that begins with a dash would be taken for an option.
        f"--controller-directory-id={directory}",
    ]


def _topic(case: Case) -> list[str]:
    return ["--topic", case.name]


def _entity(kind: str, name: Callable[[Case], str]) -> Callable[[Case], list[str]]:
    return lambda case: ["--entity-type", kind, "--entity-name", name(case)]


_OF_TOPIC: Final = _entity("topics", operations.name)
_OF_BROKER: Final = _entity("brokers", lambda case: str(case.brokers[0]))
_OF_USER: Final = _entity("users", operations.name)


def _acl(case: Case) -> list[str]:
    return [*("--allow-principal", f"User:{case.name}", "--operation", "Read"), *_topic(case)]


def _consumer(case: Case) -> list[str]:
    count = str(len(case.values))
    return [*_topic(case), "--max-messages", count, "--timeout-ms", _TIMEOUT_MS]


_TOPICS: Final = (
    _call(
        operations.CREATE_TOPIC,
        "kafka-topics",
        lambda case: [
            *("--create", "--partitions", "2", "--replication-factor", "2"),
            *_topic(case),
            *("--config", f"{operations.RETENTION}={operations.RETENTION_MS}"),
        ],
    ),
    _call(operations.LIST_TOPICS, "kafka-topics", lambda _: ["--list"]),
    _call(operations.DESCRIBE_TOPIC, "kafka-topics", lambda case: ["--describe", *_topic(case)]),
    _call(
        operations.ADD_PARTITIONS,
        "kafka-topics",
        lambda case: ["--alter", *_topic(case), "--partitions", "3"],
    ),
    _call(operations.DELETE_TOPIC, "kafka-topics", lambda case: ["--delete", *_topic(case)]),
)


def _cluster(version: str) -> tuple[Call, ...]:
    since_4 = version in SINCE_4
    found = [
        _call(
            operations.DESCRIBE_CLUSTER,
            "kafka-cluster",
            lambda _: ["cluster-id"],
            places=EVERYWHERE,
        ),
        _call(
            operations.UNREGISTER_BROKER,
            "kafka-cluster",
            lambda case: ["unregister", "--id", str(case.broker)],
            places=EVERYWHERE,
            no=NOWHERE if since_4 else _NOT_AT_CONTROLLERS,
        ),
        _call(operations.LIST_APIS, "kafka-broker-api-versions", lambda _: []),
    ]
    if since_4:
        found.insert(
            1,
            _call(
                operations.LIST_NODES,
                "kafka-cluster",
                lambda _: ["list-endpoints"],
                places=EVERYWHERE,
            ),
        )
    return tuple(found)


def _topic_settings(version: str) -> Call:
    return _call(
        operations.DESCRIBE_TOPIC_CONFIG,
        "kafka-configs",
        lambda case: ["--describe", *_OF_TOPIC(case)],
        places=EVERYWHERE,
        # Since 4.0 it first asks for the topics, which it does not do at controllers.
        no=_NOT_AT_CONTROLLERS if version in SINCE_4 else NOWHERE,
    )


_CONFIGS: Final = (
    _call(
        operations.ALTER_TOPIC_CONFIG,
        "kafka-configs",
        lambda case: ["--alter", *_OF_TOPIC(case), "--add-config", "retention.ms=600000"],
        places=EVERYWHERE,
    ),
    _call(
        operations.DESCRIBE_BROKER_CONFIG,
        "kafka-configs",
        lambda case: ["--describe", *_OF_BROKER(case)],
    ),
    _call(
        operations.ALTER_BROKER_CONFIG,
        "kafka-configs",
        lambda case: [
            *("--alter", *_OF_BROKER(case), "--add-config"),
            f"{operations.BROKER_SETTING}={operations.BROKER_VALUE}",
        ],
    ),
    _call(
        operations.ALTER_DEFAULT_CONFIG,
        "kafka-configs",
        lambda _: [
            *("--alter", "--entity-type", "brokers", "--entity-default", "--add-config"),
            f"{operations.BROKER_SETTING}={operations.BROKER_VALUE}",
        ],
        places=EVERYWHERE,
    ),
    _call(
        operations.ALTER_QUOTA,
        "kafka-configs",
        lambda case: [
            *("--alter", *_OF_USER(case), "--add-config"),
            f"{operations.QUOTA}={operations.QUOTA_BYTES}",
        ],
        places=EVERYWHERE,
        no=_NOT_AT_CONTROLLERS,
    ),
    _call(
        operations.DESCRIBE_QUOTAS,
        "kafka-configs",
        lambda case: ["--describe", *_OF_USER(case)],
        places=EVERYWHERE,
        no=_NOT_AT_CONTROLLERS,
    ),
    _call(
        operations.ALTER_SCRAM,
        "kafka-configs",
        lambda case: [
            *("--alter", *_OF_USER(case), "--add-config"),
            f"SCRAM-SHA-256=[iterations={operations.ITERATIONS},password=secret]",
        ],
        places=EVERYWHERE,
        no=_NOT_AT_CONTROLLERS,
    ),
    _call(
        operations.DESCRIBE_SCRAM,
        "kafka-configs",
        lambda case: ["--describe", *_OF_USER(case)],
        places=EVERYWHERE,
        no=_NOT_AT_CONTROLLERS,
    ),
)


def _acls(version: str) -> tuple[Call, ...]:
    places = EVERYWHERE if version in SINCE_4 else BROKERS
    return (
        _call(
            operations.CREATE_ACL, "kafka-acls", lambda case: ["--add", *_acl(case)], places=places
        ),
        _call(
            operations.LIST_ACLS,
            "kafka-acls",
            lambda case: ["--list", "--principal", f"User:{case.name}"],
            places=places,
        ),
        _call(
            operations.DELETE_ACL,
            "kafka-acls",
            lambda case: ["--remove", "--force", *_acl(case)],
            places=places,
        ),
    )


_PARTITIONS: Final = (
    _call(
        operations.DESCRIBE_LOG_DIRS,
        "kafka-log-dirs",
        lambda case: ["--describe", "--topic-list", case.name],
    ),
    _call(operations.LIST_OFFSETS, "kafka-get-offsets", _topic),
    _call(
        operations.DELETE_RECORDS,
        "kafka-delete-records",
        lambda case: ["--offset-json-file", _kept_records(case)],
    ),
    _call(
        operations.ELECT_LEADERS,
        "kafka-leader-election",
        lambda case: ["--election-type", "preferred", *_topic(case), "--partition", "0"],
    ),
)


def _moves(version: str) -> tuple[Call, ...]:
    places = EVERYWHERE if version in SINCE_4 else BROKERS
    script = "kafka-reassign-partitions"
    return (
        _call(
            operations.PROPOSE,
            script,
            lambda case: [
                "--generate",
                "--topics-to-move-json-file",
                _file(case, {"version": 1, "topics": [{"topic": case.name}]}),
                "--broker-list",
                ",".join(map(str, case.brokers[1:])),
            ],
            places=BROKERS,
        ),
        _call(
            operations.REASSIGN,
            script,
            lambda case: ["--execute", "--reassignment-json-file", _plan(case, case.brokers[1:3])],
        ),
        _call(
            operations.VERIFY,
            script,
            lambda case: ["--verify", "--reassignment-json-file", _plan(case, case.brokers[:2])],
        ),
        _call(operations.LIST_REASSIGNMENTS, script, lambda _: ["--list"], places=places),
        _call(
            operations.CANCEL_REASSIGNMENT,
            script,
            lambda case: [
                *("--cancel", "--preserve-throttles", "--reassignment-json-file"),
                _plan(case, [case.brokers[0], case.broker]),
            ],
            places=places,
        ),
    )


_QUORUM: Final = (
    _call(
        operations.DESCRIBE_FEATURES, "kafka-features", lambda _: ["describe"], places=EVERYWHERE
    ),
    _call(
        operations.UPDATE_FEATURE,
        "kafka-features",
        lambda _: ["upgrade", "--feature", f"{operations.FEATURE}=1"],
        places=EVERYWHERE,
    ),
    _call(
        operations.DESCRIBE_QUORUM,
        "kafka-metadata-quorum",
        lambda _: ["describe", "--replication"],
        places=EVERYWHERE,
    ),
    _call(operations.REMOVE_VOTER, "kafka-metadata-quorum", _removal, places=EVERYWHERE),
    _call(
        operations.ADD_VOTER,
        "kafka-metadata-quorum",
        lambda case: ["--command-config", _controller_file(case), "add-controller"],
        places=EVERYWHERE,
    ),
)


def _producing(operation: Operation) -> Call:
    return _call(
        operation,
        "kafka-console-producer",
        lambda case: [
            *_topic(case),
            # It has no word for "no codec" that all releases understand.
            *(() if case.codec == "none" else ("--compression-codec", case.codec)),
            *("--request-required-acks", case.acks),
        ],
        stdin=lambda case: "".join(f"{value}\n" for value in case.values),
    )


_RECORDS: Final = (
    *map(_producing, operations.PRODUCE),
    *map(_producing, operations.PRODUCE_CODEC.values()),
    _call(
        operations.CONSUME,
        "kafka-console-consumer",
        lambda case: [*_consumer(case), "--partition", "0", "--offset", "earliest"],
    ),
)
_GROUPS: Final = (
    _call(
        operations.CONSUME_IN_GROUP,
        "kafka-console-consumer",
        lambda case: [*_consumer(case), "--from-beginning", "--group", case.name],
    ),
    _call(operations.LIST_GROUPS, "kafka-consumer-groups", lambda _: ["--list"]),
    _call(
        operations.DESCRIBE_GROUP,
        "kafka-consumer-groups",
        lambda case: ["--describe", "--group", case.name],
    ),
    _call(
        operations.RESET_GROUP,
        "kafka-consumer-groups",
        lambda case: [
            *("--reset-offsets", "--to-earliest", "--execute", "--group", case.name),
            *_topic(case),
        ],
    ),
    _call(
        operations.DELETE_GROUP,
        "kafka-consumer-groups",
        lambda case: ["--delete", "--group", case.name],
    ),
    _call(operations.LIST_TRANSACTIONS, "kafka-transactions", lambda _: ["list"]),
)


def client(version: str) -> Client:
    """The tools of one release."""
    return Client(
        name=NAME,
        version=version,
        start=lambda folder: _started(version, folder),
        calls=(
            *_cluster(version),
            *_TOPICS,
            _topic_settings(version),
            *_CONFIGS,
            *_acls(version),
            *_PARTITIONS,
            *_moves(version),
            *_QUORUM,
            *_RECORDS,
            *_GROUPS,
        ),
    )
