"""Every moment at which the power may go, and what a node then makes of what is left.

A life (`chaos.crash_life`) is watched operation by operation. Before each that changes the disk,
and at the end, the power goes: of what was not synced every part that may be left is tried, up to a
bound, beyond which chance decides. Each image is recovered by the code of the product, in part
after another crash in the middle of that, and must hold what was promised: it opens, has all that
was acknowledged, nothing that was never written, the vote, the identity, and keeps what it has
shown. Every sync fails once as well: the process ends and is started again while the system still
shows what it has not kept; what that process then finds and writes must outlive the power.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from chaos.crash_life import CONFIG, FOLDER, Life, Promise, append
from chaos.disk import Fault, Kind, Operation, VirtualDisk
from chaos.platter import Chance
from quorum.core.vocabulary import Election, Epoch
from quorum.log.boot_timestamp import next_boot
from quorum.log.errors import StorageError
from quorum.opening import Past, remember

IMAGES_PER_POINT: Final = 8
CRASHES_IN_RECOVERY: Final = 4
"""One image of so many loses its power again while it is recovered."""


class Lost(Exception):
    """An image that could not be recovered, or broke a promise: where, and what."""


class _Died(Exception):
    """The power is gone."""


@dataclass(slots=True)
class Tally:
    """What has been tried."""

    lives: int = 0
    points: int = 0
    whole: int = 0
    """Points at which every part that may be left was tried."""
    images: int = 0

    def __str__(self) -> str:
        return (
            f"{self.images:,} crash images of {self.lives:,} lives at {self.points:,} points, "
            f"at {self.whole:,} of them all that there are: none unrecoverable, "
            "nothing acknowledged lost"
        )


class Script:
    """A chance that tries everything: the same questions are answered otherwise each time."""

    def __init__(self) -> None:
        self._answers: list[int] = []
        self._counts: list[int] = []
        self._at = 0

    def randrange(self, stop: int, /) -> int:
        if self._at == len(self._answers):
            self._answers.append(0)
            self._counts.append(stop)
        answer = self._answers[self._at]
        self._at += 1
        return answer

    def next(self) -> bool:
        """Go on to the next answers; whether there are any."""
        del self._answers[self._at :], self._counts[self._at :]
        self._at = 0
        while self._answers and self._answers[-1] + 1 == self._counts[-1]:
            self._answers.pop()
            self._counts.pop()
        if not self._answers:
            return False
        self._answers[-1] += 1
        return True


def crash_everywhere(seed: int, tally: Tally, *, images_max: int) -> None:
    """One life, and all its crashes, until so many images have been tried; raises `Lost`."""
    disk = VirtualDisk()
    life = Life(seed, disk)
    rng = random.Random(f"crashes of {seed}")
    tally.lives += 1

    def watch(operation: Operation) -> Fault | None:
        where = f"seed {seed}, {life.doing}, "
        if operation.changes and tally.images < images_max:
            _crash(life, f"{where}before: {operation}", rng, tally)
        if operation.kind is Kind.SYNC and tally.images < images_max:
            _fail_sync(life, operation, f"{where}after a failed {operation}", rng, tally)
        return None

    disk.watch = watch
    life.run()
    if tally.images < images_max:
        _crash(life, f"seed {seed}, at the end", rng, tally)


def crash_images(images_max: int, *, base: int = 0) -> Iterator[Tally]:
    """Lives from the seed `base` on, until there were so many images; tells after each."""
    tally, seed = Tally(), base
    while tally.images < images_max:
        crash_everywhere(seed, tally, images_max=images_max)
        seed += 1
        yield tally


def _crash(life: Life, where: str, rng: random.Random, tally: Tally) -> None:
    """Lose power here, in many ways."""
    tally.points += 1
    script = Script()
    for number in range(IMAGES_PER_POINT):
        # Where there is more than can be tried, half of the tries are drawn.
        chance: Chance = script if number < IMAGES_PER_POINT // 2 else rng
        _recover(life, life.disk.after_power_loss(chance), f"{where}, image {number}", rng)
        tally.images += 1
        if chance is script and not script.next():
            tally.whole += 1
            return


def _recover(life: Life, image: VirtualDisk, where: str, rng: random.Random) -> None:
    if not rng.randrange(CRASHES_IN_RECOVERY):
        image = _crashed_again(image, where, rng)
        where += ", and again in recovery"
    past, boot = _opened(image, where)
    shown = _content(past)
    _check(life, past, shown, boot, where)
    again, _ = _opened(image.after_power_loss(rng), f"{where}, then once more")
    if not _content(again).startswith(shown):
        raise Lost(f"{where}: what the restarted node had shown is gone after another crash")


def _fail_sync(life: Life, sync: Operation, where: str, rng: random.Random, tally: Tally) -> None:
    """Let this sync fail, start again on the running system, go on, and only then lose power."""
    tally.images += 1
    running = life.disk.copy()
    running.forget(sync.path)
    past, boot = _opened(running, where)
    _check(life, past, _content(past), boot, where)
    election = past.election
    if not election.epoch or rng.randrange(2):
        election = Election(Epoch(election.epoch + 1), voted_for=past.key)
        past.elections.write(election)
    for _ in range(rng.randrange(3)):
        append(past.log, election.epoch, rng)
    past.log.commit()
    again, _ = _opened(running.after_power_loss(rng), f"{where}, then a crash")
    if _content(again) != _content(past):
        raise Lost(f"{where}: what the restarted node had kept is not what is there after a crash")
    if (again.election, again.key) != (election, past.key):
        raise Lost(f"{where}: the restarted node forgot a vote, or who it is, in a crash")


def _crashed_again(image: VirtualDisk, where: str, rng: random.Random) -> VirtualDisk:
    """What is left when the power goes while the image is recovered."""
    left = rng.randrange(6)

    def watch(operation: Operation) -> Fault | None:
        nonlocal left
        left -= operation.changes
        if left < 0:
            raise _Died
        return None

    image.watch = watch
    try:
        remember(CONFIG, rng=rng, fs=image)
    except _Died:
        return image.after_power_loss(rng)
    except StorageError as error:
        raise Lost(f"{where}: {error}") from error
    image.kill()
    image.watch = None
    return image


def _opened(image: VirtualDisk, where: str) -> tuple[Past, int]:
    try:
        past = remember(CONFIG, rng=random.Random(0), fs=image)
        return past, next_boot(FOLDER, 0, fs=image) - 1
    except StorageError as error:
        raise Lost(f"{where}: {error}") from error


def _content(past: Past) -> bytes:
    log = past.log
    return log.read(log.start, log.end.offset, 1 << 30)


def _check(life: Life, past: Past, shown: bytes, boot: int, where: str) -> None:
    """Whether one of the promises that may be in force is kept, all of it."""
    if life.directory_ids and past.key.directory_id not in life.directory_ids:
        raise Lost(f"{where}: the folder is another directory now")
    problems = [_problem(each, past, shown, boot) for each in life.allowed]
    if None not in problems:
        raise Lost(f"{where}: {'; or '.join(dict.fromkeys(map(str, problems)))}")


def _problem(promise: Promise, past: Past, shown: bytes, boot: int) -> str | None:
    """How the promise is broken, or None."""
    start, end = past.log.start, past.log.end.offset
    if past.election != promise.election:
        return f"the election is {past.election}, not {promise.election}"
    if boot != promise.boot:
        return f"the last boot was {boot}, not {promise.boot}"
    if not promise.first <= start <= promise.needed:
        return f"the log begins at {start}, not in [{promise.first}, {promise.needed}]"
    if not promise.kept <= end <= promise.end:
        return f"the log ends at {end}, not in [{promise.kept}, {promise.end}]"
    if shown != b"".join(promise.batches[start - promise.first : end - promise.first]):
        return f"the records [{start}, {end}) are not those that were written"
    return None
