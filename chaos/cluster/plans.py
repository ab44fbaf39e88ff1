"""P16: each step of a move that goes in steps is the one that the rules plan, computed once more.

The rules of a step (KIP-435 as `docs/divergence.md` has it) over what the judges have folded, from
the replicas as they were when it began. Who was alive is known at the end of the decision.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from chaos.cluster.facts import Fact
from chaos.cluster.judged import LIMITS, UNLIMITED, Judged
from chaos.cluster.parts import Ids, Key, Part, changed, without
from chaos.violation import Violation

TELLING: Final = frozenset(
    {
        "RegisterBroker",
        "UnregisterBroker",
        "FenceBroker",
        "UnfenceBroker",
        "BrokerRegistrationChange",
        "Config",
    }
)
"""Types of records that a plan depends on, beside the partition itself."""


class Begun(NamedTuple):
    """A step that one record begins, of a partition that waited for it."""

    key: Key
    before: Part
    after: Part


class Plans:
    """Folds what is committed into a model, and looks at each step that begins."""

    def __init__(self, model: Judged) -> None:
        self._model = model

    def take(self, facts: Sequence[Fact]) -> None:
        """The facts of one batch."""
        begun = self._begun(facts)
        # A batch may have several decisions, and one may say who is alive before its steps or after
        # them: what counted for a step is what was before the batch, or at any record of it.
        allowed = [[self._plan(each)] for each in begun]

        def look(fact: Fact) -> None:
            if fact.type in TELLING:
                for each, plans in zip(begun, allowed, strict=True):
                    plans.append(self._plan(each))

        self._model.watch = look
        self._model.take(facts)
        for each, plans in zip(begun, allowed, strict=True):
            done = without(each.after.replicas, each.before.replicas), each.after.removing
            if None not in plans and done not in plans:
                text = f"{each.key} {each.before} adds and drops {done}, planned is {plans[-1]}"
                raise Violation("P16", text)

    def _plan(self, step: Begun) -> tuple[Ids, Ids] | None:
        """Whom it is to add and to drop, as things stand; None where nothing is limited."""
        model, (key, before, _) = self._model, step
        if not model.goes_in_steps or key[0] not in model.topics:
            return None
        min_isr = int(model.setting(model.topics[key[0]], "min.insync.replicas", "1"))
        limits = [model.limit(LIMITS[which]) for which in (2, 1)]
        return planned(before, min_isr, model.live, *limits)

    def _begun(self, facts: Sequence[Fact]) -> list[Begun]:
        found: list[Begun] = []
        known: dict[Key, Part] = {}
        for each in facts:
            if each.type != "PartitionChange":
                continue
            key = (each.said["topic_id"], each.said["partition_id"])
            before = known.get(key, self._model.parts.get(key))
            if before is None:
                continue
            after = known[key] = changed(before, each.said)
            waited = before.target and not (before.adding or before.removing)
            if waited and after.target == before.target and (after.adding or after.removing):
                found.append(Begun(key, before, after))
        return found


def planned(
    part: Part, min_isr: int, live: Callable[[int], bool], most: int, movements: int
) -> tuple[Ids, Ids]:
    """Whom the next step adds and whom it drops, with at most so many of them at a time."""
    current, target = part.replicas, part.target
    old, new = without(current, target), without(target, current)
    able = tuple(each for each in new if live(each))
    dropped: Ids = ()
    count = 1
    if most == UNLIMITED or target[0] not in able:
        dropped = old[:most]
        missing = len(target) - len(current) + len(dropped)
        count = min(most, missing) if missing > 0 else 0
    kept = len(current) - len(dropped)
    in_sync = len(without(part.isr, dropped))
    if in_sync < kept and in_sync + count < min_isr:
        count = min_isr - in_sync
    added = able[: min(count, movements)]
    # Never fewer replicas than before, or than there will be.
    spare = len(current) + len(added) - min(len(current), len(target))
    return added, dropped[:spare]
