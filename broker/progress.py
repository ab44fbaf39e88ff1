"""How far one follower of a partition has come, as its leader knows it. Pure, no clock."""

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """What the leader knows of one follower in this leadership; times are the leader's clock."""

    broker_epoch: int | None = None
    """Of the incarnation that fetches, learned from its fetches; None until there was one."""
    log_end: int | None = None
    """What its last fetch confirmed; None until there was one that still says so."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    _goal_of_last_fetch: int = 0

    def fetched(self, broker_epoch: int, offset: int, leader_end: int, now_ms: int) -> None:
        if self.broker_epoch is not None and broker_epoch != self.broker_epoch:
            # Another incarnation: that the one before kept up says nothing of this one.
            self.last_fetch_ms = self.last_caught_up_ms = None
        # It has caught up now if it has all there is, and had caught up when it last asked if it
        # has all there was then.
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and offset >= self._goal_of_last_fetch:
            self.last_caught_up_ms = self.last_fetch_ms
        self.broker_epoch = broker_epoch
        self.log_end = offset
        self.last_fetch_ms = now_ms
        self._goal_of_last_fetch = leader_end

    def keeps_up(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        if self.log_end == leader_end:
            return True
        return self.last_caught_up_ms is not None and now_ms - self.last_caught_up_ms <= lag_ms_max
