"""One request of a client: asked of one controller after the other until one of them answers.

Several attempts may be under way at once. Nothing has come of it for certain only if every one of
them was answered so; one that is still waited for may have been done, and its answer lost.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from chaos.cluster import requests
from chaos.cluster.requests import Request
from controller.ports import Unavailable
from quorum.core.vocabulary import ReplicaId

if TYPE_CHECKING:
    from chaos.cluster.clients import Client

TIMEOUT_MS: Final = 3_000
TRIES_MAX: Final = 12
PAUSE_MS: Final = (20, 200)
"""Before another controller is asked."""


class Asking:
    """One request of one client, until it is answered or given up."""

    def __init__(self, client: "Client", request: Request, done: Callable[[Any], None]) -> None:
        self._client = client
        self._request = request
        self._done = done
        self._tries = 0
        self._may_be_done = 0
        """How often it was asked where it is not known that nothing came of that."""
        self._is_over = False

    def go(self) -> None:
        """Ask somebody."""
        if self._is_over:
            return
        self._tries += 1
        self._may_be_done += 1
        client = self._client
        to = client.guess()
        answered = partial(self._answered, to)
        client.world.wire.ask(client, to, self._request.serve, answered, timeout_ms=TIMEOUT_MS)

    def _answered(self, to: ReplicaId, answer: Any) -> None:
        if isinstance(answer, Unavailable):
            requests.may_be_told(answer)
        elif answer is not None:
            self._end(answer)
            return
        is_open = answer is None or answer.may_be_done
        if is_open and not self._request.may_repeat:
            self._end(None)
            return
        self._may_be_done -= not is_open
        self._client.is_not_active(to)
        if self._tries >= TRIES_MAX:
            self._end(None if self._may_be_done else Unavailable.NOT_ACTIVE)
        else:
            self._client.later(self._client.rng.randrange(*PAUSE_MS), self.go)

    def _end(self, answer: Any) -> None:
        """The first answer counts; a second one, to the same key, must be the same."""
        if answer is not None and not isinstance(answer, Unavailable):
            key = self._request.idempotency_key
            if key:
                self._client.book.answers(key, requests.essence(answer))
        if not self._is_over:
            self._is_over = True
            self._done(answer)
