"""The rules of a migration: the next step, and the end. Pure functions; `findings` has the plan.

The voters change one at a time, and one is added before one is removed. So a migration between
three voters and three alternates between four voters and three, and after every step as many voters
may be lost as before.

Nothing is changed before every broker has a controller among its bootstrap servers that is to vote
in the end. A controller of Kafka's that has lost its vote looks for the leader only at its own
bootstrap servers, the other ones of Kafka's; brokers that have no other servers either would not
find a leader of ours, and be fenced one session later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admin.tools.migrate.state import (
    AddVoter,
    BrokerSettings,
    Controller,
    Done,
    Kind,
    QuorumState,
    RemoveVoter,
    Step,
    TransferLead,
    Wait,
)
from admin.units import show_duration
from quorum.transport.address import Address


def next_of_change(
    quorum: QuorumState, wanted: Mapping[int, Address], settings: BrokerSettings
) -> Step:
    """Return the next step towards the voters `wanted`, or what must come before it."""
    step = next_step(quorum, wanted)
    if isinstance(step, Wait | Done):
        return step
    return unprepared(quorum, wanted, settings) or step


def unprepared(
    quorum: QuorumState, wanted: Mapping[int, Address], settings: BrokerSettings
) -> Wait | None:
    """Return the wait for brokers that would not find the controllers `wanted`, or None."""
    stale = [each.id for each in settings.brokers if not _finds(each.id, wanted, settings)]
    if not stale:
        return None
    remedy = f"Give each {servers_line(quorum, wanted)} and restart it"
    silent = [each for each in stale if settings.configured.get(each) is None]
    if silent:
        remedy += (
            f". {about('Broker', silent, 'does', 'do')} not say what it has: start it, or give "
            f"--rolled {','.join(map(str, silent))} when it has the line"
        )
    return Wait(
        reason=f"{about('broker', stale, 'does', 'do')} not look for the controllers at those "
        "that are to vote",
        remedy=remedy,
    )


def _finds(broker: int, wanted: Mapping[int, Address], settings: BrokerSettings) -> bool:
    configured = settings.configured.get(broker)
    if configured is None:
        return broker in settings.confirmed
    servers = _servers_in(configured)
    return any(str(address) in servers for address in wanted.values())


def _servers_in(configured: str) -> set[str]:
    """The addresses in a list `host:port` or `id@host:port`."""
    return {part.strip().rpartition("@")[2] for part in configured.split(",")}


def servers_line(quorum: QuorumState, wanted: Mapping[int, Address]) -> str:
    """Return the line that every broker needs: the controllers of both kinds.

    With both, the way back needs no restart.
    """
    others = [
        each.address
        for each in quorum.controllers
        if each.id not in wanted and each.address is not None
    ]
    servers = dict.fromkeys((*(wanted[id] for id in sorted(wanted)), *others))
    return f"controller.quorum.bootstrap.servers={','.join(map(str, servers))}"


def next_step(quorum: QuorumState, wanted: Mapping[int, Address]) -> Step:
    """Return the next step towards the voters `wanted`, as far as the quorum is concerned."""
    leader = quorum.leader
    if leader is None:
        return Wait(reason="no controller leads; an election is under way")
    voters = quorum.voters
    missing = sorted(wanted.keys() - {each.id for each in voters})
    leaving = [each for each in voters if each.id not in wanted]
    behind = [each for each in voters if each.id in wanted and not each.has_caught_up]
    if behind:
        return Wait(
            reason=named(behind, "votes and does not", "vote and do not") + " follow the log",
            remedy="Start it again, or see its log: until then no other voter is removed",
        )
    if not missing and not leaving:
        votes = about("Controller", sorted(wanted), "votes", "vote")
        return Done(f"{votes}, and {leader.id} leads. {_next_command(quorum)}")
    if missing and (len(voters) <= len(wanted) or not leaving):
        return _addition(quorum, [(id, wanted[id]) for id in missing])
    return _removal(quorum, leader, leaving)


def _next_command(quorum: QuorumState) -> str:
    """Name the command that follows, once controllers of one kind alone vote."""
    if any(each.kind is Kind.OURS for each in quorum.voters):
        if not quorum.of(Kind.KAFKA):
            return "No controller of Kafka is registered: nothing is left to do."
        return "Next: `metaquorum migrate finish` says when to stop those of Kafka."
    if not quorum.of(Kind.OURS):
        return "No controller of metaquorum is registered: nothing has been started, or left to do."
    return (
        "Next: `metaquorum migrate finish` says when to stop those of metaquorum; if they are "
        "still to vote, `metaquorum migrate start`."
    )


def _addition(quorum: QuorumState, missing: list[tuple[int, Address]]) -> Step:
    known = [(quorum.get(id), id, address) for id, address in missing]
    for each, _, _ in known:
        if each is not None and each.has_caught_up and each.address is not None:
            after = (*quorum.voters, each)
            if _live(after) >= _majority(after):
                return AddVoter(controller=each)
            dead = [voter for voter in quorum.voters if not voter.has_caught_up]
            return Wait(
                reason=f"with {named(dead)} away, one more voter would leave no majority",
                remedy="Start it again",
            )
    for each, id, _ in known:
        if each is not None and each.member.is_reachable:
            if each.has_caught_up:
                return Wait(reason=f"controller {id} has not registered its address yet")
            return Wait(reason=f"controller {id} does not have the whole log yet")
    places = ", ".join(f"{id} at {address}" for _, id, address in known)
    remedy = "Start it: it observes the quorum by itself"
    if any(each is not None and each.kind is Kind.KAFKA for each, _, _ in known):
        line = servers_line(quorum, dict(missing))
        remedy = f"Give it {line} and start it: it observes the quorum by itself"
    return Wait(
        reason=f"no controller that is still to vote follows the log: {places}", remedy=remedy
    )


def _removal(quorum: QuorumState, leader: Controller, leaving: list[Controller]) -> Step:
    # Dead voters go first, and the leader last: each change of the lead is a pause of changes.
    first = min(leaving, key=lambda each: (each.member.is_leader, each.has_caught_up, -each.id))
    after = [each for each in quorum.voters if each.id != first.id]
    if _live(after) < _majority(after):
        behind = [each for each in after if not each.has_caught_up]
        return Wait(
            reason=f"without controller {first.id}, {named(behind)} would be needed for a "
            f"majority and {'does' if len(behind) == 1 else 'do'} not follow the log",
            remedy="Start it again, or see its log",
        )
    if spare(after) < spare(quorum.voters):
        return Wait(
            reason=f"without controller {first.id}, fewer controllers could be lost than now",
            remedy="Name more controllers that are to vote",
        )
    if first.id != leader.id or leader.kind is Kind.KAFKA:
        return RemoveVoter(controller=first)
    # Ours hands the lead over before it goes, which spares an election.
    heirs = [each for each in after if each.has_caught_up]
    heir = min(heirs, key=lambda each: (each.member.lag or 0, each.id))
    return TransferLead(leader=leader, to=heir)


def _live(voters: Sequence[Controller]) -> int:
    return sum(each.has_caught_up for each in voters)


def _majority(voters: Sequence[Controller]) -> int:
    return len(voters) // 2 + 1


def spare(voters: Sequence[Controller]) -> int:
    """Return the number that may be lost before the quorum stops; below 0 it has stopped."""
    return _live(voters) - _majority(voters)


def is_settled(quorum: QuorumState) -> bool:
    """Return whether one leads and a majority follows it, as far as it knows."""
    return quorum.leader is not None and spare(quorum.voters) >= 0


def named(controllers: Sequence[Controller], one: str = "", several: str = "") -> str:
    """Name controllers by their ids, and say this of one, or of several."""
    return about("controller", [each.id for each in controllers], one, several)


def about(noun: str, ids: Sequence[int], one: str, several: str) -> str:
    """Say something of one node, or of several."""
    subject, verb = (noun, one) if len(ids) == 1 else (f"{noun}s", several)
    return f"{subject} {listed(ids)} {verb}".rstrip()


def listed(ids: Iterable[int]) -> str:
    """List ids in a sentence."""
    return ", ".join(map(str, ids))


# --- the end -----------------------------------------------------------------------------------


def unstarted(quorum: QuorumState) -> str | None:
    """Return why there is nothing to finish, or None.

    Whoever has voted is registered, and stays so at Kafka's controllers after `back`.
    """
    if quorum.of(Kind.OURS):
        return None
    vote = named(quorum.voters, "of Kafka votes", "of Kafka vote")
    return (
        f"nothing has been started: {vote}, and no controller of "
        "--controllers is registered; give `metaquorum migrate plan`, then `start`"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """The state of the end of a migration, when the controllers of one kind have no vote."""

    stays: Kind
    quorum: QuorumState
    settings: BrokerSettings
    answering: frozenset[int]
    """The controllers without a vote whose processes run."""
    quiet_ms: int
    """The time since a broker was fenced, or a controller was stopped, whichever is later."""
    session_ms: int
    """The time after which a broker without a heartbeat is fenced."""


def next_of_retirement(state: Retirement) -> Step:
    """Return what the end of a migration waits for."""
    quorum, stays = state.quorum, state.stays
    leader = quorum.leader
    if leader is None:
        return Wait(reason="no controller leads; an election is under way")
    others = [each for each in quorum.voters if each.kind is not stays]
    if others:
        kind = others[0].kind
        return Wait(
            reason=named(others, f"of {kind} still votes", f"of {kind} still vote"),
            remedy="Give `metaquorum migrate start` or `back` first, and let it end",
        )
    wanted = {each.id: each.address for each in quorum.voters if each.address is not None}
    stale = unprepared(quorum, wanted, state.settings)
    if stale is not None:
        return stale
    fenced = [each.id for each in state.settings.brokers if each.fenced]
    if fenced:
        return Wait(
            reason=about("broker", fenced, "is fenced", "are fenced"),
            remedy="Start it, or unregister it: metaquorum brokers unregister",
        )
    running = sorted(state.answering)
    if len(running) > 1:
        return Wait(
            reason=f"controllers {listed(running)} of {_other(stays)} have no vote, and run",
            remedy=f"Stop {listed(running[1:])}, and leave {running[0]} running until you are told"
            + _or_start(stays),
        )
    if state.quiet_ms <= state.session_ms:
        return Wait(
            reason="no broker may be fenced for longer than a session, which is "
            f"{show_duration(state.session_ms)}"
        )
    if running:
        return Wait(
            reason=f"controller {running[0]} of {_other(stays)} is the last that runs, and every "
            f"broker sends its heartbeats to {leader.id}",
            remedy="Stop it" + _or_start(stays),
        )
    return Done(
        f"The controllers of {_other(stays)} are retired, and no broker was fenced for a session. "
        "Keep their folders until you are sure: with them the way back is short."
    )


def _or_start(stays: Kind) -> str:
    """Ours look the same after `back` and before `start`: they observe."""
    return "" if stays is Kind.OURS else ". If they are still to vote: `metaquorum migrate start`"


def _other(kind: Kind) -> Kind:
    return Kind.KAFKA if kind is Kind.OURS else Kind.OURS
