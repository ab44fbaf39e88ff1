"""The rules of a rolling upgrade: which node is next, and whether it may be restarted now.

Pure functions over facts that `upgrade_facts` gathers. The order is: controllers that do not vote,
voters that do not lead, the leader after it has given the lead away, then brokers; one at a time.
docs/upgrading.md says why.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from statemachine.vocabulary import METADATA_VERSION

CAUGHT_UP_MS: Final = 3_000
"""A voter that had everything so lately counts as caught up."""
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.\d{1,6}.*")
CHECK: Final = "metaquorum upgrade check"


class UpgradeNode(Struct, frozen=True, kw_only=True):
    """One node of the cluster, as it answers itself and as the quorum knows it."""

    id: int
    role: Annotated[str, Meta(description="controller or broker")]
    address: str
    version: Annotated[str, Meta(description="Empty: it does not say")] = ""
    of_kafka: Annotated[bool, Meta(description="True if the node is one of Kafka's")] = False
    problem: Annotated[str | None, Meta(description="Why it does not answer; null: it does")] = None
    voter: bool = False
    leader: bool = False
    caught_up: Annotated[bool, Meta(description="Of a replica of the log or a live broker")] = False
    levels: dict[str, tuple[int, int]] = {}
    """The levels of features that it supports."""
    unsafe: Annotated[
        str | None, Meta(description="Why the broker may not stop; null: it may, or is not next")
    ] = None

    @property
    def name(self) -> str:
        """The node in a sentence."""
        return f"{self.role} {self.id}"

    @property
    def runs(self) -> str:
        """The release that it runs, in words."""
        if self.problem is not None:
            return "does not answer"
        return f"runs {self.version or 'a release that does not name itself (before 0.1.0)'}"


class UpgradeFacts(Struct, frozen=True, kw_only=True):
    """The facts that the rules judge."""

    target: str
    """The release that every node is to run."""
    is_asked: bool = False
    """True if the operator has named the release: going back is then what is wanted."""
    nodes: Sequence[UpgradeNode]
    in_force: Mapping[str, int] = {}
    """The levels of features in force."""
    supported: Mapping[str, tuple[int, int]] = {}
    """The levels that the target supports; none if that is another release than this one."""
    unhealthy: Sequence[tuple[str, str]] = ()
    """What is wrong with the cluster: sentences, each with the command that mends it."""
    voters_change: bool = False
    """True while the voters are being changed."""


class Obstacle(Struct, frozen=True, kw_only=True):
    """Something that stands in the way, and how to clear it."""

    sentence: str
    command: str


class Step(Struct, frozen=True, kw_only=True):
    """The next thing to do."""

    node: Annotated[int | None, Meta(description="null: it is about no single node")]
    sentence: str
    commands: tuple[str, ...]


class UpgradeReport(Struct, frozen=True, kw_only=True):
    """The answer of `metaquorum upgrade check`."""

    target: Annotated[str, Meta(description="The release that every node is to run")]
    done: Annotated[bool, Meta(description="True if every node runs it")]
    safe: Annotated[bool, Meta(description="True if nothing stands in the way of the next step")]
    nodes: tuple[UpgradeNode, ...]
    left: Annotated[tuple[int, ...], Meta(description="Nodes to restart, in this order")]
    obstacles: tuple[Obstacle, ...]
    next: Step


def judge(facts: UpgradeFacts) -> UpgradeReport:
    """Return which node is next, and what stands in the way."""
    left = [each for each in order(facts.nodes) if each.version != facts.target]
    obstacles = [*_of_cluster(facts), *_of_versions(facts), *_of_levels(facts)]
    if left:
        obstacles += _of_restart(left[0], facts)
    return UpgradeReport(
        target=facts.target,
        done=not left,
        safe=not obstacles,
        nodes=tuple(facts.nodes),
        left=tuple(each.id for each in left),
        obstacles=tuple(obstacles),
        next=_step(left, facts),
    )


def order(nodes: Sequence[UpgradeNode]) -> list[UpgradeNode]:
    """Return our nodes in the order of their restarts; those of Kafka are left out."""
    return sorted(
        (each for each in nodes if not each.of_kafka),
        key=lambda node: (node.role != "controller", node.leader, node.voter, node.id),
    )


def restart_refusal(node: UpgradeNode, facts: UpgradeFacts) -> str | None:
    """Return why a node must not be restarted now, or None.

    A quorum of one or two voters has no majority without one of them, whenever it is restarted.
    """
    if node.role != "controller":
        return node.unsafe
    voters = [each for each in facts.nodes if each.voter]
    majority = len(voters) // 2 + 1
    if not node.voter or len(voters) <= 2:
        return None
    others = [each for each in voters if each.id != node.id and each.caught_up]
    if len(others) >= majority:
        return None
    behind = [each.name for each in voters if each.id != node.id and not each.caught_up]
    return (
        f"without {node.name} the quorum has no majority: {', '.join(behind)} "
        f"{'has' if len(behind) == 1 else 'have'} not caught up"
    )


def _of_cluster(facts: UpgradeFacts) -> list[Obstacle]:
    found = [Obstacle(sentence=text, command=command) for text, command in facts.unhealthy]
    if facts.voters_change:
        found.append(
            Obstacle(
                sentence="the voters are being changed, and a restart might take its majority",
                command="metadata-quorum describe --status, until there are no target voters",
            )
        )
    for node in facts.nodes:
        if node.problem is not None:
            found.append(
                Obstacle(
                    sentence=f"{node.name} at {node.address} does not answer: {node.problem}",
                    command="start it, or look into its log; if it is gone for good, remove it "
                    f"(metadata-quorum remove-controller --controller-id {node.id})"
                    if node.role == "controller"
                    else "start it, or look into its log",
                )
            )
    return found


def _of_versions(facts: UpgradeFacts) -> list[Obstacle]:
    found = []
    target = release(facts.target)
    for node in facts.nodes:
        theirs = release(node.version)
        if theirs is None or target is None:
            continue
        if theirs > target and not facts.is_asked:
            found.append(
                Obstacle(
                    sentence=f"{node.name} runs {node.version}, which is newer than this command",
                    command=f"use the command of {node.version}, or to go back: {CHECK} --to "
                    f"{facts.target}",
                )
            )
        elif theirs[0] != target[0] or abs(theirs[1] - target[1]) > 1:
            found.append(
                Obstacle(
                    sentence=f"{node.name} runs {node.version}, and {facts.target} is not the "
                    "release next to it: only neighbours are tried together",
                    command="upgrade to the releases between, one after the other",
                )
            )
    return found


def _of_levels(facts: UpgradeFacts) -> list[Obstacle]:
    found = []
    for name, level in sorted(facts.in_force.items()):
        lowest, highest = facts.supported.get(name, (0, level))
        if level and not lowest <= level <= highest:
            found.append(
                Obstacle(
                    sentence=f"{name} is in force at {level}, and metaquorum {facts.target} "
                    f"supports {lowest} to {highest}",
                    command=f"metaquorum features downgrade --feature {name}={highest}, as far as "
                    "the feature allows it",
                )
            )
        for node in facts.nodes:
            if node.problem is not None or name not in node.levels:
                continue
            low, high = node.levels[name]
            if level and not low <= level <= high:
                found.append(
                    Obstacle(
                        sentence=f"{name} is in force at {level}, and {node.name} supports {low} "
                        f"to {high}: it will not start again",
                        command=f"upgrade {node.name} first, or take it out of the cluster",
                    )
                )
    return found


def _of_restart(node: UpgradeNode, facts: UpgradeFacts) -> list[Obstacle]:
    refusal = restart_refusal(node, facts)
    if refusal is None:
        return []
    command = "metadata-quorum describe --replication"
    if node.role != "controller":
        command = f"metaquorum brokers safe-to-stop --brokers {node.id}"
    return [Obstacle(sentence=refusal, command=f"{command}, until it is safe")]


def _step(left: Sequence[UpgradeNode], facts: UpgradeFacts) -> Step:
    if not left:
        return _after(facts)
    node = left[0]
    commands: list[str] = []
    pause = ""
    voters = [each for each in facts.nodes if each.voter]
    if node.leader and len(voters) > 1:
        to = next((each for each in order(voters) if not each.leader and each.caught_up), None)
        commands.append(f"metaquorum leader transfer{'' if to is None else f' --to {to.id}'}")
    if node.voter and len(voters) <= 2:
        pause = f" (with {len(voters)} voters nothing can be changed until it is back)"
    commands += [
        f"install metaquorum {facts.target} for {node.name}, and restart it: SIGTERM, then "
        "metaquorum start --config FILE",
        f"{CHECK}{f' --to {facts.target}' if facts.is_asked else ''}",
    ]
    return Step(
        node=node.id,
        sentence=f"{node.name} {node.runs}, and is the next to run {facts.target}{pause}",
        commands=tuple(commands),
    )


def _after(facts: UpgradeFacts) -> Step:
    """Return what to do once every node runs the release: raise a level that all support."""
    level = facts.in_force.get(METADATA_VERSION, 0)
    ranges = [
        each.levels[METADATA_VERSION] for each in facts.nodes if METADATA_VERSION in each.levels
    ]
    highest = min((high for _, high in ranges), default=0)
    if level and highest > level:
        return Step(
            node=None,
            sentence=f"every node runs {facts.target} and supports {METADATA_VERSION} {highest}; "
            f"{level} is in force, which leaves the way back open",
            commands=(f"metaquorum features upgrade --feature {METADATA_VERSION}={highest}",),
        )
    return Step(node=None, sentence=f"every node runs {facts.target}: nothing is left", commands=())


def release(version: str) -> tuple[int, int] | None:
    """Return the major and the minor number of a version, or None if it is no version."""
    match = _VERSION.fullmatch(version)
    return None if match is None else (int(match[1]), int(match[2]))
