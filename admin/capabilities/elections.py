"""Elections of partition leaders that an operator asks for (KIP-183, KIP-460)."""

from itertools import pairwise
from typing import Annotated, Final, Literal

from msgspec import Meta

from admin.capabilities.moves import PartitionError
from admin.capabilities.needs import ALTER_CLUSTER
from admin.capabilities.schema import Answer, Context, Partition, Request, Route
from statemachine.commands import ElectionType, LeadersElected
from statemachine.commands import ElectLeaders as ElectCommand
from statemachine.errors import Error
from statemachine.limits import REFUSED_SHOWN_MAX

RESULTS_SHOWN_MAX: Final = REFUSED_SHOWN_MAX


class ElectedLeaders(Answer, frozen=True, kw_only=True):
    """The results of elections."""

    elected: Annotated[int, Meta(description="Partitions that have got a leader")]
    not_needed: Annotated[int, Meta(description="Partitions that had such a leader already")]
    refused: Annotated[int, Meta(description="Partitions that have got none")]
    results: Annotated[
        tuple[PartitionError, ...], Meta(description="The first results, those refused before all")
    ]


class ElectLeaders(Request[ElectedLeaders], frozen=True, kw_only=True):
    """Elect the preferred leaders of partitions, or any replica as the leader of those without one.

    A partition is refused by itself. An unclean election may lose records: it takes a replica that
    is not in sync.
    """

    election_type: Literal["preferred", "unclean"]
    partitions: Annotated[
        Annotated[tuple[Partition, ...], Meta(min_length=1)] | None,
        Meta(description="null: every partition that needs such an election"),
    ]

    NAME = "partitions.elect-leaders"
    NEEDS = ALTER_CLUSTER
    CHANGES = True
    ROUTES = (Route("POST", "/v1/partitions:elect-leaders", large=True),)
    STATUS_COMMAND = "metaquorum topics describe"

    def failing(self) -> str:
        return f"the {self.election_type} leaders cannot be elected"

    def contradiction(self) -> str | None:
        ids = [(each.topic, each.partition) for each in self.partitions or ()]
        if len(set(ids)) == len(ids):
            return None
        ids.sort()
        topic, partition = next(one for one, other in pairwise(ids) if one == other)
        return f"{topic}-{partition} is named twice; name it once"

    async def answer(self, context: Context) -> ElectedLeaders:
        named = None
        if self.partitions is not None:
            named = tuple([(each.topic, each.partition) for each in self.partitions])
        command = ElectCommand(election=ElectionType[self.election_type.upper()], partitions=named)
        done = await context.service.carry_out(command, LeadersElected, who=context.who)
        return elected(done)


def elected(done: LeadersElected) -> ElectedLeaders:
    """The answer to an election."""
    errors = [each.error for each in done.partitions]
    count, not_needed = errors.count(Error.NONE), errors.count(Error.ELECTION_NOT_NEEDED)
    ordered = sorted(done.partitions, key=lambda each: _ORDER.get(each.error, 0))
    return ElectedLeaders(
        elected=count,
        not_needed=not_needed,
        refused=len(errors) - count - not_needed,
        results=tuple(
            [
                PartitionError.of(each, topic=each.topic, partition=each.partition)
                for each in ordered[:RESULTS_SHOWN_MAX]
            ]
        ),
    )


_ORDER: Final = {Error.NONE: 1, Error.ELECTION_NOT_NEEDED: 2}
