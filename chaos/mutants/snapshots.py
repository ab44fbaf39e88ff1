"""Faults in snapshots: their contents, their end, and the cut of the log below them."""

from typing import Final

from chaos.mutants.mutant import Mutant

_SAY: Final = "tests/quorum/driver/test_snapshot_contents.py::"
_FOLDER: Final = "tests/quorum/log/test_snapshot_store.py::"
_CORE: Final = "tests/quorum/core/test_core_snapshots.py::"

SNAPSHOTS: Final = (
    Mutant(
        name="a snapshot is named after the log end offset",
        module="quorum.snapshotting",
        old="        id_ = OffsetAndEpoch(self._node.epoch_at(Offset(state.end - 1)), state.end)\n",
        new="        id_ = self._node.log_end\n",
        caught_by=("R21",),
        directed=_SAY + "test_a_snapshot_is_named_after_its_last_record_and_has_the_voters_there",
    ),
    Mutant(
        name="a snapshot has the epoch of the replica, and not that of its last record",
        module="quorum.snapshotting",
        old="OffsetAndEpoch(self._node.epoch_at(Offset(state.end - 1)), state.end)",
        new="OffsetAndEpoch(self._node.epoch, state.end)",
        caught_by=("R21",),
        directed=_SAY + "test_a_snapshot_is_named_after_its_last_record_and_has_the_voters_there",
    ),
    Mutant(
        name="a snapshot names the current voters, and not those at its end",
        module="quorum.snapshotting",
        old="self._node.voters_at(state.end)",
        new="self._node.voters_at(self._node.log_end.offset)",
        caught_by=("R21",),
        directed=_SAY + "test_a_snapshot_is_named_after_its_last_record_and_has_the_voters_there",
    ),
    Mutant(
        name="a snapshot is not synced before it gets its name",
        module="quorum.log.snapshot_store",
        old="            self._write(path, data, position, sync=True)\n",
        new="            self._write(path, data, position, sync=False)\n",
        caught_by=("R21",),
        directed="tests/quorum/log/test_snapshot_power_loss.py::"
        "test_a_snapshot_being_taken_never_costs_a_record",
    ),
    Mutant(
        name="a received snapshot is not synced before it gets its name",
        module="quorum.log.snapshot_store",
        old="                sync_file(fd, self._fs)\n                size_bytes",
        new="                size_bytes",
        caught_by=("R21",),
        directed="tests/quorum/log/test_snapshot_power_loss.py::"
        "test_a_snapshot_being_installed_leaves_the_old_log_or_the_new_one",
    ),
    Mutant(
        name="a received snapshot is installed unchecked",
        module="quorum.log.snapshot_store",
        old="                checkpoint = read_checkpoint(path, self._fs, id_=id_)\n",
        new="                from quorum.log.checkpoint import Checkpoint\n"
        "                checkpoint = Checkpoint(\n"
        "                    path=path, id=id_, last_timestamp_ms=0, voters=None,\n"
        "                    kraft_version=1, has_checksum=True, fs=self._fs,\n"
        "                )\n",
        caught_by=("R21",),
        directed=_FOLDER + "test_damaged_and_missing_parts_of_a_snapshot_are_found",
    ),
    Mutant(
        name="a part of a snapshot is sent from the wrong place",
        module="quorum.snapshotting",
        old="part = self._store.read(response.snapshot, response.position, response.length)",
        new="part = self._store.read(response.snapshot, 0, response.length)",
        caught_by=("R21",),
        directed=_SAY + "test_a_part_of_a_snapshot_equals_the_file_at_its_position",
    ),
    Mutant(
        name="the log is deleted before its snapshot is durable",
        module="quorum.snapshotting",
        old="        received = self._store.install(",
        new="        self._log.begin_anew(effect.snapshot.offset)\n"
        "        received = self._store.install(",
        caught_by=("R10", "R21"),
        directed=_SAY + "test_an_invalid_download_leaves_the_log_in_place",
    ),
    Mutant(
        name="the log is cut where the newest snapshot ends, although it may be damaged",
        module="quorum.core.snapshots",
        old="    oldest = kept[0]\n",
        new="    oldest = kept[-1]\n",
        caught_by=("R21",),
        directed=_CORE + "test_nothing_is_dropped_before_there_is_a_second_snapshot",
        seed=2,
    ),
    Mutant(
        name="the log is cut when there is one snapshot only",
        module="quorum.core.snapshots",
        old="    if oldest.end > log.start and len(kept) >= KEPT_MIN:\n",
        new="    if oldest.end > log.start:\n",
        caught_by=("R21",),
        directed=_CORE + "test_nothing_is_dropped_before_there_is_a_second_snapshot",
        seed=5,
    ),
    Mutant(
        name="a damaged snapshot is not skipped",
        module="quorum.persistent_state",
        old="            if is_apart:\n",
        new="            if True:\n",
        caught_by=("R21",),
        directed="tests/quorum/log/test_starting_checkpoint.py::"
        "test_the_older_snapshot_replaces_a_damaged_one",
        seed=4,
    ),
    Mutant(
        name="an installed snapshot is not loaded into the state machine",
        module="quorum.snapshotting",
        old="                outcome.records(), outcome.id.offset, outcome.id.epoch\n",
        new="                [b'0', *[b''] * 8], outcome.id.offset, outcome.id.epoch\n",
        caught_by=("R20",),
        directed=_SAY + "test_an_installed_snapshot_replaces_log_and_older_snapshots_and_is_loaded",
    ),
    Mutant(
        name="a log after a snapshot ignores the voters of the snapshot",
        module="quorum.persistent_state",
        old="        return VoterSetHistory(later, base=checkpoint.voters)\n",
        new="        return VoterSetHistory(later)\n",
        caught_by=("R1", "R8", "R14", "R15", "R21", "R23", "liveness"),
        directed=_SAY + "test_a_folder_that_is_opened_again_knows_the_voters_of_its_snapshot",
        seed=1,
    ),
    Mutant(
        name="a leader serves fetches at the log start without comparing epochs",
        module="quorum.core.raft_log",
        old="other_end.offset >= self.start and other_end.epoch >= self.history.first",
        new="other_end.offset >= self.start",
        caught_by=("R5", "R6", "R8", "R23", "liveness"),
        directed=_CORE + "test_a_replica_that_ends_in_a_missing_epoch_gets_the_newest_snapshot",
        seed=77,
    ),
    Mutant(
        name="a log that is cut at its start loses one segment too many",
        module="quorum.log.segmented_log",
        old="            gone = self._segment_of(min(start, self._written))\n",
        new="            gone = self._segment_of(min(start, self._written)) + 1\n"
        "            gone = min(gone, len(self._segments) - 1)\n",
        caught_by=("R21", "R23"),
        directed="tests/contracts/test_log_contract.py::"
        "test_a_log_that_was_cut_at_its_start_holds_the_rest_and_goes_on",
        seed=2,
    ),
    Mutant(
        name="the voters of an installed snapshot are lost",
        module="quorum.core.raft_log",
        old="        self.assignments = VoterSetHistory(base=voters)\n",
        new="        self.assignments = VoterSetHistory()\n",
        caught_by=("R21", "R17", "R8", "R1"),
        directed="quorum_snapshot_voters",
    ),
)
