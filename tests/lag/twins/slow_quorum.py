"""A second account of clocks, leaders, voters and status, by the definitions in docs/lag.md."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from statemachine.records import kafka_records
from tests.lag.twins import slow_reading
from tests.lag.twins.slow_lag import SlowBatch, SlowLog
from tests.lag.twins.slow_reading import SlowAssignment, SlowHeld, SlowReplica

FETCH_TIMEOUT_MS: Final = 2_000
RESTARTED_MS: Final = 60_000
WARN_MS, STALLED_MS, STOPPED_MS = 1_000, 2_000, 10_000

Row = dict[str, Any]
Bound = tuple[int | None, int | None]


@dataclass(frozen=True)
class SlowTime:
    """The time of a report."""

    start_ms: int
    end_ms: int
    window_ms: int

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Each as (begin, end]; they are multiples of their length, and the last one is cut."""
        begin_ms = (self.start_ms - 1) // self.window_ms * self.window_ms
        found = []
        while begin_ms < self.end_ms:
            found.append((begin_ms, min(begin_ms + self.window_ms, self.end_ms)))
            begin_ms += self.window_ms
        return found

    @property
    def samples(self) -> list[int]:
        """100 in each window, evenly spread, no closer than 1 ms; and one at the end."""
        every_ms = max(1, self.window_ms // 100)
        first_ms = self.windows[0][0]
        found = list(range(first_ms + every_ms, self.end_ms + 1, every_ms))
        return found if found and found[-1] == self.end_ms else [*found, self.end_ms]


@dataclass(frozen=True)
class SlowQuorum:
    """The logs of all replicas, and what follows from them."""

    logs: Sequence[SlowReplica]

    # The quorum's log.

    @cached_property
    def log(self) -> list[SlowHeld]:
        return slow_reading.quorum_log(self.logs)

    @cached_property
    def leaders(self) -> dict[int, int]:
        return {epoch: said.leader for epoch, said in slow_reading.leaders(self.log).items()}

    def log_of(self, node_id: int | None) -> SlowReplica | None:
        return next((each for each in self.logs if each.node_id == node_id), None)

    def shared(self, replica: SlowReplica) -> list[SlowHeld]:
        """The part of the quorum's log that it holds."""
        known = {(each.offset, each.epoch) for each in self.log}
        return [each for each in replica.batches if (each.offset, each.epoch) in known]

    def seen(self, replica: SlowReplica) -> Sequence[SlowHeld]:
        """The batches of which it can be known when they came to it."""
        return replica.batches

    def by(self, end_ms: int) -> list[SlowHeld]:
        """The quorum's log up to the last record that a leader had appended by then."""
        ends = [number for number, each in enumerate(self.log, 1) if each.at_ms <= end_ms]
        return self.log[: ends[-1] if ends else 0]

    def of_epoch(self, epoch: int) -> list[SlowHeld]:
        return [each for each in self.log if each.epoch == epoch]

    @cached_property
    def epochs(self) -> list[int]:
        return sorted({each.epoch for each in self.log})

    # Clocks.

    @cached_property
    def most(self) -> dict[tuple[str, str], int]:
        """By how much the clock of one can be ahead of another's, over a third replica too."""
        direct: dict[tuple[str, str], int] = {}
        for one in self.logs:
            for each in self.seen(one):
                leader = self.log_of(self.leaders.get(each.epoch))
                if leader is not None and leader is not one and each.here_ms is not None:
                    pair = (one.name, leader.name)
                    bound = each.here_ms - each.at_ms + 1
                    direct[pair] = min(bound, direct.get(pair, bound))
        found = dict(direct)
        for (name, third), bound in direct.items():
            for (third_too, other), more in direct.items():
                if third == third_too and name != other:
                    both = bound + more
                    found[(name, other)] = min(both, found.get((name, other), both))
        return found

    def bound(self, one: str, other: str) -> Bound:
        """At least and at most so far ahead."""
        back = self.most.get((other, one))
        return (None if back is None else -back, self.most.get((one, other)))

    def certain_ms(self, one: str, other: str) -> int:
        """The offset within the bounds that is nearest to 0; nothing where they contradict."""
        least, most = self.bound(one, other)
        if least is not None and most is not None and least > most:
            return 0
        if least is not None and least > 0:
            return least
        return most if most is not None and most < 0 else 0

    def clocks(self) -> list[Row]:
        """The table `clocks`."""
        have_led = {log.name for log in self.logs if log.node_id in self.leaders.values()}
        found = []
        for one in self.logs:
            for other in self.logs:
                least, most = self.bound(one.name, other.name)
                if other.name in have_led and one is not other and (least, most) != (None, None):
                    found.append(
                        {
                            "replica": one.name,
                            "relative_to": other.name,
                            "at_least_ms": least,
                            "at_most_ms": most,
                            "batches": self._compared(one, other) + self._compared(other, one),
                            "verdict": _verdict(least, most),
                            **_estimate(least, most),
                        }
                    )
        return found

    def _compared(self, follower: SlowReplica, leader: SlowReplica) -> int:
        return sum(
            each.here_ms is not None and self.leaders.get(each.epoch) == leader.node_id
            for each in self.seen(follower)
        )

    # Lag.

    def had_ms(self, replica: SlowReplica, held: SlowHeld) -> int | None:
        """The arrival of a batch, by the clock of the leader."""
        if held.here_ms is None:
            return None
        leader = self.log_of(self.leaders.get(held.epoch))
        if leader is replica:
            return held.at_ms
        return held.here_ms - (0 if leader is None else self.certain_ms(replica.name, leader.name))

    @cached_property
    def slow_log(self) -> SlowLog:
        """The quorum's log, as the twin of the lag has it."""
        came: dict[int, dict[str, int | None]] = {each.offset: {} for each in self.log}
        for replica in self.logs:
            for held in self.shared(replica):
                came[held.offset][replica.name] = self.had_ms(replica, held)
        return SlowLog(
            [
                SlowBatch(each.offset, each.end, each.epoch, "", each.at_ms, came[each.offset])
                for each in self.log
            ]
        )

    def lags(self, time: SlowTime) -> Iterator[Row]:
        """The columns of `replication_lag` about the end of each window."""
        for replica in self.logs:
            for _, end_ms in time.windows:
                behind, lag_ms = self.slow_log.lacks(replica.name, end_ms) or (None, None)
                yield {
                    "replica": replica.name,
                    "window_end_ms": end_ms,
                    "records_behind": behind,
                    "lag_ms": lag_ms,
                }

    def last_append_ms(self, replica: SlowReplica) -> int | None:
        """The time of its last append with a known time."""
        for held in reversed(self.seen(replica)):
            had_ms = self.had_ms(replica, held)
            if held.epoch in self.epochs and had_ms is not None:
                return had_ms
        return None

    def ends(self, end_ms: int) -> Iterator[Row]:
        """The columns of `replica_lag` about the end of each log."""
        for replica in self.logs:
            shared = self.shared(replica)[-1].end
            behind = self.log[-1].end - shared
            since = [each.at_ms for each in self.log if each.offset == shared]
            yield {
                "replica": replica.name,
                "log_end": replica.batches[-1].end,
                "last_epoch": replica.batches[-1].epoch,
                "records_behind": behind,
                "records_lost": 0,
                "records_diverging": replica.batches[-1].end - shared,
                "waits_since_ms": since[0] if behind else None,
                "last_append_ms": self.last_append_ms(replica),
                "lag_ms": max(0, end_ms - since[0]) if behind else 0,
            }

    def ends_by(self, end_ms: int) -> Iterator[Row]:
        """The same of a report that is over before the logs are: as far as append times tell."""
        for row, replica in zip(self.ends(end_ms), self.logs, strict=True):
            behind, lag_ms = self.slow_log.lacks(replica.name, end_ms) or (None, None)
            times = [self.had_ms(replica, held) for held in self.shared(replica)]
            there = [at_ms for at_ms in times if at_ms is not None and at_ms <= end_ms]
            diverging = self._diverging_by(replica, end_ms)
            end = None
            if behind is not None and diverging is not None:
                end = (self.slow_log.end_of(replica.name, end_ms) or 0) + diverging
            epochs = [each.epoch for each in replica.batches if end is not None and each.end <= end]
            yield {
                **row,
                "log_end": end,
                "last_epoch": epochs[-1] if epochs else None,
                "records_behind": behind,
                "records_lost": None if behind is None else 0,
                "records_diverging": diverging,
                "lag_ms": lag_ms,
                "waits_since_ms": end_ms - lag_ms if behind and lag_ms is not None else None,
                "last_append_ms": there[-1] if there else None,
            }

    def _diverging_by(self, replica: SlowReplica, end_ms: int) -> int | None:
        """The number of its records beside the quorum's log, if all had come by then."""
        shared = self.shared(replica)
        others = [each for each in replica.batches if each not in shared]
        for epoch in {each.epoch for each in others}:
            of_epoch = [each for each in replica.batches if each.epoch == epoch]
            leader = self.log_of(self.leaders.get(epoch)) if epoch in self.epochs else None
            ahead_ms = 0
            if leader not in (None, replica):
                ahead_ms = self.certain_ms(replica.name, leader.name)
            times = [each.here_ms - ahead_ms for each in of_epoch if each.here_ms is not None]
            if not times or max(times) > end_ms:
                return None
        return sum(each.end - each.offset for each in others)

    # Leaders.

    def leadership(self, end_ms: int) -> list[Row]:
        """The table `leadership` of a report that ends then, without the sentence."""
        found = []
        log = self.by(end_ms)
        epochs = sorted({each.epoch for each in log})
        for number, epoch in enumerate(epochs):
            own = [each for each in log if each.epoch == epoch]
            before = self.of_epoch(epochs[number - 1]) if number else None
            said = slow_reading.leaders(own).get(epoch)
            found.append(
                {
                    "epoch": epoch,
                    "leader": None if said is None else said.leader,
                    "voters": None if said is None else list(said.voters),
                    "start_offset": own[0].offset,
                    "end_offset": own[-1].end,
                    "elected_at_ms": own[0].at_ms,
                    "last_append_ms": own[-1].at_ms,
                    "tenure_ms": own[-1].at_ms - own[0].at_ms,
                    "elections_lost": None if before is None else epoch - before[0].epoch - 1,
                    "gap_ms": None if before is None else self._gap_ms(before, own),
                    "ended": "leading" if epoch == epochs[-1] else self._ended(epoch),
                }
            )
        return found

    def _gap_ms(self, before: Sequence[SlowHeld], own: Sequence[SlowHeld]) -> int:
        """By the clock of the one before; a leader whose log nobody has has no clock either."""
        new = self.log_of(self.leaders.get(own[0].epoch))
        old = self.log_of(self.leaders.get(before[0].epoch))
        ahead_ms = 0 if None in (new, old) or new is old else self.certain_ms(new.name, old.name)  # type: ignore[union-attr]
        return max(0, own[0].at_ms - ahead_ms - before[-1].at_ms)

    def _ended(self, epoch: int) -> str:
        later = [each for each in self.log if each.epoch > epoch]
        leader = self.leaders.get(epoch)
        if leader is None:
            return "unknown"
        written = [each for each in self.assignments if each.epoch == epoch]
        if written and leader not in [int(v.split("@")[0]) for v in written[-1].current]:
            return "removed"
        for record in slow_reading.said(later):
            said = record.said
            is_back = (
                isinstance(said, kafka_records.RegisterController) and said.controller_id == leader
            )
            if is_back and record.at_ms - later[0].at_ms <= RESTARTED_MS:
                return "restarted"
        return self._seen_again(self.log_of(leader), epoch, later[0].at_ms)

    def _seen_again(self, own: SlowReplica | None, epoch: int, next_ms: int) -> str:
        if own is None or all(each.here_ms is None for each in self.seen(own)):
            return "unknown"
        later = [each for each in self.shared(own) if each.epoch > epoch]
        if not later:
            return "gone"
        times = [at for each in later if (at := self.had_ms(own, each)) is not None]
        if not times:
            return "unknown"
        return "away" if times[0] - next_ms > FETCH_TIMEOUT_MS else "followed"

    # Voters.

    @cached_property
    def assignments(self) -> list[SlowAssignment]:
        return slow_reading.assignments(self.log)

    def voters(self, time: SlowTime) -> list[Row]:
        """The table `voters`."""
        found = []
        end = self.by(time.end_ms)[-1].end
        assignments = [each for each in self.assignments if each.offset < end]
        for number, each in enumerate(assignments):
            later = assignments[number + 1 :]
            until_ms = later[0].at_ms if later else max(time.end_ms, each.at_ms)
            found.append(
                {
                    "offset": each.offset,
                    "epoch": each.epoch,
                    "at_ms": each.at_ms,
                    "until_ms": until_ms,
                    "duration_ms": until_ms - each.at_ms,
                    "current": each.current,
                    "target": each.target,
                    "kind": "voters" if each.target is None else "target",
                    "tolerates": (len(each.current) - 1) // 2,
                    **self._survived(each, until_ms, time),
                }
            )
        return found

    def _survived(self, assignment: SlowAssignment, until_ms: int, time: SlowTime) -> Row:
        names = ("no_majority_ms", "survived_0_ms", "survived_1_ms", "survived_2_ms")
        found = dict.fromkeys((*names, "unknown_ms"), 0)
        seats = [self._seat(voter) for voter in assignment.current]
        before_ms = time.windows[0][0]
        for t_ms in time.samples:
            # A sample stands for the time before it, as far as that is of this assignment.
            low = max(before_ms, assignment.at_ms, time.start_ms)
            lasts_ms = min(t_ms, until_ms) - low
            before_ms = t_ms
            if lasts_ms > 0:
                answers = {
                    names[min(3, max(0, 1 + up - (len(seats) // 2 + 1)))]
                    for up in self._keep_up(seats, t_ms)
                }
                found[answers.pop() if len(answers) == 1 else "unknown_ms"] += lasts_ms
        return found

    def _seat(self, voter: str) -> str | None:
        node, _, directory = voter.partition("@")
        for each in self.logs:
            if str(each.node_id) == node and directory in ("", each.directory):
                return each.name
        return None

    def _keep_up(self, seats: Sequence[str | None], t_ms: int) -> list[int]:
        """The least and the most voters that may have kept up at that time, given unknown lags."""
        surely = perhaps = 0
        for name in seats:
            lack = None if name is None else self.slow_log.lacks(name, t_ms)
            perhaps += lack is None
            surely += lack is not None and lack[1] < FETCH_TIMEOUT_MS
        return list(range(surely, surely + perhaps + 1))

    # Status.

    def status(self, time: SlowTime, ends: Iterable[Row]) -> list[Row]:
        """The table `status`, without the sentence; of where logs end as `ends` say."""
        found = []
        roles = self._roles(time.end_ms)
        for row in ends:
            lacks = [self.slow_log.lacks(row["replica"], end) for _, end in time.windows[-10:]]
            lags = [lack[1] for lack in lacks if lack is not None]
            rule, is_ = rule_of(row, lags, time.end_ms)
            found.append(
                {
                    "replica": row["replica"],
                    "role": roles[row["replica"]],
                    "status": is_,
                    "rule": rule,
                    "since_ms": row["waits_since_ms"],
                    "records_behind": row["records_behind"],
                    "lag_ms": row["lag_ms"],
                }
            )
        return found

    def _roles(self, end_ms: int) -> dict[str, str | None]:
        """The role of each at the end, by the last voters that the log has by then."""
        end = self.by(end_ms)[-1].end
        last = [each for each in self.assignments if each.offset < end][-1:]
        sit = [self._seat(voter) for each in last for voter in each.current]
        said = {each.name: "voter" if each.name in sit else "observer" for each in self.logs}
        return said | {each.name: None for each in self.logs if each.node_id is None}


def rule_of(row: Row, lags: Sequence[int], end_ms: int) -> tuple[str, str]:
    """The first rule that fires, and what the replica is then."""
    if row["records_behind"] is None:
        return "unknown", "UNKNOWN"
    return _rule_of(row, lags, end_ms)


def _rule_of(row: Row, lags: Sequence[int], end_ms: int) -> tuple[str, str]:
    waits_ms, last_ms = row["lag_ms"] or 0, row["last_append_ms"]
    if row["records_behind"] == 0 and not row["records_diverging"]:
        return "caught_up", "OK"
    if last_ms is not None and waits_ms >= STOPPED_MS and end_ms - last_ms >= STOPPED_MS:
        return "silent", "STOPPED"
    if row["records_diverging"]:
        return "diverging", "ERR"
    if row["records_lost"] > 0:
        return "damaged", "ERR"
    if last_ms is None and waits_ms >= STOPPED_MS:
        return "short_log", "STOPPED"
    if last_ms is None:
        return "nearly_there", "OK"
    if waits_ms >= STALLED_MS and end_ms - last_ms >= STALLED_MS:
        return "no_progress", "STALLED"
    if waits_ms >= STOPPED_MS:
        return "far_behind", "ERR"
    if len(lags) >= 3 and sorted(lags) == list(lags) and 0 < lags[0] < lags[-1]:
        return "falls_behind", "WARN"
    return ("slow", "WARN") if waits_ms >= WARN_MS else ("keeps_up", "OK")


def _verdict(least: int | None, most: int | None) -> str:
    if least is not None and most is not None and least > most:
        return "stepped"
    if least is not None and least > 0:
        return "ahead"
    if most is not None and most < 0:
        return "behind"
    return "agree" if least is not None and most is not None else "one-sided"


def _estimate(least: int | None, most: int | None) -> Row:
    if least is None or most is None:
        return {"estimate_ms": most if least is None else least, "error_ms": None}
    middle = (least + most) // 2
    return {"estimate_ms": middle, "error_ms": None if least > most else most - middle}
