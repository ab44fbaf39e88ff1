"""The calls of one process: each ends once, with an answer or without.

They end as on the product's channels (`quorum.transport.channel`): at once if the other side closes
or refuses the connection, and after the request time-out if it is silent. A replica whose fetches
are closed or refused twice in a row takes the other process for gone.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from quorum.core.messages import FetchRequest, FetchSnapshotRequest, Request, VoteRequest
from quorum.core.vocabulary import ReplicaId
from quorum.ports import Done

GONE_AT: Final = 2


class _Call(NamedTuple):
    to: ReplicaId
    at: ReplicaId | None
    """The replica at the known address."""
    request: Request
    done: Done

    @property
    def fetches(self) -> bool:
        return isinstance(self.request, FetchRequest | FetchSnapshotRequest)


class Calls:
    """The outgoing calls of one process, and its reaction to connections that end."""

    def __init__(self, gone: Callable[[ReplicaId], None]) -> None:
        self._gone = gone
        self._under_way: dict[int, _Call] = {}
        self._votes: dict[int, Done] = {}
        """Answered vote requests: a duplicate response must reach the core, too."""
        self._closed_in_a_row: dict[ReplicaId, int] = {}
        self._last = 0

    def __bool__(self) -> bool:
        """True if any call is under way."""
        return bool(self._under_way)

    def begin(self, to: ReplicaId, at: ReplicaId | None, request: Request, done: Done) -> int:
        """Register a call; return its number."""
        self._last += 1
        self._under_way[self._last] = _Call(to, at, request, done)
        return self._last

    def answered(self, number: int) -> Done | None:
        """Return the callback for a response; None if the call is no longer pending."""
        call = self._under_way.pop(number, None)
        if call is None:
            return self._votes.get(number)
        if isinstance(call.request, VoteRequest):
            self._votes[number] = call.done
        if call.fetches:
            self._closed_in_a_row[call.to] = 0
        return call.done

    def give_up(self, number: int) -> None:
        """End a call by timeout; ignored once it has ended."""
        call = self._under_way.pop(number, None)
        if call is not None:
            call.done(None, b"")

    def refused(self, number: int) -> None:
        """End a call whose connection was refused."""
        call = self._under_way.get(number)
        self.give_up(number)
        if call is not None and call.fetches:
            self._closed(call.to)

    def closed(self, at: ReplicaId) -> tuple[ReplicaId, ...]:
        """End the calls to a process that has closed its connections; return the leaders of
        fetches."""
        ended = {number: call for number, call in self._under_way.items() if call.at == at}
        for number in ended:
            self.give_up(number)
        fetched = tuple({call.to: None for call in ended.values() if call.fetches})
        for to in fetched:
            self._closed(to)
        return fetched

    def is_under_way(self, number: int) -> bool:
        """True if something waits for this call."""
        return number in self._under_way

    def cut(self, number: int) -> tuple[ReplicaId, ...]:
        """The other side has closed the connection of this call; whom to connect to again.

        All that is under way there ends with it: fetches have a connection of their own.
        """
        struck = self._end_all_on_the_line_of(number)
        if struck is None or not struck.fetches:
            return ()
        self._closed(struck.to)
        return (struck.to,)

    def is_garbled(self, number: int) -> None:
        """End the calls on the line of this one: this side has closed it because of its bytes."""
        struck = self._end_all_on_the_line_of(number)
        if struck is not None and struck.fetches:
            self._closed_in_a_row[struck.to] = 0

    def is_useless(self, number: int) -> None:
        """End a call whose answer cannot be used."""
        call = self._under_way.get(number)
        if call is not None and call.fetches:
            self._closed_in_a_row[call.to] = 0
        self.give_up(number)

    def _end_all_on_the_line_of(self, number: int) -> _Call | None:
        struck = self._under_way.get(number)
        if struck is None:
            return None
        for each, call in tuple(self._under_way.items()):
            if (call.to, call.fetches) == (struck.to, struck.fetches):
                self.give_up(each)
        return struck

    def break_all(self) -> None:
        """End all calls without an answer."""
        for number in tuple(self._under_way):
            self.give_up(number)

    def not_reached(self, to: ReplicaId) -> None:
        """The attempt to connect again was refused."""
        self._closed(to)

    def _closed(self, to: ReplicaId) -> None:
        count = self._closed_in_a_row[to] = self._closed_in_a_row.get(to, 0) + 1
        if count >= GONE_AT:
            self._gone(to)
