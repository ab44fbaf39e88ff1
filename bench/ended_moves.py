"""The cost of one ISR change after many moves have ended, as a ratio to a fresh cluster.

Two clusters of three controllers run side by side. In one of them every partition is moved and
completed. Then the two leaders alternately process AlterPartition requests for a single partition,
and the benchmark compares the processor time of their processes. `--in-process` compares only the
work of a controller (decide, encode, replay, commit), on two images in this process.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Final

import click

from bench import machine
from bench.bulk import check, timed
from bench.faults import RunFailed
from bench.growth import LEVEL, Moved
from bench.isr_connection import check_patching
from bench.options import folder_option, workplace
from bench.partition_steps import (
    BROKER_IDS,
    MOVED_AT_ONCE,
    Subject,
    complete,
    create,
    move,
    subject_of,
)
from bench.peers.figures import OURS
from bench.population import Held, Population, isr_request
from quorum.protocol.apis import ApiKey
from statemachine import commands
from statemachine.decide import decide_at_once
from statemachine.records.isr_changes import encode_isr
from statemachine.replay import replay_isr

PARTITIONS: Final = 100_000
CHANGES: Final = 5_000
ROUNDS: Final = 9
SINGLE_CHANGES: Final = 2_000
"""The changes per round and cluster: a few tenths of a second of the leader's processor time."""
MUST: Final = 1.05


class IsrChanges:
    """Single ISR changes on an image: each ISR loses one replica and gets it back."""

    def __init__(self, moved: Moved) -> None:
        self._image, self._scheduler = moved.image, moved.scheduler
        (self._topic,) = self._image.topics.values()
        self._image.begin_undo_log(self._image.end_offset)
        self._next = 0

    def change(self, count: int) -> float:
        """Make `count` changes; return the microseconds of processor time per change."""
        spent = 0.0
        for _ in range(count):
            self._next = (self._next + 1) % len(self._topic.partitions)
            command = self._command(self._next)
            begun = process_time()
            self._carry_out(command)
            spent += process_time() - begun
        return spent / count * 1_000_000

    def _carry_out(self, command: commands.AlterPartition) -> None:
        image = self._image
        decided = decide_at_once(image, command, self._scheduler)
        assert decided is not None, f"{command} is not decided at once"
        change, _ = decided
        assert change is not None, f"{command} changes nothing"
        encode_isr(change.topic.topic_id, change.number, change.isr.after, LEVEL)
        replay_isr(image, change, image.end_offset)
        image.committed(image.end_offset)

    def _command(self, number: int) -> commands.AlterPartition:
        partition = self._topic.partition(number)
        assert partition is not None
        is_whole = len(partition.isr) == len(partition.replicas)
        isr = tuple(
            commands.IsrMember(each, self._image.brokers[each].broker_epoch)
            for each in partition.replicas
            if each == partition.leader or not is_whole or each != partition.replicas[-1]
        )
        proposal = commands.IsrProposal(
            topic_id=self._topic.topic_id,
            partition=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=isr,
        )
        epoch = self._image.brokers[partition.leader].broker_epoch
        return commands.AlterPartition(
            broker_id=partition.leader, broker_epoch=epoch, proposals=(proposal,)
        )


def ratio_of_images(partitions: int) -> float:
    """The median cost after a move of all partitions, divided by that without one."""
    moved = Moved(partitions)
    moved.move()
    before, after = IsrChanges(Moved(partitions)), IsrChanges(moved)
    ratios = []
    for _ in range(ROUNDS):
        fresh = before.change(CHANGES)
        ratios.append(after.change(CHANGES) / fresh)
    return median(ratios)


async def ratio_of_controllers(folder: Path, partitions: int) -> float:
    """The same ratio for the processor time of leaders, with controllers as processes."""
    async with (
        subject_of(OURS, folder / "fresh") as fresh,
        subject_of(OURS, folder / "moved") as moved,
    ):
        populations = [Population.spread(partitions, BROKER_IDS, prefix="many") for _ in range(2)]
        for subject, population in zip((fresh, moved), populations, strict=True):
            await create(subject, population)
        await move(moved, populations[1], MOVED_AT_ONCE)
        await complete(moved, populations[1])
        ratios = []
        for turn in range(ROUNDS):
            before = await change(fresh, populations[0].held)
            after = await change(moved, populations[1].held)
            click.echo(f"  {before:.1f} and {after:.1f} µs a change", err=True)
            # The first round is the warm-up of both.
            ratios += [after / before] if turn else []
        return median(ratios)


async def change(subject: Subject, held: Sequence[Held]) -> float:
    """Shrink and expand ISRs one by one; return the leader's processor time per change in µs."""
    frames = await asyncio.to_thread(_single_changes, held, subject.brokers.epochs)
    before = machine.used([subject.pid])
    _, answers = await timed(subject.address, frames)
    used = machine.used([subject.pid]).since(before).by_pid[subject.pid]
    await asyncio.to_thread(check, ApiKey.ALTER_PARTITION, answers)
    return used / len(frames) * 1_000_000


def _single_changes(held: Sequence[Held], epochs: dict[int, int]) -> list[bytes]:
    """AlterPartition requests for one partition each: the ISR shrinks and expands alternately."""
    frames = []
    step = max(1, 2 * len(held) // SINGLE_CHANGES)
    for each in islice(held, 0, None, step):
        for isr in (each.replicas[:-1], each.replicas):
            each.isr = isr
            frames.append(isr_request(each.replicas[0], [each], epochs))
            each.partition_epoch += 1
    return frames


@click.command()
@click.option("--partitions", default=PARTITIONS, show_default=True, help="Partitions to move.")
@click.option("--in-process", is_flag=True, help="Compare two images in this process only.")
@folder_option
def main(partitions: int, in_process: bool, folder: Path | None) -> None:
    """Compare ISR changes after a move of all partitions with those on a fresh cluster."""
    if in_process:
        found = ratio_of_images(partitions)
    else:
        try:
            machine.check()
            check_patching()
            with workplace(folder) as (place, runner):
                found = runner.run(ratio_of_controllers(place, partitions))
        except* RunFailed as failures:
            raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(f"ISR change after {partitions:,} moved partitions: {found:.3f} x (must {MUST} x)")


if __name__ == "__main__":
    main()
