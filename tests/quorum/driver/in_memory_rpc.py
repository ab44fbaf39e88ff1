"""The network between the replicas of one event loop: a `ports.Rpc` that a test can hold and cut.

Messages go as values; records go as bytes beside them and are outlined on arrival, as the real
calls do it. What is cut off gets no answer, at once, like a connection that is refused.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from quorum.core.events import Asker
from quorum.core.messages import FetchResponse, Request, Response
from quorum.core.vocabulary import ReplicaId
from quorum.driver import Quorum
from quorum.ports import Done
from quorum.records.batch import outlines
from tests.support.bell import Bell

OUTSIDE: Final = ReplicaId(99)
"""The sender of requests by a test."""

T = TypeVar("T")


@dataclass(eq=False)
class Letter:
    """A request under way, and, once there is one, its answer."""

    sender: ReplicaId
    to: ReplicaId
    request: Request
    done: Done
    response: Response | None = None
    records: bytes = field(default=b"", repr=False)
    is_done: bool = False
    """True if its sender has got its result."""


Wanted = Callable[[Letter], bool]


class Wires:
    """Carries what the replicas say to each other; keeps a list of all that was sent."""

    def __init__(self, bell: Bell) -> None:
        self.bell = bell
        self.sent: list[Letter] = []
        self.held: list[Letter] = []
        """Requests and answers that do not arrive until they are released."""
        self.holds: Wanted = lambda _: False
        """The messages to hold back: checked on the way there, and again on the way back."""
        self._quorums: dict[ReplicaId, Quorum] = {}
        self._apart: set[frozenset[ReplicaId]] = set()
        self._asked: dict[Asker, Letter] = {}
        self._last_asker = 0

    def rpc_of(self, me: ReplicaId) -> "Rpc":
        """The end of the wires at one replica."""
        return Rpc(self, me)

    def join(self, me: ReplicaId, quorum: Quorum) -> None:
        """The replica can be reached from here on."""
        self._quorums[me] = quorum

    def leave(self, me: ReplicaId) -> None:
        """The replica is gone: what it was asked stays unanswered, what it asked is of no use."""
        self._quorums.pop(me, None)
        for asker, letter in list(self._asked.items()):
            if letter.to == me:
                del self._asked[asker]
                self._later(self._return, letter, None)

    def cut_off(self, *who: int) -> None:
        """These replicas reach each other, but none of the others, until `mend`."""
        inside = {ReplicaId(each) for each in who}
        everyone = self._quorums.keys() | {ReplicaId(n) for n in (1, 2, 3)}
        self._apart = {frozenset((a, b)) for a in inside for b in everyone - inside}

    def mend(self) -> None:
        """Everyone reaches everyone again."""
        self._apart = set()

    def release(self) -> None:
        """Let go of everything that is held, and hold nothing more."""
        self.holds = lambda _: False
        held, self.held = self.held, []
        for letter in held:
            if letter.response is None:
                self._later(self._deliver, letter)
            else:
                self._later(self._return, letter, letter.response)

    def sent_by(self, sender: int, kind: type[T]) -> list[T]:
        """The requests of one kind that a replica has sent so far."""
        return [
            letter.request
            for letter in self.sent
            if letter.sender == sender and isinstance(letter.request, kind)
        ]

    def ask(self, to: int, request: Request) -> "asyncio.Future[Response]":
        """Ask a replica from outside; the answer, once there is one."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def done(response: Response | None, _records: bytes) -> None:
            assert response is not None, f"{to} did not answer {request}"
            answer.set_result(response)

        self.carry(Letter(OUTSIDE, ReplicaId(to), request, done))
        return answer

    def carry(self, letter: Letter) -> None:
        """Put a request on its way."""
        self.sent.append(letter)
        self._later(self._deliver, letter)
        self.bell.ring()

    def answered(self, asker: Asker, response: Response, records: bytes) -> None:
        """Put an answer on its way back."""
        letter = self._asked.pop(asker, None)
        if letter is None:
            return  # Its asker is gone.
        letter.response, letter.records = response, records
        self._later(self._bring_back, letter, response)

    def _later(self, callback: Callable[..., None], *arguments: object) -> None:
        asyncio.get_running_loop().call_soon(callback, *arguments)

    def _deliver(self, letter: Letter) -> None:
        quorum = self._quorums.get(letter.to)
        if quorum is None or frozenset((letter.sender, letter.to)) in self._apart:
            self._return(letter, None)
            return
        if self._is_held(letter):
            return
        self._last_asker += 1
        asker = Asker(self._last_asker)
        self._asked[asker] = letter
        quorum.replica.asked(asker, letter.request)
        self.bell.ring()

    def _bring_back(self, letter: Letter, response: Response) -> None:
        if frozenset((letter.sender, letter.to)) in self._apart:
            self._return(letter, None)
        elif not self._is_held(letter):
            self._return(letter, response)

    def _return(self, letter: Letter, response: Response | None) -> None:
        if letter.sender != OUTSIDE and letter.sender not in self._quorums:
            return
        if isinstance(response, FetchResponse):
            response = replace(response, batches=tuple(outlines(letter.records)))
        letter.is_done = True
        letter.done(response, letter.records if response is not None else b"")
        self.bell.ring()

    def _is_held(self, letter: Letter) -> bool:
        if not self.holds(letter):
            return False
        self.held.append(letter)
        self.bell.ring()
        return True


class Rpc:
    """See the contract of `quorum.ports.Rpc`."""

    def __init__(self, wires: Wires, me: ReplicaId) -> None:
        self._wires = wires
        self._me = me

    def send(self, to: ReplicaId, request: Request, done: Done) -> None:
        self._wires.carry(Letter(self._me, to, request, done))

    def answer(self, asker: Asker, response: Response, records: bytes) -> None:
        self._wires.answered(asker, response, records)

    def close(self) -> None:
        self._wires.leave(self._me)
