"""ISRs of a thousand partitions that shrink and grow, request after request.

Both requests are written once by kio. From one to the next only the partition epochs change: they
stand at equal distances, as the partitions are of one topic, so that their bytes are patched a
thousand at a time.
"""

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Final

from bench.bulk import Bulk, check, connected
from bench.faults import RunFailed
from bench.population import Held, Population, isr_request
from quorum.protocol.apis import ApiKey
from quorum.transport.address import Address

WARM_UP_SECONDS: Final = 1.0
_EPOCH_BYTES: Final = 4
_MARK: Final = 0x01_01_01_01


class Wishes:
    """One ISR for all partitions of a population, of one leader and in one topic."""

    def __init__(self, population: Population, isr_size: int, epochs: Mapping[int, int]) -> None:
        held = [replace(each, isr=each.replicas[:isr_size]) for each in population.held]
        self.count = len(held)
        self._frame = bytearray(self._framed(held, 0, epochs))
        marked = self._framed(held, _MARK, epochs)
        places = [at for at, byte in enumerate(marked) if byte != self._frame[at]]
        if len(places) != _EPOCH_BYTES * self.count:
            raise RunFailed("the partition epochs are not where the benchmark patches them")
        step = places[_EPOCH_BYTES] - places[0] if self.count > 1 else 1
        self._slices = [
            slice(first, first + step * (self.count - 1) + 1, step)
            for first in places[:_EPOCH_BYTES]
        ]
        self._answer_bytes: int | None = None

    def frame(self, epoch: int) -> bytes:
        """The request while all partitions have this epoch."""
        for part, byte in zip(self._slices, epoch.to_bytes(_EPOCH_BYTES, "big"), strict=True):
            self._frame[part] = bytes((byte,)) * self.count
        return bytes(self._frame)

    def check(self, answer: bytes) -> None:
        """Raise `RunFailed` unless it is that of a change.

        The first one is read; where one has another length, a partition has another answer.
        """
        if self._answer_bytes != len(answer):
            check(ApiKey.ALTER_PARTITION, [answer])
            if self._answer_bytes is not None:
                raise RunFailed(f"an answer has {len(answer)} bytes, not {self._answer_bytes}")
            self._answer_bytes = len(answer)

    @staticmethod
    def _framed(held: list[Held], epoch: int, epochs: Mapping[int, int]) -> bytes:
        changed = [replace(each, partition_epoch=epoch) for each in held]
        return isr_request(held[0].replicas[0], changed, epochs)


async def changes_each_second(
    leader: Address, population: Population, epochs: Mapping[int, int], seconds: float
) -> float:
    """Changes of partitions in a second, after a second of warm-up; all partitions are new."""
    full = len(population.held[0].replicas)
    wishes = [Wishes(population, full - 1, epochs), Wishes(population, full, epochs)]
    async with connected(leader) as bulk:
        epoch = await _change(bulk, wishes, 0, WARM_UP_SECONDS)
        begun, first = perf_counter(), epoch
        epoch = await _change(bulk, wishes, epoch, seconds)
        rate = (epoch - first) * len(population.held) / (perf_counter() - begun)
        # It is as it was answered, or this would be refused; and it changes nothing.
        wishes[epoch % 2 - 1].check(await bulk.ask(wishes[epoch % 2 - 1].frame(epoch)))
    return rate


async def _change(bulk: Bulk, wishes: list[Wishes], epoch: int, seconds: float) -> int:
    """Change ISRs for so long, and return the epoch that the partitions then have."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        wish = wishes[epoch % 2]
        wish.check(await bulk.ask(wish.frame(epoch)))
        epoch += 1
    return epoch
