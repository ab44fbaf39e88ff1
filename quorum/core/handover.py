"""Who is to lead next when the lead is handed over, as a pure rule; and what is noted of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from quorum.core.events import Asker
from quorum.core.messages import Error
from quorum.core.progress import ReplicaProgress
from quorum.core.vocabulary import ReplicaId
from quorum.core.voter_requests import Refusal


@dataclass(slots=True)
class Transfer:
    """The lead is on its way to another voter; bounded by `Bounds.transfer_askers`."""

    successor: ReplicaId
    deadline_ms: int
    """When to give it up and lead on."""
    askers: list[Asker]


def successor(
    wanted: ReplicaId | None,
    *,
    me: ReplicaId,
    others: Mapping[ReplicaId, ReplicaProgress],
    live_since_ms: int,
) -> ReplicaId | Refusal:
    """The voter that is to lead next, or why the one that is wanted cannot be.

    `others` are the voters but for this leader. If none is wanted by name, it is the live one that
    has come furthest.
    """
    live = [each for each, progress in others.items() if _is_live(progress, live_since_ms)]
    if wanted is None:
        if live:
            return min(live, key=lambda each: (-(others[each].log_end or 0), each))
        return Refusal(
            Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"no voter but {me} fetches, so nobody could lead instead",
        )
    if wanted == me:
        return Refusal(Error.ELECTION_NOT_NEEDED, f"{me} leads already")
    if wanted not in others:
        voters = ", ".join(map(str, sorted({me, *others})))
        return Refusal(Error.VOTER_NOT_FOUND, f"{wanted} is no voter; voters are {voters}")
    if wanted not in live:
        able = ", ".join(map(str, sorted(live))) or "nobody"
        return Refusal(
            Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"voter {wanted} does not fetch from the leader; {able} could lead instead",
        )
    return wanted


def _is_live(progress: ReplicaProgress, live_since_ms: int) -> bool:
    return progress.last_fetch_ms is not None and progress.last_fetch_ms > live_since_ms
