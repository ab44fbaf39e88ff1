"""Calls of brokers and clients, as values over the simulated network.

A call ends once: with its answer, or with None if no process runs there or on a timeout. Later
answers are dropped, though the server may have carried out the request. A call arrives once; a call
with `twice` may arrive again, seconds later.
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
        """Run this inside the process, if it is still alive."""
        ...

    def admit(self, serve: Callable[[], None]) -> None:
        """Serve a call now, or hold it until the process is ready."""
        ...


Serve: TypeAlias = Callable[[Server, Respond], None]


class Caller(Protocol):
    """A process or client that calls."""

    @property
    def id(self) -> ReplicaId:
        """The id that the network knows it by."""
        ...

    def enter(self, happen: Callable[[], None]) -> None:
        """Run this inside the caller, if it still lives."""
        ...

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """Run this inside the caller after a delay, if it still lives."""
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
        """End the call; ignored once it has ended."""
        if not self.is_over:
            self.is_over = True
            self.done(answer)


class Rpc:
    """The carrier of calls to running processes."""

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
        """Run `serve` at `to`, then `done` with its response.

        A call that is held for `held_ms` still arrives if the caller ends meanwhile.
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
            call_here = partial(serve, process, partial(self._respond, call, to))
            process.enter(partial(process.admit, call_here))
        elif to not in self._world.network.dark:
            call.caller.enter(partial(call.end, None))

    def _respond(self, call: _Call, at: ReplicaId, answer: Any) -> None:
        arrive = partial(call.caller.enter, partial(call.end, answer))
        self._world.network.carry((at, call.caller.id), arrive, is_request=False)
