"""The numbered rules for the state of a partition and for one change of it.

A rule is a number, a condition that must hold, and a description for the reader of a failure.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from chaos.cluster.invariants.model import NOBODY, Ids, Key, Part, without
from chaos.violation import Violation

Rule: TypeAlias = tuple[str, bool, str]


class Cluster(Protocol):
    """The context of a rule: the rest of the cluster."""

    def live(self, broker_id: int) -> bool:
        """True if the broker may lead and be in sync."""
        ...

    def min_isr(self, key: Key, replicas: Ids) -> int:
        """The effective min ISR of a partition with these replicas."""
        ...

    def is_complete(self, key: Key, part: Part, isr: Ids) -> bool:
        """True if the step under way is complete with this ISR."""
        ...

    def has_grown(self, part: Part, isr: Ids) -> bool:
        """True if a step that is not the last has added all its replicas."""
        ...

    @property
    def goes_in_steps(self) -> bool:
        """True if any limit may split a move into steps."""
        ...

    @property
    def has_room(self) -> bool:
        """True if the steps under way are within the limits."""
        ...

    @property
    def has_room_for_leaders(self) -> bool:
        """True if the steps that move a leader are within their limit."""
        ...

    def was_requested(self, key: Key, replicas: Ids) -> bool:
        """True if a client asked for these replicas, and they exist."""
        ...

    def was_cancel_requested(self, key: Key, replicas: Ids) -> bool:
        """True if a client cancelled a step of the partition, or asked for these replicas."""
        ...

    def was_proposed(self, key: Key, partition_epoch: int, came: Ids) -> bool:
        """True if a leader proposed all of them in this epoch, each with its current broker
        epoch."""
        ...

    def allows_unclean(self, key: Key) -> bool:
        """True if a replica outside the ISR may be elected."""
        ...

    def may_elect_uncleanly(self, key: Key) -> bool:
        """True if the topic allows that, or an operator asks for it."""
        ...

    def is_passed_over(self, key: Key, eligible: Ids) -> bool:
        """True if the last known leader is elected although these may lead.

        They may not if they register anew in the same decision, which is checked at its end.
        """
        ...


def require(what: object, rules: Sequence[Rule]) -> None:
    """Raise `Violation` for the first rule that is broken."""
    for number, holds, words in rules:
        if not holds:
            raise Violation(number, f"{words}; but {what}")


def of_a_state(cluster: Cluster, key: Key, part: Part) -> list[Rule]:
    """The rules for a partition after every change."""
    parts = (part.isr, part.elr, part.adding, part.removing, part.last_known_elr)
    return [
        (
            "P1",
            all(set(each) <= set(part.replicas) for each in parts),
            "ISR, ELR, adding and removing replicas are replicas",
        ),
        ("P1", len(set(part.replicas)) == len(part.replicas) > 0, "no replica is named twice"),
        ("P1", part.leader in (NOBODY, *part.isr), "the leader is in sync"),
        ("P1", not set(part.isr) & set(part.elr), "no replica is in both ISR and ELR"),
        (
            "P1",
            not part.elr or len(part.isr) < cluster.min_isr(key, part.aimed),
            "an ELR exists only under min ISR",
        ),
        ("P2", not set(part.adding) & set(part.removing), "no replica is both added and removed"),
        ("P2", not set(part.removing) & set(part.target), "no replica of the target is removed"),
        (
            "P2",
            not part.target or set(part.adding) <= set(part.target),
            "every added replica is in the target",
        ),
        (
            "P2",
            part.moves or not (part.original or part.base),
            "a partition that does not move has no state of a move",
        ),
    ]


class Change(NamedTuple):
    """A partition before and after one record, and whether the record names the leader.

    A step ends in one of four ways. It completes. It leaves its removals to the next step. It is
    cancelled. Or the new request needs no further replica (a removal, a reordering), and is done at
    once.
    """

    before: Part
    after: Part
    names_leader: bool

    @property
    def ends(self) -> bool:
        """True if a step or the whole move ends, in any of the four ways."""
        before, after, _ = self
        was_in_step = bool(before.adding or before.removing) and before.target == after.target
        step_is_over = was_in_step and not (after.adding or after.removing)
        return step_is_over or (before.moves and not after.moves)

    @property
    def completes(self) -> bool:
        """True if the step under way is complete."""
        return self.ends and self.before.steps and self.after.replicas == self.before.aimed

    @property
    def keeps(self) -> bool:
        """True if it leaves all removals to the next step."""
        before, after, _ = self
        is_same = before.target == after.target and set(before.replicas) == set(after.replicas)
        return self.ends and not self.completes and is_same and bool(before.adding)

    @property
    def reverts(self) -> bool:
        """True if it is cancelled."""
        is_over = self.completes or self.keeps
        return self.ends and not is_over and self.before.went_back_to(self.after.replicas)

    @property
    def at_once(self) -> bool:
        """True if this one change carries out the request or the whole next step."""
        before, after, _ = self
        if self.completes or self.keeps or self.reverts or after.adding or after.removing:
            return False
        if after.moves and after.target != before.target:
            # A replica that was being added for both targets is in sync already.
            return any(each in after.target for each in before.adding)
        if after.moves:
            return bool(self.gone)
        return before.moves or before.replicas != after.replicas

    @property
    def gone(self) -> Ids:
        """Replicas that were removed."""
        return without(self.before.replicas, self.after.replicas)

    @property
    def grown(self) -> Ids:
        """Replicas that were added."""
        return without(self.after.replicas, self.before.replicas)

    @property
    def came(self) -> Ids:
        """Brokers that joined the ISR."""
        return without(self.after.isr, self.before.isr)

    @property
    def done(self) -> Part:
        """The step that is over: the one that was under way, or the one done at once."""
        before, after, _ = self
        if self.completes or self.keeps:
            return before
        adding = tuple(each for each in before.adding if each in after.replicas)
        target = after.target or after.replicas
        return before._replace(adding=adding, removing=self.gone, target=target)


def of_a_change(cluster: Cluster, key: Key, change: Change) -> list[Rule]:
    """The rules for one record about an existing partition."""
    return [
        *_of_epochs_and_growth(change),
        # First: a change that no client requested cannot be a valid end.
        *_of_requests(cluster, key, change),
        *_of_an_end(cluster, key, change),
        *_of_the_isr(cluster, key, change),
    ]


def _of_epochs_and_growth(change: Change) -> list[Rule]:
    before, after, names_leader = change
    is_over, leads_on = change.ends or change.at_once, before.leader == after.leader
    stayed, grown = without(before.replicas, change.gone), change.grown
    given_up = without(before.adding, (*before.needed, *after.target))
    return [
        (
            "P3",
            names_leader == (is_over or not leads_on or bool(change.gone)),
            "the leader epoch rises with a new leader, an end, a removed replica",
        ),
        ("P4", set(grown) <= set(after.adding), "every new replica is an adding replica"),
        ("P4", not grown or after.replicas == stayed + grown, "new replicas come last"),
        (
            "P4",
            not grown or not after.target or grown == _in(after.target, grown),
            "new replicas are in target order",
        ),
        (
            "P4",
            not grown or before.leader == NOBODY or leads_on,
            "new replicas do not change the leader",
        ),
        (
            "P4",
            not grown or before.leader == NOBODY or before.isr == after.isr,
            "new replicas keep the ISR",
        ),
        (
            "P4",
            is_over or set(change.gone) <= set(given_up),
            "only adding replicas go before the end",
        ),
    ]


def _of_an_end(cluster: Cluster, key: Key, change: Change) -> list[Rule]:
    before, after, _ = change
    is_done = change.completes or change.keeps or change.at_once
    is_over = change.ends or change.at_once
    # No ISR member was alive and another replica was elected: it alone is the new ISR.
    elected = after.recovery != 0 and after.isr == (after.leader,)
    is_as_before = before.went_back_to(after.replicas) and not change.gone
    # Only replicas go that were being added for a target that was replaced.
    is_whole = set(change.gone) <= set(before.adding) and not change.reverts
    is_complete = cluster.is_complete(key, change.done, after.isr)
    has_grown = is_whole and cluster.has_grown(change.done, after.isr)
    # A move whose target is the original is over in the same way if it is cancelled.
    is_back = before.went_back_to(after.replicas) and before.target == before.original
    is_cancelled = is_back and cluster.was_requested(key, ())
    in_time = elected or is_as_before or is_complete or has_grown or is_cancelled
    heirs = [each for each in after.replicas if each in after.isr and cluster.live(each)]
    leaders = (NOBODY, before.leader, after.replicas[0], *heirs[:1])
    needed = min(cluster.min_isr(key, after.replicas), len(after.final))
    enough = is_whole or len(after.isr) >= needed
    # A queued move may be dropped at any time: no replica changes.
    not_begun = is_as_before and not (before.adding or before.removing)
    may_end = enough or not_begun or cluster.allows_unclean(key)
    return [
        (
            "P5" if before.adding else "P7",
            not is_done or in_time,
            "a step completes only when the rule holds",
        ),
        (
            "P7",
            not change.keeps or not is_complete,
            "a complete step also removes its removing replicas",
        ),
        (
            "P6",
            not is_done or after.leader in leaders,
            "the leader is the old one or the first live one of the target",
        ),
        (
            "P14",
            not change.completes
            or after.moves
            or after.replicas == (before.target or before.aimed),
            "a complete move ends with its target",
        ),
        ("P8", not is_over or may_end, "no end of a move is under min ISR"),
    ]


def _of_the_isr(cluster: Cluster, key: Key, change: Change) -> list[Rule]:
    before, after, _ = change
    came, led = change.came, before.leader != NOBODY
    let_in = led and (before.leader == after.leader or change.ends or change.at_once)
    alone = after.isr == (after.leader,)
    # The controller itself adds the replica that it elects to the ISR.
    is_over = change.completes or change.keeps or change.at_once
    is_chosen = before.leader != after.leader and not is_over
    elected = alone and (not led or is_chosen or bool(after.recovery) or set(came) <= {*before.elr})
    known = cluster.was_proposed(key, before.partition_epoch, came)
    is_new = after.leader not in (NOBODY, before.leader)
    outside = is_new and alone and bool(set(came) - {*before.elr}) and not known
    eligible = _in((*before.isr, *before.elr), after.replicas)
    unclean = cluster.may_elect_uncleanly(key)
    is_last_known = before.last_known_elr == (after.leader,)
    return [
        ("P9", not came or let_in or alone, "only the leader adds members to the ISR"),
        ("P9", not outside or after.recovery != 0, "a leader from outside ISR and ELR recovers"),
        (
            "P9",
            not outside or is_last_known or unclean,
            "a leader comes from the ISR, from the ELR, or was the last one known",
        ),
        (
            "P9",
            not outside or unclean or not eligible or not cluster.is_passed_over(key, eligible),
            "the last known leader leads only if no replica is eligible",
        ),
        ("P10", all(map(cluster.live, came)), "a replica that joins the ISR is alive"),
        ("P10", not came or elected or known, "the leader proposed this incarnation"),
    ]


def _of_requests(cluster: Cluster, key: Key, change: Change) -> list[Rule]:
    before, after, _ = change
    is_over = change.ends or change.at_once
    wanted = change.at_once and cluster.was_requested(key, after.target or after.replicas)
    is_explained = change.completes or change.keeps or change.reverts or wanted
    is_led = before.leader == NOBODY or after.leader != NOBODY
    is_new = bool(after.target) and after.target != before.target
    original = before.reverted if is_new else before.original
    begins = bool(change.grown or without(after.removing, before.removing))
    given_up = without(before.adding, before.needed) if is_new else ()
    whole = set(without(after.replicas, after.removing)) == set(after.target)
    aims = {*after.target, *after.removing, *after.original}
    # A replica that only a dropped target needed may stay until the next step begins.
    sets_out = bool(after.target) and (is_new or begins)
    return [
        ("P13", not change.ends or is_explained, "a move that ends is complete or reverted"),
        (
            "P14",
            not (change.reverts and before.original)
            or set(after.replicas) <= {*before.original, *before.target},
            "a cancel leaves no replica that only an older target had",
        ),
        ("P13", not change.reverts or is_led, "a cancelled step keeps a leader"),
        (
            "P17",
            not change.reverts or cluster.was_cancel_requested(key, after.replicas),
            "a client requested the cancel",
        ),
        ("P17", not change.at_once or wanted, "a client requested the new replicas"),
        (
            "P17",
            not is_new or cluster.was_requested(key, after.target),
            "a client requested the target",
        ),
        (
            "P14",
            not set(given_up) & set(without(after.replicas, after.target)),
            "unneeded replicas go at once",
        ),
        (
            "P14",
            not sets_out or cluster.goes_in_steps or set(after.replicas) <= aims,
            "no replica of an old target stays",
        ),
        (
            "P14",
            not after.target or after.original == original,
            "the original replicas are those to which a cancel led before the new target",
        ),
        (
            "P13",
            is_over or not _is_in_step(before) or after.reverted == before.reverted,
            "a step that is redirected goes back to what it went back to before",
        ),
        ("P15", not begins or cluster.has_room, "no step begins beyond the limits"),
        (
            "P15",
            not (begins and after.moves_leader) or cluster.has_room_for_leaders,
            "no step that moves a leader begins beyond their limit",
        ),
        (
            "P16",
            not (begins and after.target) or whole or cluster.goes_in_steps,
            "a step without limits does everything",
        ),
    ]


def _is_in_step(part: Part) -> bool:
    return bool(part.adding or part.removing or part.base)


def _in(order: Ids, members: Ids) -> Ids:
    return tuple(each for each in order if each in members)
