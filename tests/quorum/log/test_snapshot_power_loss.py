"""Power loss while a snapshot is taken or installed: nothing committed is lost."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.disk.virtual_disk import VirtualDisk
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.log import filesystem
from quorum.persistent_state import PersistentState, QuorumConfig, load_persistent_state
from quorum.ports import ReceivedSnapshot
from quorum.records.control import SnapshotBatches
from quorum.records.decode import decode
from quorum.records.encode import encode
from tests.quorum.log.test_power_loss import Recorder

IMAGES = 3
CONFIG = QuorumConfig(
    node_id=ReplicaId(1),
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    folder=Path("/node"),
    voters={ReplicaId(1): ("h", 1)},
    segment_bytes=300,
)


def value(offset: int) -> bytes:
    """The value of the record at this offset."""
    return b"record %d" % offset


def opened(disk: VirtualDisk) -> PersistentState:
    return load_persistent_state(CONFIG, rng=random.Random(1), fs=disk)


def append(past: PersistentState, count: int, epoch: int) -> None:
    """Append and commit so many records, each in a batch of its own."""
    start = past.log.end.offset
    for offset in range(start, start + count):
        batch = encode(
            [value(offset)], timestamp_ms=1, base_offset=Offset(offset), epoch=Epoch(epoch)
        )
        past.log.append(batch)
    past.log.commit()


def parts(id_: OffsetAndEpoch) -> list[bytes]:
    """A snapshot of all records below its end, in small parts."""
    batches = SnapshotBatches(id_.epoch, 1)
    made = [batches.opening(None, None)]
    made += [batches.data([value(offset)]) for offset in range(id_.offset)]
    whole = b"".join(map(bytes, (*made, batches.closing())))
    return [whole[at : at + 200] for at in range(0, len(whole), 200)]


def take(past: PersistentState, id_: OffsetAndEpoch) -> None:
    """As a replica does beside its other work."""
    at = 0
    for part in parts(id_):
        past.store.write(id_, part, at)
        at += len(part)
    past.store.finish(id_)
    past.store.note(id_, at)


def known(disk: VirtualDisk) -> list[bytes]:
    """All records of the state that a process begins with, and of the log behind it."""
    past = opened(disk)
    found = [] if past.checkpoint is None else list(past.checkpoint.records())
    start, end = Offset(len(found)), past.log.end.offset
    assert past.log.start <= start <= end
    assert past.view.start == past.log.start
    if end > start:
        found += [each.value or b"" for each in decode(past.log.read(start, end, 1 << 30))]
    past.log.close()
    return found


def images(recorder: Recorder, since: int) -> Iterator[tuple[int, VirtualDisk]]:
    """The possible disks after a power loss behind any operation from `since` on."""
    rng = random.Random(since)
    for upto in range(since, recorder.count + 1):
        for _ in range(IMAGES):
            yield upto, recorder.image(upto, rng)


def test_a_snapshot_being_taken_never_costs_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are taken, and the log and then the older one are cut away behind them."""
    recorder = Recorder()
    past = opened(recorder.disk)
    past.elections.write(ElectionState(Epoch(3)))
    append(past, 8, 1)
    since = recorder.count
    take(past, OffsetAndEpoch(Epoch(1), Offset(4)))
    take(past, OffsetAndEpoch(Epoch(1), Offset(8)))
    past.log.advance_start(Offset(4))
    while past.log.remove_obsolete():
        pass
    past.store.forget(OffsetAndEpoch(Epoch(1), Offset(4)))
    past.log.advance_start(Offset(8))
    while past.log.remove_obsolete():
        pass
    monkeypatch.setattr(filesystem, "FREED_BYTES", 40)
    while past.store.remove(OffsetAndEpoch(Epoch(1), Offset(4))):
        pass
    for upto, image in images(recorder, since):
        assert known(image) == [value(offset) for offset in range(8)], f"after {upto}"


@pytest.mark.parametrize(
    "epochs",
    [(1,) * 6, (1,) * 16, ()],
    ids=["a log that is behind", "a longer log of another epoch", "an empty log"],
)
def test_a_snapshot_being_installed_leaves_the_old_log_or_the_new_one(
    epochs: tuple[int, ...],
) -> None:
    recorder = Recorder()
    past = opened(recorder.disk)
    past.elections.write(ElectionState(Epoch(3)))
    append(past, len(epochs), 1)
    id_ = OffsetAndEpoch(Epoch(2), Offset(12))
    since, at = recorder.count, 0
    for part in parts(id_):
        past.store.receive(id_, part, at)
        at += len(part)
    received = past.store.install(id_, is_mixed=False)
    assert isinstance(received, ReceivedSnapshot)
    durable_since = recorder.count
    past.log.begin_anew(id_.offset)
    old, new = [[value(offset) for offset in range(count)] for count in (len(epochs), 12)]
    for upto, image in images(recorder, since):
        found = known(image)
        assert found in ([new] if upto >= durable_since else [old, new]), f"after {upto}"
    again = opened(recorder.disk.after_power_loss(random.Random(7)))
    assert (again.log.start, again.log.end.offset) == (12, 12)
    assert again.view.end == id_
    again.log.close()


def test_a_download_is_continued_or_begun_again_after_a_power_loss() -> None:
    recorder = Recorder()
    past = opened(recorder.disk)
    past.elections.write(ElectionState(Epoch(3)))
    id_ = OffsetAndEpoch(Epoch(2), Offset(12))
    whole, since, at = parts(id_), recorder.count, 0
    for part in whole[:-1]:
        past.store.receive(id_, part, at)
        at += len(part)
    for _, image in images(recorder, since):
        again = opened(image)
        position = 0 if again.store.partial is None else again.store.partial[1]
        assert position <= at
        again.store.receive(id_, b"".join(whole)[position:], position)
        outcome = again.store.install(id_, is_mixed=True)
        if isinstance(outcome, str):
            # Something of it was lost with the power, and that was found.
            again.store.receive(id_, b"".join(whole), 0)
            outcome = again.store.install(id_, is_mixed=False)
        assert isinstance(outcome, ReceivedSnapshot)
        assert list(outcome.records()) == [value(offset) for offset in range(12)]
        again.log.close()
