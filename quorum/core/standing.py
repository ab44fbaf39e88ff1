"""When a node may ask for votes: the one gate on every road to a poll.

The time may be up, the leader's connection lost, or the leader may have named this node as its
successor: what holds it back is looked at here, by `elections.prospect` and `elections.campaign`,
and nowhere else. Functions over `State`; the reasons stand in `founding` and `own_disk`.
"""

from quorum.core import founding, own_disk
from quorum.core.state import State


def is_held_back(state: State, now_ms: int) -> bool:
    """Whether the time to stand has come for a voter that may not; it is given another one."""
    if not founding.may_stand(state):
        founding.wait_for_it(state, now_ms)
        return True
    if own_disk.holds_back(state):
        own_disk.wait_for_it(state, now_ms)
        return True
    return False
