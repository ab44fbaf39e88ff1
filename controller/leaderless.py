"""What a node says that knows no leader, and when it says so at once instead of waiting for one."""

from typing import Final, NamedTuple

from quorum.driver import Quorum

LEADERLESS_MS_MAX: Final = 3_000
"""So long it may be an election, which is worth waiting for; after that whoever asks about the
quorum itself is told that nobody leads."""


class Leaderless(NamedTuple):
    """Why there is no leader to ask, and whether there is no use in waiting for one."""

    reason: str
    is_for_long: bool


def leaderless(quorum: Quorum, *, asks_who_leads: bool) -> Leaderless:
    """What this node says, which knows no leader."""
    reason = f"node {quorum.node.me.id} knows no leader, epoch {quorum.node.epoch}"
    if not quorum.has_room:
        # What it hears it could not keep.
        reason += ", and will know none before there is room on its disk: ask another node"
        return Leaderless(reason, is_for_long=True)
    return Leaderless(reason, asks_who_leads and quorum.leaderless_ms >= LEADERLESS_MS_MAX)
