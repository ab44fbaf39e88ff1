"""Calls of brokers and clients: values that go through the same network as those of the quorum.

A call ends once: with its answer, or with None when nobody listens there or time is up. What comes
later means nothing to who asked; who was asked may have done it all the same. As on a connection,
a call comes once; one that is said to come `twice` may, and the second time seconds later.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

from chaos.simulation.environment import Environment
from quorum.core.vocabulary import ReplicaId

Respond: TypeAlias = Callable[[Any], None]


class Server(Protocol):
    """A process that can be called."""

    @property
    def id(self) -> ReplicaId:
        """The id that the network knows it by."""
        ...

    def enter(self, happen: Callable[[], None]) -> None:
        """Run this inside the process, if it still lives."""
        ...

    def admit(self, asked: Callable[[], None]) -> None:
        """Serve a call now, or hold it until the process is ready."""
        ...


Serve: TypeAlias = Callable[[Server, Respond], None]


class Caller(Protocol):
    """Somebody who asks."""

    @property
    def id(self) -> ReplicaId:
        """By which the network knows it."""
        ...

    def enter(self, happen: Callable[[], None]) -> None:
        """Let something happen there, if it still lives."""
        ...

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """The same, some time from now."""
        ...


class _Call:
    """One call, until it has ended."""

    __slots__ = ("caller", "done", "has_arrived", "is_over")

    def __init__(self, caller: Caller, done: Respond) -> None:
        self.caller = caller
        self.done = done
        self.has_arrived = False
        self.is_over = False

    def end(self, answer: Any) -> None:
        """It is answered, or will not be; of no meaning once it is over."""
        if not self.is_over:
            self.is_over = True
            self.done(answer)


class Rpc:
    """Carries calls to whoever runs."""

    def __init__(self, world: Environment, server_at: Callable[[ReplicaId], Server | None]) -> None:
        self._world = world
        self._server_at = server_at

    def ask(
        self,
        caller: Caller,
        to: ReplicaId,
        serve: Serve,
        done: Respond,
        *,
        timeout_ms: int,
        twice: bool = False,
        held_ms: int = 0,
    ) -> None:
        """Let `serve` happen at `to`, and then `done` with what it responds.

        What is held back so long is on its way all the same, whatever becomes of who asked.
        """
        call = _Call(caller, done)
        caller.later(timeout_ms, partial(call.end, None))
        arrive = partial(self._arrive, call, to, serve, twice)
        carry = partial(self._world.network.carry, (caller.id, to), arrive, is_request=True)
        if held_ms:
            self._world.timeline.after(held_ms, carry)
        else:
            carry()

    def _arrive(self, call: _Call, to: ReplicaId, serve: Serve, twice: bool) -> None:
        if call.has_arrived and not twice:
            return
        if call.has_arrived:
            self._world.note("a call comes twice")
        call.has_arrived = True
        process = self._server_at(to)
        if process is not None:
            asked = partial(serve, process, partial(self._respond, call, to))
            process.enter(partial(process.admit, asked))
        elif to not in self._world.network.dark:
            call.caller.enter(partial(call.end, None))

    def _respond(self, call: _Call, at: ReplicaId, answer: Any) -> None:
        arrive = partial(call.caller.enter, partial(call.end, answer))
        self._world.network.carry((at, call.caller.id), arrive, is_request=False)
