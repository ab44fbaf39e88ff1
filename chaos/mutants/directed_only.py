"""Faults that no seed can show, or hardly any, each with the reason; their own tests must."""

from typing import Final

from chaos.mutants.mutant import Mutant

_SNAPSHOTS: Final = "tests/quorum/driver/test_snapshotting.py::"

UNSEEN: Final = (
    Mutant(
        name="segments below the start of the log stay on the disk",
        module="quorum.snapshotting",
        old="        self._log.advance_start(start)\n        self._remove_obsolete()\n",
        new="        self._log.advance_start(start)\n",
        caught_by=(),
        directed=_SNAPSHOTS + "test_what_lies_below_the_start_of_the_log_goes_and_nothing_else",
        unseen=(
            "a log that is longer at its start than it need be says nothing that is wrong, and "
            "after a restart it begins where its files do; the same is left by a crash"
        ),
    ),
    Mutant(
        name="snapshots that are not kept any more stay on the disk",
        module="quorum.snapshotting",
        old="        self._dropped.append(id_)\n",
        new="        pass\n",
        caught_by=(),
        directed=_SNAPSHOTS
        + "test_the_newest_two_stay_and_a_file_goes_only_after_the_node_has_heard",
        unseen=(
            "a snapshot that is sound may be given away and gone back to, however old; the same "
            "is left by a crash"
        ),
    ),
    Mutant(
        name="who lost an election asks again at once",
        module="quorum.core.elections",
        old="    return 1 + state.rng.randrange(range_ms)\n",
        new="    return 1\n",
        caught_by=(),
        directed="quorum_backoff",
        unseen=(
            "the wait is random and may be 1 ms each time; pre-votes keep whoever cannot win from "
            "raising an epoch, and network and disks alone keep two that can from meeting for ever"
        ),
    ),
    Mutant(
        name="append times of segments that a snapshot has replaced stay on the disk",
        module="quorum.log.segmented_log",
        old="                self._times.remove(old)\n",
        new="                pass\n",
        caught_by=(),
        directed="tests/quorum/log/test_append_times.py::"
        "test_a_log_that_begins_anew_leaves_no_index_of_the_old_one",
        unseen="an index without its segment is removed when the log is opened again, as one that "
        "a crash has left",
    ),
    Mutant(
        name="who looks for a leader waits for one that is silent",
        module="quorum.core.follower",
        old="now_ms + state.timeouts.search_patience_ms if follower is None else None",
        new="None",
        caught_by=(),
        directed="quorum_lost_by_observers",
        unseen="the leader is found all the same, after the request time-out",
    ),
    Mutant(
        name="an observer believes others that the leader that it has lost is there",
        module="quorum.core.state",
        old="            if leader == self.election.leader != by and not self.may_be_needed:\n",
        new="            if False:\n",
        caught_by=(),
        directed="quorum_lost_by_observers",
        unseen="it finds the next leader all the same, after the fetch time-out",
    ),
    Mutant(
        name="a follower that holds nothing commits nothing, and says so",
        module="quorum.core.follower",
        old="    if reached > (state.high_watermark or 0):\n",
        new="    if state.high_watermark is None or reached > state.high_watermark:\n",
        caught_by=(),
        directed="quorum_commit_of_nothing",
        unseen=(
            "hardly any does: an observer with nothing must wait at a leader that knows of no "
            "commit yet, and that cuts the start of its log in the milliseconds until it does; of "
            "two thousand seeds one showed it, or none"
        ),
    ),
    Mutant(
        name="a cancel that adds and removes nobody is not judged",
        module="statemachine.reassignment.target",
        old=" or desired.replicas != partition.replicas:\n",
        new=":\n",
        caught_by=(),
        directed="moves_cancel_last",
        unseen=(
            "hardly any does: a target must drop the one replica that is in sync, and another one "
            "take it back, before a move is cancelled; of three thousand seeds one showed it"
        ),
    ),
)
