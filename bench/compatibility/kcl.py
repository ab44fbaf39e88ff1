"""kcl, the command line of franz-go, the client for Go."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.compatibility import downloads, operations, reasons
from bench.compatibility.model import (
    BROKERS,
    EVERYWHERE,
    NOWHERE,
    Act,
    Call,
    Case,
    Client,
    Operation,
    Place,
    Reason,
)
from bench.compatibility.runners import Words, run
from bench.faults import RunFailed

NAME: Final = "kcl"
ASK_SECONDS_MAX: Final = 30
_INTERRUPTED: Final = ("timeout", "--signal=INT", "--preserve-status", "15")
"""Ends a program that reads until it is interrupted."""


@contextmanager
def _started(_: Path) -> Iterator[Callable[[Case, Act], str]]:
    program = str(downloads.kcl())
    asked = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=ASK_SECONDS_MAX, check=True
    )
    if downloads.KCL not in asked.stdout:
        raise RunFailed(f"{program} is {asked.stdout.strip()}, and not {downloads.KCL}")

    def carry_out(case: Case, act: Act) -> str:
        asked = act(case)
        assert isinstance(asked, Words)
        where = ("--no-config-file", "--bootstrap-servers", case.servers)
        return run([*asked.wrapper, program, *where, *asked.words], asked.stdin)

    yield carry_out


def _call(
    operation: Operation,
    words: Callable[[Case], Sequence[str]],
    *,
    places: Sequence[Place] = EVERYWHERE,
    no: Mapping[Place, Reason] = NOWHERE,
    stdin: Callable[[Case], str] = lambda _: "",
    wrapper: Sequence[str] = (),
) -> Call:
    return Call(
        operation=operation,
        act=lambda case: Words(words(case), stdin(case), wrapper),
        places=places,
        no=no,
    )


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _removal(case: Case) -> list[str]:
    voter = case.site.a_follower()
    named = ("--controller-id", str(voter.id), "--directory-id", voter.directory_id.hex)
    return ["cluster", "remove-controller", *named]


def _addition(case: Case) -> list[str]:
    removed = case.site.a_follower()
    at = f"CONTROLLER://{case.site.controller(removed.id)}"
    named = ("--controller-id", str(removed.id), "--directory-id", removed.directory_id.hex)
    return ["cluster", "add-controller", *named, "--listeners", at]


def _acl(case: Case) -> list[str]:
    return ["--topic", case.name, "--operation", "read"]


def _producing(operation: Operation) -> Call:
    acks = {"all": "-1"}
    return _call(
        operation,
        lambda case: [
            *("produce", case.name, "--partition", "0", "--compression", case.codec),
            *("--acks", acks.get(case.acks, case.acks)),
        ],
        places=BROKERS,
        no=dict.fromkeys(BROKERS, reasons.KCL_ACKS) if operation.given["acks"] == "1" else NOWHERE,
        stdin=lambda case: "".join(f"{value}\n" for value in case.values),
    )


def _consume(case: Case) -> list[str]:
    count = str(len(case.values))
    return ["consume", case.name, "--num", count, "--timeout", "20s", "--offset", "start"]


_CALLS: Final = (
    _call(
        operations.DESCRIBE_CLUSTER,
        lambda _: ["cluster", "describe-cluster"],
        no={Place.CONTROLLERS: reasons.WRONG_ENDPOINT},
    ),
    _call(operations.LIST_NODES, lambda _: ["cluster", "metadata"]),
    _call(operations.LIST_APIS, lambda _: ["misc", "api-versions"]),
    _call(
        operations.CREATE_TOPIC,
        lambda case: [
            *("topic", "create", case.name, "-p", "2", "-r", "2"),
            *("-k", f"{operations.RETENTION}={operations.RETENTION_MS}"),
        ],
    ),
    _call(operations.LIST_TOPICS, lambda _: ["topic", "list"]),
    _call(operations.DESCRIBE_TOPIC, lambda case: ["topic", "describe", case.name]),
    _call(
        operations.ADD_PARTITIONS,
        lambda case: [
            *("topic", "add-partitions", "-t", case.name),
            *(_ids(case.brokers[:2]), ":", _ids(case.brokers[1:3])),
        ],
    ),
    _call(operations.DELETE_TOPIC, lambda case: ["topic", "delete", case.name]),
    _call(
        operations.DESCRIBE_TOPIC_CONFIG,
        lambda case: ["config", "describe", case.name, "--type", "topic"],
    ),
    _call(
        operations.ALTER_TOPIC_CONFIG,
        lambda case: [
            *("config", "alter", case.name, "--type", "topic"),
            *("--set", f"{operations.RETENTION}=600000"),
        ],
    ),
    _call(
        operations.DESCRIBE_BROKER_CONFIG,
        lambda case: ["config", "describe", str(case.brokers[0]), "--type", "broker"],
    ),
    _call(
        operations.ALTER_BROKER_CONFIG,
        lambda case: [
            *("config", "alter", str(case.brokers[0]), "--type", "broker"),
            *("--set", f"{operations.BROKER_SETTING}={operations.BROKER_VALUE}"),
        ],
    ),
    _call(
        operations.ALTER_QUOTA,
        lambda case: [
            *("quota", "alter", "--name", f"user={case.name}"),
            *("--add", f"{operations.QUOTA}={operations.QUOTA_BYTES}"),
        ],
    ),
    _call(
        operations.DESCRIBE_QUOTAS,
        lambda case: ["quota", "describe", "--name", f"user={case.name}"],
    ),
    _call(
        operations.ALTER_SCRAM,
        lambda case: [
            *("user", "alter", "--set"),
            f"user={case.name},mechanism=scram-sha-256,password=secret,"
            f"iterations={operations.ITERATIONS}",
        ],
    ),
    _call(operations.DESCRIBE_SCRAM, lambda case: ["user", "describe", "--user", case.name]),
    _call(
        operations.CREATE_ACL,
        lambda case: ["acl", "create", *_acl(case), "--allow-principal", f"User:{case.name}"],
    ),
    _call(
        operations.LIST_ACLS,
        lambda case: ["acl", "list", "--type", "any", "--principal", f"User:{case.name}"],
    ),
    _call(
        operations.DELETE_ACL,
        lambda case: [
            *("acl", "delete", "--yes", *_acl(case), "--pattern", "literal", "--perm", "any"),
            *("--principal", f"User:{case.name}"),
        ],
    ),
    _call(
        operations.DESCRIBE_LOG_DIRS,
        lambda case: ["logdirs", "describe", case.name],
        places=BROKERS,
    ),
    _call(
        operations.LIST_OFFSETS, lambda case: ["misc", "list-offsets", case.name], places=BROKERS
    ),
    _call(
        operations.DELETE_RECORDS,
        lambda case: [
            *("topic", "trim-prefix", case.name, "--yes"),
            *("--offset", str(operations.KEPT_FROM)),
        ],
        places=BROKERS,
    ),
    # It takes no names of partitions: with some, it says that there are none.
    _call(operations.ELECT_LEADERS, lambda _: ["cluster", "elect-leaders", "--all-partitions"]),
    _call(
        operations.REASSIGN,
        lambda case: ["reassign", "alter", f"{case.name}:0->{_ids(case.brokers[1:3])}"],
    ),
    _call(operations.LIST_REASSIGNMENTS, lambda _: ["reassign", "list"]),
    _call(
        operations.CANCEL_REASSIGNMENT,
        lambda case: ["reassign", "alter", f"{case.name}:0->"],
        no=dict.fromkeys(Place, reasons.KCL_CANCEL),
    ),
    _call(operations.DESCRIBE_FEATURES, lambda _: ["cluster", "features", "describe"]),
    _call(
        operations.UPDATE_FEATURE,
        lambda _: ["cluster", "features", "update", f"{operations.FEATURE}=1"],
    ),
    _call(operations.DESCRIBE_QUORUM, lambda _: ["cluster", "describe-quorum"]),
    _call(operations.REMOVE_VOTER, _removal),
    _call(operations.ADD_VOTER, _addition),
    *map(_producing, operations.PRODUCE),
    *map(_producing, operations.PRODUCE_CODEC.values()),
    _call(operations.CONSUME, _consume, places=BROKERS),
    _call(
        operations.CONSUME_IN_GROUP,
        # With --num it leaves the group without committing what it has read last.
        lambda case: ["consume", case.name, "--group", case.name],
        wrapper=_INTERRUPTED,
        places=BROKERS,
    ),
    _call(operations.LIST_GROUPS, lambda _: ["group", "list"], places=BROKERS),
    _call(operations.DESCRIBE_GROUP, lambda case: ["group", "describe", case.name], places=BROKERS),
    _call(
        operations.RESET_GROUP,
        lambda case: ["group", "seek", case.name, "--to", "start", "--yes"],
        places=BROKERS,
    ),
    _call(operations.DELETE_GROUP, lambda case: ["group", "delete", case.name], places=BROKERS),
    _call(operations.LIST_TRANSACTIONS, lambda _: ["txn", "list"], places=BROKERS),
)


def client() -> Client:
    """The program of the pinned version."""
    return Client(name=NAME, version=downloads.KCL, calls=_CALLS, start=_started)
