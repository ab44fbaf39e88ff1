"""Shrink and expand the ISRs of a thousand partitions, request after request.

kio encodes both requests once. From one request to the next only the partition epochs change. All
partitions are in one topic, so the epochs are at equal distances, and the client patches a thousand
of them at a time.
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


class IsrRequests:
    """Requests for one ISR size, for all partitions of a population with one leader and topic."""

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
        """Encode the request for partitions that all have this epoch."""
        for part, byte in zip(self._slices, epoch.to_bytes(_EPOCH_BYTES, "big"), strict=True):
            self._frame[part] = bytes((byte,)) * self.count
        return bytes(self._frame)

    def check(self, answer: bytes) -> None:
        """Raise `RunFailed` unless the response confirms the change.

        The first response is decoded. Later ones must have the same length: a different length
        means a different result for some partition.
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
    """Return the partition changes per second after a second of warm-up; all partitions are new."""
    full = len(population.held[0].replicas)
    requests = [IsrRequests(population, full - 1, epochs), IsrRequests(population, full, epochs)]
    async with connected(leader) as bulk:
        epoch = await _change(bulk, requests, 0, WARM_UP_SECONDS)
        begun, first = perf_counter(), epoch
        epoch = await _change(bulk, requests, epoch, seconds)
        rate = (epoch - first) * len(population.held) / (perf_counter() - begun)
        # It changes nothing. The leader refuses it unless its state matches the responses.
        requests[epoch % 2 - 1].check(await bulk.ask(requests[epoch % 2 - 1].frame(epoch)))
    return rate


async def _change(bulk: Bulk, requests: list[IsrRequests], epoch: int, seconds: float) -> int:
    """Change ISRs for this duration, and return the final epoch of the partitions."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        request = requests[epoch % 2]
        request.check(await bulk.ask(request.frame(epoch)))
        epoch += 1
    return epoch
