"""The log that a plan of a migration reads while a controller of Kafka leads."""

from pathlib import Path

import pytest

from admin.backup.folder_source import folder_source
from admin.client.metadata_source import Part, SnapshotGone
from admin.faults import AdminError
from admin.tools.migrate.log_reader import SNAPSHOT_TRIES, LogReader
from quorum.core.vocabulary import OffsetAndEpoch
from tests.admin.backup.stored_backups import Through
from tests.admin.tools.old_controllers import CHECKPOINT, CHECKPOINT_END, LOG_END, old, rest
from tests.support.real_cluster import IN_TREE


class Changing(Through):
    """A leader that gives up the lead, or replaces its snapshot, while that is read."""

    times = SNAPSHOT_TRIES

    async def fetch_snapshot(self, id_: OffsetAndEpoch, position: int) -> Part:
        part = await super().fetch_snapshot(id_, position)
        half = len(part.data) // 2
        if position == 0:
            return Part(part.data[:half], part.size_bytes)
        if self.times:
            self.times -= 1
            raise SnapshotGone
        return part


def source_of(folder: Path) -> Path:
    checkpoints = [IN_TREE / CHECKPOINT]
    return old(folder, 3, log=rest(CHECKPOINT_END), start=CHECKPOINT_END, checkpoints=checkpoints)


@pytest.mark.parametrize("times", [0, 1, SNAPSHOT_TRIES - 1])
async def test_a_snapshot_is_read_again_when_the_leader_changes(tmp_path: Path, times: int) -> None:
    with folder_source(source_of(tmp_path)) as folder:
        source = Changing(folder)
        source.times = times
        history = await LogReader(source).catch_up()
    assert history.image.end_offset == LOG_END
    assert len(history.image.topics) == 1


async def test_a_leader_that_changes_each_time_is_named_as_the_reason(tmp_path: Path) -> None:
    with folder_source(source_of(tmp_path)) as folder:
        reader = LogReader(Changing(folder))
        with pytest.raises(AdminError, match="the leader changed, or replaced its snapshot, 5 "):
            await reader.catch_up()
    assert reader.history.image.end_offset == 0
