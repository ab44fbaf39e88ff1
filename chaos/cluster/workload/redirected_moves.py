"""Moves that get a new target when only some of their new replicas are in sync.

A client adds several replicas at once and watches the committed metadata. As soon as one of them is
in sync it asks for other replicas, without that one. The dropped replica stays in the ISR until the
end of the step, and must leave then (P14). One of the new replicas is cut off meanwhile, so that
they do not all arrive at once.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias

from chaos.cluster.environment import ClusterEnvironment
from chaos.cluster.invariants.model import Ids, Part, without
from quorum.core.vocabulary import ReplicaId
from statemachine.vocabulary import Replicas

Parts: TypeAlias = tuple[tuple[str, int, Replicas], ...]
"""The partitions of a move: topic, partition number and new replicas."""

LOOKS_EVERY_MS: Final = 3
WATCHES_MS_MAX: Final = 3_000
HELD_UP_MS: Final = 300
"""How long one new replica stays cut off after the redirect: it must not come into sync before the
request arrives."""
REDIRECTED: Final = "a move is redirected while some new replicas are in sync"


class Watcher(Protocol):
    """The client that watches its move."""

    @property
    def world(self) -> ClusterEnvironment:
        """The environment of the run."""
        ...

    @property
    def rng(self) -> random.Random:
        """Its randomness."""
        ...

    @property
    def is_done(self) -> bool:
        """True if it sends no more requests."""
        ...

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """Run this after a delay."""
        ...


class Redirect:
    """The watch over one partition; `then` gets the new replicas, or none if it gives up."""

    def __init__(
        self, client: Watcher, topic: str, number: int, then: Callable[[Replicas], None]
    ) -> None:
        self._client = client
        self._topic = topic
        self._number = number
        self._then = then
        self._left_ms = WATCHES_MS_MAX
        self._held_up: ReplicaId | None = None

    def watch(self) -> None:
        """Look now, and again until the redirect is due."""
        part, client = _part(self._client, self._topic, self._number), self._client
        if part is None or not part.moves or self._left_ms <= 0 or client.is_done:
            self._end(())
            return
        missing = without(part.adding, part.isr)
        arrived = without(part.adding, missing)
        if arrived and missing:
            self._end(self._elsewhere(part, arrived, missing))
            return
        if len(missing) > 1 and self._held_up is None and client.world.disturbed:
            self._held_up = ReplicaId(client.rng.choice(missing))
            client.world.network.clog(self._held_up)
        self._left_ms -= LOOKS_EVERY_MS
        client.later(LOOKS_EVERY_MS, self.watch)

    def _end(self, replicas: Replicas) -> None:
        if self._held_up is not None:
            self._client.later(HELD_UP_MS, partial(self._let_go, self._held_up))
        self._then(replicas)

    def _let_go(self, held_up: ReplicaId) -> None:
        self._client.world.network.unclog(held_up)

    def _elsewhere(self, part: Part, arrived: Ids, missing: Ids) -> Replicas:
        """A new target with one of the missing replicas and none that has arrived."""
        rng, settings = self._client.rng, self._client.world.settings
        first = rng.choice(missing)
        others = without(tuple(map(int, self._client.world.brokers)), (first, *arrived))
        if 1 + len(others) < settings.replicas_min:
            return ()
        most = min(1 + len(others), settings.factor)
        more = rng.sample(others, rng.randrange(settings.replicas_min, most + 1) - 1)
        found = tuple(rng.sample((first, *more), 1 + len(more)))
        return () if found == part.target else found


def newcomers(client: Watcher, topics: tuple[str, ...]) -> tuple[str, int, Replicas]:
    """A partition of one of these topics and at least two new replicas for it; no replicas if that
    is impossible, or if limits bring them in one by one."""
    settings = client.world.settings
    topic, number = client.rng.choice(topics), client.rng.randrange(settings.partitions)
    part, least = _part(client, topic, number), max(2, settings.replicas_min)
    if part is None or client.world.history.model.goes_in_steps:
        return topic, number, ()
    found = without(tuple(map(int, client.world.brokers)), part.replicas)
    if len(found) < least or settings.factor < least:
        return topic, number, ()
    return topic, number, tuple(client.rng.sample(found, min(len(found), settings.factor)))


def _part(client: Watcher, topic: str, number: int) -> Part | None:
    model = client.world.history.model
    named = (each for each, name in model.topics.items() if name == topic)
    return model.parts.get((next(named, ""), number))
