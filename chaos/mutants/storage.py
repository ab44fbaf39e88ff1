"""Faults in storage: the order of writes and syncs, and recovery after a crash."""

from typing import Final

from chaos.mutants.mutant import Mutant

STORAGE: Final = (
    Mutant(
        name="quorum-state is rewritten in place",
        module="quorum.log.filesystem",
        old="    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)\n",
        new="    temporary = path\n",
        caught_by=("R2", "R4", "R23"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_a_power_loss_leaves_the_old_or_the_new_election_state"
        ),
        seed=78,
    ),
    Mutant(
        name="the new name of quorum-state is not synced",
        module="quorum.log.filesystem",
        old="    fs.rename(temporary, path)\n    sync_folder(path.parent, fs)\n",
        new="    fs.rename(temporary, path)\n",
        caught_by=("R3",),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_a_power_loss_leaves_the_old_or_the_new_election_state"
        ),
    ),
    Mutant(
        name="an fsync that fails is taken for a success",
        module="quorum.log.segment_writer",
        old="                raise failed_sync(error) from error\n            self.syncs",
        new="                pass\n            self.syncs",
        caught_by=("R8", "R12"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_records_of_a_failed_sync_are_durable_once_a_restarted_process_finds_them"
        ),
        seed=1,
    ),
    Mutant(
        name="the log is not synced at all",
        module="quorum.log.segment_writer",
        old="        if self._unsynced:\n            #",
        new="        if False:\n            #",
        caught_by=("R8", "R12"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_a_power_loss_keeps_committed_records_and_the_log_opens"
        ),
    ),
    Mutant(
        name="the name of a new segment is not synced",
        module="quorum.log.segment_writer",
        old="        self._name_unsynced = is_found or is_new\n",
        new="        self._name_unsynced = False\n",
        caught_by=("R8", "R12"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_a_power_loss_keeps_committed_records_and_the_log_opens"
        ),
    ),
    Mutant(
        name="a truncation is not durable",
        module="quorum.log.filesystem",
        old="        fs.ftruncate(fd, size_bytes)\n        sync_file(fd, fs)\n",
        new="        fs.ftruncate(fd, size_bytes)\n",
        caught_by=("R5", "R8", "R10", "R12"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_a_power_loss_keeps_committed_records_and_the_log_opens"
        ),
    ),
    Mutant(
        name="damage in the middle of the log is truncated like a torn tail",
        module="quorum.log.recovery",
        old="        if not self._synced:\n            return bad.reason\n        if not is_last:",
        new="        return bad.reason\n        if not is_last:",
        caught_by=("R10",),
        directed=(
            "tests/quorum/log/test_recovery.py::"
            "test_damage_before_a_sound_batch_is_refused_and_nothing_is_changed"
        ),
        seed=1,
    ),
    Mutant(
        name="recovery trusts unsynced bytes of an earlier process",
        module="quorum.log.recovery",
        old="                _write_again(fd, fs)\n                sync_file(fd, fs)\n",
        new="                pass\n",
        caught_by=("R8", "R12"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_records_that_a_restarted_process_finds_are_durable_from_then_on"
        ),
        seed=1,
    ),
    Mutant(
        name="recovery trusts readable bytes of a failed sync",
        module="quorum.log.recovery",
        old="                _write_again(fd, fs)\n",
        new="",
        caught_by=("R8", "R12"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_records_of_a_failed_sync_are_durable_once_a_restarted_process_finds_them"
        ),
        seed=1,
    ),
    Mutant(
        name="recovery does not verify checksums",
        module="quorum.log.recovery",
        old="                    self._take(segment, file, crc=index >= self._crc_from)\n",
        new="                    self._take(segment, file, crc=False)\n",
        caught_by=("R8", "R10", "R12", "R23", "R5"),
        directed=(
            "tests/quorum/log/test_recovery.py::"
            "test_a_flipped_bit_in_the_last_batch_makes_it_a_torn_tail"
        ),
        seed=1,
    ),
    Mutant(
        name="quorum-state is not synced before its rename",
        module="quorum.log.filesystem",
        old="        write_all(fd, data, 0, fs)\n        sync_file(fd, fs)\n",
        new="        write_all(fd, data, 0, fs)\n",
        caught_by=("R2", "R3"),
        directed=(
            "tests/quorum/log/test_power_loss.py::"
            "test_a_power_loss_leaves_the_old_or_the_new_election_state"
        ),
    ),
    Mutant(
        name="append times of truncated records are kept",
        module="quorum.log.segmented_log",
        old="                    self._times.truncate(segment, end, later)\n",
        new="                    pass\n",
        caught_by=("R27",),
        directed=(
            "tests/quorum/log/test_append_times.py::"
            "test_a_truncation_removes_the_times_of_truncated_records"
        ),
        seed=1,
    ),
    Mutant(
        name="append times are not synced when their segment is complete",
        module="quorum.log.append_times",
        old="            self._fs.fdatasync(self._fd)\n        finally:",
        new="            pass\n        finally:",
        caught_by=("R27",),
        directed=(
            "tests/quorum/log/test_append_times.py::"
            "test_the_index_of_a_complete_segment_is_on_disk_for_good"
        ),
        seed=2,
    ),
    Mutant(
        name="append times of lost records come back",
        module="quorum.log.append_times",
        old="                if has_cut or end == segments[-1].base:\n",
        new="                if False:\n",
        caught_by=("R27",),
        directed=(
            "tests/quorum/log/test_folder_transcripts.py::"
            "test_a_folder_behaves_as_recorded[folder_append_times]"
        ),
        seed=33,
    ),
    Mutant(
        name="damaged append times are accepted",
        module="quorum.log.append_times",
        old="    if crc32c(facts) != crc:\n",
        new="    if False:\n",
        caught_by=("R27", "R23"),
        directed=(
            "tests/quorum/log/test_append_times.py::test_the_time_of_a_damaged_entry_is_unknown"
        ),
        seed=7,
    ),
    Mutant(
        name="the append time of a record is that of the batch before",
        module="quorum.log.append_times",
        old="            *_, last = run\n",
        new="            last, *_ = run\n",
        caught_by=("R27",),
        directed=(
            "tests/quorum/log/test_append_times.py::"
            "test_appends_of_one_commit_and_one_moment_share_an_entry"
        ),
        seed=1,
    ),
    Mutant(
        name="a node starts in the folder of another",
        module="quorum.log.meta_properties",
        old="    if meta.node_id != node_id:\n",
        new="    if False:\n",
        caught_by=("R23",),
        directed=(
            "tests/quorum/log/test_meta_properties.py::"
            "test_the_folder_of_another_node_is_refused_and_both_are_named"
        ),
        seed=1,
    ),
    Mutant(
        name="truncated records are still read from memory",
        module="quorum.log.segmented_log",
        old="            self._tail.truncate(end)\n",
        new="            self._tail.end = end\n",
        caught_by=("R6", "R5", "R8"),
        directed="tests/contracts/test_log_contract.py::"
        "test_a_truncated_log_ends_at_the_given_offset_and_continues_there",
    ),
)
