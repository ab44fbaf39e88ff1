"""What is committed in a cluster: each batch is judged as it comes, and what all come to is kept.

The history of the quorum's judge, with metadata in the place of plain words.
"""

from bisect import bisect_left
from collections.abc import Callable

from broker.partition.assignment import PartitionKey
from chaos.cluster.facts import Fact, fact
from chaos.cluster.judged import Judged
from chaos.cluster.keys import Keys
from chaos.cluster.plans import Plans
from chaos.cluster.views import NOTHING, View, view_of_model, view_of_snapshot
from chaos.history import History
from chaos.stored import Stored, records


class ClusterHistory(History):
    """Grows, and never changes."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Judged(hears=True)
        self.keys = Keys()
        self.on_facts: list[Callable[[list[Fact]], None]] = []
        """Told of each batch once it is folded."""
        self._plans = Plans(self.model)

    def view_at(self, offset: int) -> View:
        """What everything below a boundary has come to."""
        found = self.state_at(offset) if offset else NOTHING
        assert isinstance(found, View)
        return found

    def contradiction(self, end: int, values: list[bytes]) -> tuple[str, str] | None:
        """See `History`."""
        difference = view_of_snapshot(values).difference(self.view_at(end))
        return ("P22", f"in which {difference}") if difference else None

    def _state_after(self, batch: Stored) -> View:
        if batch.is_control:
            return self.view_at(batch.base)
        found = records(batch.data)
        facts = [fact(batch.base + place, value) for place, (_, value) in enumerate(found)]
        self._plans.take(facts)
        self.keys.take(facts)
        for tell in self.on_facts:
            tell(facts)
        return view_of_model(self.model)

    def around(self, offset: int) -> tuple[View, ...]:
        """What there is where a batch ends; within one, what was before it and is after it.

        What several decisions have written at one time is one batch.
        """
        if self.is_boundary(offset):
            return (self.view_at(offset),)
        after = bisect_left(self._ends, offset)
        return self.view_at(self._ends[after - 1] if after else 0), self.view_at(self._ends[after])

    def was_no_replica(self, broker_id: int, key: PartitionKey, since: int, end: int) -> bool:
        """Whether the broker was none at any boundary from `since` to `end`."""
        name = (key.topic_id.hex, key.number)
        for offset in [since, *(each.end for each in self.between(since, end))]:
            part = self.view_at(offset).parts.get(name)
            if part is None or broker_id not in part.replicas:
                return True
        return False
