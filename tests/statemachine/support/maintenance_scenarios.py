"""The commands of `moves_*` transcripts about brokers: those of `move_scenarios`, and these.

Plans are made by the product, and begun as its listeners begin them.

    safe 2 3              may brokers 2 and 3 stop together; the partitions that object
    empty 4               decommission broker 4: cordon it and move its replicas elsewhere; with
                          `unregister` it is to be unregistered then
    keep 4                recommission broker 4: end the cordon and cancel its drains
    spread 1 2 3          generate and begin a plan that spreads topic t over these brokers
    factor 2              change the replication factor of t to two
    sweep                 the active controller forgets what was kept for long enough
"""

from collections.abc import Mapping

from statemachine import commands
from statemachine.brokers.safety import check_safety
from statemachine.errors import Refusal
from statemachine.reassignment.planner.plans import Unplanned, drain, generate, with_factor
from statemachine.reassignment.planner.survey import Stay, drained_keys, held, held_keys, survey
from statemachine.slices import whole
from statemachine.vocabulary import MoveKind, Replicas
from tests.statemachine.support.move_scenarios import MovesStage, read
from tests.statemachine.support.move_transcripts import listed

Plan = Mapping[tuple[str, int], Replicas]


class CareStage(MovesStage):
    """One story, of moves or of what moves are for."""

    def _safe(self, words: list[str]) -> list[str]:
        found = whole(check_safety(self.world.image, tuple(map(int, words))))
        assert not isinstance(found, Refusal)
        if not found.unsafe_count:
            return [f"safe: of {found.looked_at} partition(s) none would be hurt"]
        told = [f"not safe: {found.unsafe_count} of {found.looked_at} partition(s) would be hurt"]
        for each in found.unsafe:
            left = f"{listed(each.in_sync)} would be left, and min ISR is {each.min_isr}"
            told.append(f"  {each.topic}-{each.partition}: {each.harm.value}, {left}")
        return told

    def _empty(self, words: list[str]) -> list[str]:
        brokers, said = read(words)
        image = self.world.image
        known = tuple(each for each in brokers if each in image.brokers)
        wish = commands.CordonBrokers(
            broker_ids=known, cordoned=True, unregister="unregister" in said
        )
        told = self._ask(wish) if known else []
        rows = held(image, held_keys(image, brokers), brokers)
        told += [
            f"{row.topic}-{row.partition} is left: {row.stay.value}"
            for row in rows
            if row.stay is not Stay.FREE
        ]
        free = {(row.topic, row.partition): row.replicas for row in rows if row.stay is Stay.FREE}
        seen = survey(image)
        plan = whole(
            drain(free, brokers, seen.takers, seen.racks, loads=seen.loads, leads=seen.leads)
        )
        return told + self._begun(plan, MoveKind.DRAIN)

    def _keep(self, words: list[str]) -> list[str]:
        brokers = tuple(map(int, words))
        told = self._uncordon(words)
        image = self.world.image
        rows = held(image, drained_keys(image, brokers), brokers)
        named = tuple((row.topic, row.partition) for row in rows if row.stay is Stay.LEAVING)
        return told + self._ask(commands.CancelMoves(partitions=named)) if named else told

    def _spread(self, words: list[str]) -> list[str]:
        seen = survey(self.world.image)
        racks = {each: seen.racks[each] for each in map(int, words)}
        closed = [each for each in racks if each not in seen.takers]
        return self._begun(whole(generate(self._current(), racks, closed=closed)))

    def _factor(self, words: list[str]) -> list[str]:
        seen = survey(self.world.image)
        plan = with_factor(
            self._current(), int(words[0]), seen.takers, seen.racks, loads=seen.loads
        )
        return self._begun(whole(plan))

    def _sweep(self, _words: list[str]) -> list[str]:
        return self._ask(commands.ForgetMoves())

    def _current(self) -> dict[tuple[str, int], Replicas]:
        return {("t", number): each.replicas for number, each in self._partitions().items()}

    def _begun(self, plan: Plan | Unplanned, kind: MoveKind = MoveKind.REASSIGN) -> list[str]:
        if isinstance(plan, Unplanned):
            return [f"no plan: {plan.message}"]
        if not plan:
            return ["nothing is to be moved"]
        asked = tuple(
            commands.Reassignment(topic=topic, partition=number, replicas=replicas)
            for (topic, number), replicas in plan.items()
        )
        planned = [f"planned: t-{each.partition} on {listed(each.replicas)}" for each in asked]
        return planned + self._ask(commands.BeginMove(reassignments=asked, kind=kind, who="ann"))
