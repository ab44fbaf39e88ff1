"""Faults that no seed, or almost no seed, can detect, each with the reason; directed tests detect
them."""

from dataclasses import replace
from typing import Final

from chaos.mutants.mutant import Mutant
from chaos.mutants.partitions import CANCEL_KEEPS, STEP_DROPS, STEP_WAITS

_SNAPSHOTS: Final = "tests/quorum/driver/test_snapshotting.py::"

UNSEEN: Final = (
    Mutant(
        name="segments below the log start offset are not deleted",
        module="quorum.snapshotting",
        old="_log.advance_start(start)\n        self._remove(self._log.remove_obsolete)\n",
        new="_log.advance_start(start)\n",
        caught_by=(),
        directed=_SNAPSHOTS + "test_only_segments_below_the_log_start_offset_are_deleted",
        unseen=(
            "records below the log start offset are correct, and after a restart the log starts "
            "at its first segment; a crash leaves the same state"
        ),
    ),
    Mutant(
        name="old snapshots are not deleted",
        module="quorum.snapshotting",
        old="        self._dropped.append(id_)\n",
        new="        pass\n",
        caught_by=(),
        directed=_SNAPSHOTS
        + "test_the_newest_two_snapshots_stay_and_files_are_deleted_after_the_report",
        unseen=(
            "an old snapshot is still correct: a replica may send it and recover from it; a crash "
            "leaves the same state"
        ),
    ),
    Mutant(
        name="a voter that lost an election retries at once",
        module="quorum.core.elections",
        old="    return 1 + state.rng.randrange(range_ms)\n",
        new="    return 1\n",
        caught_by=(),
        directed="quorum_backoff",
        unseen=(
            "the backoff is random and may be 1 ms each time; a voter that cannot win stops at the "
            "pre-vote, and random delays of network and disks separate two voters that can"
        ),
    ),
    Mutant(
        name="append times of segments that a snapshot replaced are not deleted",
        module="quorum.log.segmented_log",
        old="                self._times.remove(old)\n",
        new="                pass\n",
        caught_by=(),
        directed="tests/quorum/log/test_append_times.py::"
        "test_a_log_that_begins_anew_leaves_no_index_of_the_old_one",
        unseen="the log removes an index without a segment when it is opened, because a crash may "
        "leave one, too",
    ),
    Mutant(
        name="a follower that searches for a leader waits for a silent node",
        module="quorum.core.follower",
        old="now_ms + state.timeouts.search_patience_ms if follower is None else None",
        new="None",
        caught_by=(),
        directed="quorum_lost_by_observers",
        unseen="the follower finds the leader anyway, after the request time-out",
    ),
    Mutant(
        name="an observer accepts its lost leader when another node names it",
        module="quorum.core.state",
        old="            if leader == self.election.leader != by and not self.is_promotable:\n",
        new="            if False:\n",
        caught_by=(),
        directed="quorum_lost_by_observers",
        unseen="the observer finds the next leader anyway, after the fetch time-out",
    ),
    Mutant(
        name="an empty follower reports a high watermark of 0",
        module="quorum.core.follower",
        old="    if reached > (state.high_watermark or 0):\n",
        new="    if state.high_watermark is None or reached > state.high_watermark:\n",
        caught_by=(),
        directed="quorum_commit_of_nothing",
        unseen=(
            "almost no seed does: an empty observer must wait at a leader without a high "
            "watermark, and the leader must cut the start of its log in the few milliseconds until "
            "it has one; "
            "at most one of 2,000 seeds detected it"
        ),
    ),
    Mutant(
        name="a cancel that changes no replica is not checked",
        module="statemachine.reassignment.target",
        old=" or desired.replicas != partition.replicas:\n",
        new=":\n",
        caught_by=(),
        directed="moves_cancel_last",
        unseen=(
            "almost no seed does: one target must drop the only replica in sync, a later one must "
            "restore it, and then the move must be cancelled; one of 3,000 seeds detected it"
        ),
    ),
    Mutant(
        name="a voter in a new directory inherits what its old one had acknowledged",
        module="quorum.core.replica_progress",
        old="voter.is_(each.replica))",
        new="voter.id == each.replica.id)",
        caught_by=(),
        directed="tests/quorum/core/test_replica_progress.py::"
        "test_a_voter_in_a_new_directory_has_acknowledged_nothing_that_its_old_one_had",
        unseen=(
            "the record that removes the old directory is committed before the new one is added, "
            "and with it all that the old one had acknowledged: what is inherited commits nothing"
        ),
    ),
    Mutant(
        name="a voter that lost acknowledged records and needs a snapshot still counts with them",
        module="quorum.core.replica_progress",
        old="        if is_another or (log_end",
        new="        if False and (log_end",
        caught_by=(),
        directed="tests/quorum/core/test_replica_progress.py::"
        "test_what_a_disk_has_lost_does_not_count_although_a_snapshot_is_needed",
        unseen=(
            "the operator restores an older copy only where a majority of the others holds what it "
            "lacks, so that these records are committed without it"
        ),
    ),
    Mutant(
        name="a follower joins the ISR without a record of the leader's epoch",
        module="broker.partition.leader",
        old=" and end >= self.epoch_start",
        new="",
        caught_by=(),
        directed="tests/broker/partition/test_partition_leader.py::"
        "test_a_follower_behind_the_start_of_the_leader_epoch_is_not_proposed",
        unseen=(
            "almost no seed does: only a follower that has caught up with this leader is proposed, "
            "so the leader epoch must begin, and records come, between its last fetch and the "
            "proposal; P26 would show it, and none of 36 seeds came to that"
        ),
    ),
    replace(
        STEP_WAITS,
        caught_by=(),
        unseen=(
            "the brokers that a later step drops must die during an earlier one, and nothing else "
            "may end that step; one seed in some hundred comes to that"
        ),
    ),
    replace(
        STEP_DROPS,
        caught_by=(),
        unseen=(
            "the replicas that a step drops must be the last ones in sync at that moment; one seed "
            "in some hundred comes to that"
        ),
    ),
    replace(
        CANCEL_KEEPS,
        caught_by=(),
        unseen=(
            "with limits, a step must be redirected away from all that it was adding while one of "
            "these is in sync; one of some hundred random logs comes to that"
        ),
    ),
)
