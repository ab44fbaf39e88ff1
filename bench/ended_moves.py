"""The cost of one ISR change after many moves have ended, as a ratio to a fresh cluster.

One controller's share of it, in this process: decide, encode, replay, commit. Both images live side
by side and take turns, so that the machine is the same for both. `python -m bench.ended_moves`.
"""

from statistics import median
from time import process_time
from typing import Final

import click

from bench.growth import LEVEL, Moved
from statemachine import commands
from statemachine.decide import decide_at_once
from statemachine.records.codec import encode
from statemachine.replay import replay_decided

PARTITIONS: Final = 100_000
CHANGES: Final = 5_000
ROUNDS: Final = 9
MUST: Final = 1.05


class IsrChanges:
    """Single ISR changes on an image: each partition shrinks by one replica and grows again."""

    def __init__(self, moved: Moved) -> None:
        self._image, self._scheduler = moved.image, moved.scheduler
        (self._topic,) = self._image.topics.values()
        self._image.begin_undo_log(self._image.end_offset)
        self._next = 0

    def change(self, count: int) -> float:
        """Change so many; microseconds of processor time for each."""
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
        decision = decide_at_once(image, command, self._scheduler)
        assert decision is not None, f"{command} is not decided at once"
        for record in decision.records:
            encode(record, LEVEL)
        replay_decided(image, decision.records, image.end_offset, decision.decided)
        image.committed(image.end_offset)

    def _command(self, number: int) -> commands.AlterPartition:
        partition = self._topic.partition(number)
        assert partition is not None
        is_whole = len(partition.isr) == len(partition.replicas)
        isr = tuple(
            commands.IsrMember(each, self._image.brokers[each].epoch)
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
        epoch = self._image.brokers[partition.leader].epoch
        return commands.AlterPartition(
            broker_id=partition.leader, broker_epoch=epoch, proposals=(proposal,)
        )


def ratio(partitions: int) -> float:
    """The median cost after a move of all partitions, divided by that without one."""
    moved = Moved(partitions)
    moved.move()
    before, after = IsrChanges(Moved(partitions)), IsrChanges(moved)
    ratios = []
    for _ in range(ROUNDS):
        fresh = before.change(CHANGES)
        ratios.append(after.change(CHANGES) / fresh)
    return median(ratios)


@click.command()
@click.option("--partitions", default=PARTITIONS, show_default=True, help="Partitions to move.")
def main(partitions: int) -> None:
    """Compare ISR changes after a move of all partitions with those on a fresh cluster."""
    found = ratio(partitions)
    click.echo(f"ISR change after {partitions:,} moved partitions: {found:.3f} x (must {MUST} x)")


if __name__ == "__main__":
    main()
