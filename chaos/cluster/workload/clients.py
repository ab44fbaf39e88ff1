"""Clients of the controllers: each sends requests one after the other and records the answers.

A client has to find the active controller. It repeats a request that was certainly not carried out;
one that may have been only if it is a read or has an idempotency key. It hedges some requests.
"""

import random
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final
from uuid import UUID

from chaos.cluster.environment import ClusterEnvironment
from chaos.cluster.process import ControllerProcess
from chaos.cluster.profile import KEPT, MOVED
from chaos.cluster.rpc import Respond, Server
from chaos.cluster.workload import redirected_moves, requests
from chaos.cluster.workload.requests import Request
from chaos.linearizability import models
from chaos.violation import Violation
from controller.ports import Unavailable
from quorum.core.vocabulary import ReplicaId
from statemachine.image.image import Image
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE, Replicas

PASSING: Final = ("one", "two")
"""Topics that come and go."""
NOTED: Final = "retention.ms"
LIMITS: Final = (
    "reassignment.parallel.replica.count",
    "reassignment.parallel.partition.count",
    "reassignment.parallel.leader.movements",
    "reassignment.max.concurrent.replica.movements",
)
RATES: Final = (0, 0, 2_000, 20_000)
"""Throttles of moves in bytes per second; 0 is no throttle."""
CANCEL_AFTER_MS_MAX: Final = (20, 200, 2_000)
"""The longest time until a request is cancelled, often in the middle of a step."""
PAUSE_AFTER_MS_MAX: Final = 10
"""The longest time until a move is paused: its partitions hold little."""
HEDGE_MS: Final = 300
"""The time until a hedged request is sent again."""


class Client:
    """One client; the network knows it by its id."""

    def __init__(self, world: ClusterEnvironment, number: int, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.client_history = world.client_history
        self._id = ReplicaId(1_000 + number)
        self._active: ReplicaId | None = None
        self._count = 0
        self._seen: dict[int, int] = {}
        self._looks = False
        self._began: int | None = None
        self._numbers: tuple[int, ...] = ()
        self._redirects = False
        self.waits = 0
        """The number of requests under way."""
        self.is_done = False
        """True if it sends no more requests."""

    @property
    def id(self) -> ReplicaId:
        """See `chaos.cluster.rpc.Caller`."""
        return self._id

    def enter(self, happen: Callable[[], None]) -> None:
        """See `chaos.cluster.rpc.Caller`."""
        happen()

    def later(self, delay_ms: int, happen: Callable[[], None]) -> None:
        """See `chaos.cluster.rpc.Caller`."""
        self.world.timeline.after(delay_ms, happen)

    def guess(self) -> ReplicaId:
        """The controller that it believes to be active."""
        if self._active is None:
            self._active = self.rng.choice(self.world.voters)
        return self._active

    def is_not_active(self, controller: ReplicaId) -> None:
        """Note that this controller does not answer, or is not active."""
        if self._active == controller:
            self._active = None

    def begin(self) -> None:
        """Send one request after the other from now on."""
        self.later(self.rng.randrange(1, self.world.settings.pause_ms_max), self._go_on)

    def ask(self, request: Request, then: Callable[[Hashable], None]) -> None:
        """Send a request, record its outcome, and pass the answer, or None, to `then`."""
        noted = (
            None
            if request.key is None
            else self.client_history.calls(request.key, request.operation)
        )
        self.waits += 1

        def done(answer: Any) -> None:
            self.waits -= 1
            result: Hashable = None
            if answer is None:
                self.world.note("a client gets no answer")
            elif isinstance(answer, Unavailable):
                self.world.note("a client finds no active controller")
                if noted is not None:
                    self.client_history.forgets(noted)
            else:
                result = request.understood(answer)
                self.world.note("a client is answered")
                self.world.tell(self._id, f"{request.operation}: {result}")
                if noted is not None:
                    self.client_history.returns(noted, result)
            then(result)

        pending = PendingRequest(self, request, done)
        pending.go()
        if request.may_repeat and self.rng.randrange(4) == 0:
            self.later(HEDGE_MS, pending.go)

    # --- the requests ------------------------------------------------------------------------

    def _go_on(self, _: Hashable = None) -> None:
        if self.is_done:
            return
        if self.world.holds_still:
            self._pause(None)
            return
        if self.rng.randrange(6) == 0:
            self._read_stale()
        request = self._random_request()
        self.ask(request, partial(self._go_on_from, request))

    def _go_on_from(self, request: Request, result: Hashable) -> None:
        """Cancel, redirect or pause some of the moves that have just begun, often in mid-step."""
        began, self._began = self._began, None
        if isinstance(result, models.Accepted) and request.key is not None:
            topic, number = KEPT, int(request.key[2])
            back = partial(self._cancellation, number)
        elif began is not None:
            topic, number = MOVED, self.rng.choice(self._numbers)
            back = partial(self._cancel_move, began)
        else:
            self._pause(result)
            return
        watches, self._redirects = self._redirects, False
        match self.rng.randrange(4):
            case _ if watches:
                then = partial(self._redirect, topic, number)
                redirected_moves.Redirect(self, topic, number, then).watch()
            case 0 if began is not None:
                wait_ms = self.rng.randrange(1, PAUSE_AFTER_MS_MAX)
                self.later(wait_ms, partial(self._ask_unless_done, partial(self._paused, began)))
            case 0 | 1:
                self._pause(result)
            case _:
                wait_ms = self.rng.randrange(1, self.rng.choice(CANCEL_AFTER_MS_MAX))
                self.later(wait_ms, partial(self._ask_unless_done, back))

    def _redirect(self, topic: str, number: int, replicas: Replicas) -> None:
        if not replicas or self.is_done or self.world.holds_still:
            self._pause(None)
            return
        self.world.note(redirected_moves.REDIRECTED)
        request = self._change(topic, number, replicas)
        self.ask(request, partial(self._go_on_from, request))

    def _ask_unless_done(self, back: Callable[[], Request]) -> None:
        if self.is_done or self.world.holds_still:
            self._pause(None)
        else:
            self.ask(back(), self._pause)

    def _pause(self, _: Hashable) -> None:
        self.later(self.rng.randrange(1, self.world.settings.pause_ms_max), self._go_on)

    def _random_request(self) -> Request:
        kind = self.rng.choices(
            (
                self._partition_request,
                self._topic_request,
                self._config_request,
                self._move_request,
                self._cluster_request,
                self._request_to_redirect,
            ),
            (6, 2, 2, 5, 2, 3),
        )[0]
        return kind()

    def _key(self) -> str:
        self._count += 1
        return f"{self._id}/{self._count}"

    def _replicas(self) -> Replicas:
        """Replicas that exist; now and then one that does not."""
        brokers = list(map(int, self.world.brokers))
        settings = self.world.settings
        least = settings.replicas_min
        factor = min(len(brokers), self.rng.randrange(least, settings.factor + 1))
        found = tuple(self.rng.sample(brokers, factor))
        return (*found, 999) if self.rng.randrange(40) == 0 else found

    def _partition_request(self) -> Request:
        number = self.rng.randrange(self.world.settings.partitions)
        chance = self.rng.random()
        if chance < 0.4:
            return requests.list_partition(KEPT, number)
        key = self._key() if self.rng.randrange(2) else ""
        if chance < 0.6:
            return self._cancellation(number, key)
        return self._reassignment(number, self._replicas(), key, self.rng.choice(RATES))

    def _reassignment(self, number: int, replicas: Replicas, key: str, rate: int) -> Request:
        self.world.history.model.ask(KEPT, number, replicas)
        return requests.reassign(KEPT, number, replicas, who=str(self._id), key=key, rate=rate)

    def _cancellation(self, number: int, key: str = "") -> Request:
        self.world.history.model.ask_cancel(KEPT, number)
        return requests.reassign(KEPT, number, None, who=str(self._id), key=key)

    def _request_to_redirect(self) -> Request:
        """Add several replicas at once, to be redirected before all have arrived."""
        topic, number, replicas = redirected_moves.newcomers(self, (KEPT, MOVED))
        if not replicas:
            return self._partition_request()
        self._redirects = True
        return self._change(topic, number, replicas)

    def _change(self, topic: str, number: int, replicas: Replicas) -> Request:
        if topic == MOVED:
            return self._begin_move(((MOVED, number, replicas),), 0)
        return self._reassignment(number, replicas, self._key(), 0)

    def _topic_request(self) -> Request:
        name = self.rng.choice(PASSING)
        match self.rng.randrange(4):
            case 0:
                return requests.delete(name)
            case 1:
                return requests.describe(name)
            case _:
                topic_id = UUID(int=self.rng.getrandbits(128), version=4)
                least = self.world.settings.replicas_min
                return requests.create(name, topic_id, partitions=2, factor=least)

    def _config_request(self) -> Request:
        if self.rng.randrange(2):
            return requests.config_of(KEPT, NOTED)
        value = self.rng.choice((None, *(str(1_000 * each) for each in range(1, 5))))
        return requests.configure(TOPIC_RESOURCE, KEPT, NOTED, value)

    def _move_request(self) -> Request:
        moves = self.world.moves
        kind = self.rng.randrange(8) if moves else 0
        if kind < 2:
            return self._begin_move(self._random_targets(), self.rng.choice(RATES))
        move_id, who = self.rng.choice(moves), str(self._id)
        match kind:
            case 2 | 3:
                return self._paused(move_id)
            case 4 | 5:
                return requests.resume(move_id, who=who, key=self._key())
            case 6 if self.rng.randrange(2):
                return self._cancel_move(move_id)
            case 6 if self.rng.randrange(2):
                return requests.set_priority(move_id, self.rng.randrange(-2, 3), key=self._key())
            case 6:
                return requests.throttle(move_id, self.rng.choice(RATES), key=self._key())
            case _ if self.rng.randrange(2):
                return requests.bytes_left(self.rng.choice(self.world.history.keys.moves))
            case _:
                return requests.describe_move(move_id)

    def _random_targets(self) -> redirected_moves.Parts:
        count = self.world.settings.partitions
        numbers = self.rng.sample(range(count), self.rng.randrange(1, count + 1))
        return tuple((MOVED, number, self._replicas()) for number in numbers)

    def _begin_move(self, parts: redirected_moves.Parts, rate: int) -> Request:
        self._numbers = tuple(number for _, number, _ in parts)
        for topic, number, replicas in parts:
            self.world.history.model.ask(topic, number, replicas)
        return requests.begin(parts, self._begins, who=str(self._id), key=self._key(), rate=rate)

    def _begins(self, move_id: int) -> None:
        self.world.moves.append(move_id)
        self._began = move_id

    def _paused(self, move_id: int) -> Request:
        after_step = self.rng.randrange(4) == 0
        who = str(self._id)
        return requests.pause(move_id, who=who, key=self._key(), after_step=after_step)

    def _cancel_move(self, move_id: int) -> Request:
        for number in range(self.world.settings.partitions):
            self.world.history.model.ask_cancel(MOVED, number)
        return requests.cancel_move(move_id, key=self._key())

    def _cluster_request(self) -> Request:
        """Change the limits of moves, or the configuration of the partitions that move."""
        factor = self.world.settings.factor
        name, values = self.rng.choice(
            (
                ("min.insync.replicas", [str(each) for each in range(1, factor + 1)]),
                ("unclean.leader.election.enable", ["true", "false"]),
                ("reassignment.completion.rule", ["min-isr", "all-target"]),
                *((limit, ["1", "2", "3"]) for limit in LIMITS),
            )
        )
        value = self.rng.choice([None, *values])
        if name.startswith("reassignment"):
            request = requests.configure(BROKER_RESOURCE, "", name, value)
        else:
            request = requests.configure(TOPIC_RESOURCE, MOVED, name, value)
        return request._replace(key=None)

    # --- reads that may be old ---------------------------------------------------------------

    def _read_stale(self) -> None:
        """L6: a stale read shows the log at the offset that it names, and one process never goes
        back."""
        if self._looks:
            return
        self._looks = True
        to = self.rng.choice(self.world.voters)
        self.world.rpc.ask(self, to, _stale_read, self._on_stale_read, timeout_ms=TIMEOUT_MS)

    def _on_stale_read(self, answer: Any) -> None:
        self._looks = False
        if answer is None or isinstance(answer, Unavailable):
            return
        boot, end, found = answer
        history = self.world.history
        self.world.note("a stale read is answered")
        if end < self._seen.get(boot, 0):
            raise Violation("L6", f"a process reads at {end}, but before at {self._seen[boot]}")
        self._seen[boot] = end
        if end > history.end:
            raise Violation("L6", f"a read is as of {end}, but the committed end is {history.end}")
        views = history.around(end)
        if all(found != view.topics for view in views):
            raise Violation("L6", f"the topics at {end} are {found}, not {views[-1].topics}")


def _stale_read(process: Server, respond: Respond) -> None:
    assert isinstance(process, ControllerProcess)

    def read(image: Image) -> tuple[int, int, dict[str, str]]:
        topics = {topic_id.hex: topic.name for topic_id, topic in image.topics.items()}
        return process.boot, image.end_offset, topics

    process.controller.query(read, respond, stale=True)


TIMEOUT_MS: Final = 3_000
TRIES_MAX: Final = 12
PAUSE_MS: Final = (20, 200)
"""The pause before the next attempt, at another controller."""


class PendingRequest:
    """One request of one client, until it is answered or given up."""

    def __init__(self, client: "Client", request: Request, done: Callable[[Any], None]) -> None:
        self._client = client
        self._request = request
        self._done = done
        self._tries = 0
        self._may_be_done = 0
        """The number of attempts that may have been carried out."""
        self._is_over = False

    def go(self) -> None:
        """Send the request to the believed active controller."""
        if self._is_over:
            return
        self._tries += 1
        self._may_be_done += 1
        client = self._client
        to = client.guess()
        answered = partial(self._answered, to)
        client.world.rpc.ask(client, to, self._request.serve, answered, timeout_ms=TIMEOUT_MS)

    def _answered(self, to: ReplicaId, answer: Any) -> None:
        if isinstance(answer, Unavailable):
            requests.require_not_too_large(answer)
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
        """Return the first answer; later answers to the same key must be equal."""
        if answer is not None and not isinstance(answer, Unavailable):
            key = self._request.idempotency_key
            if key:
                self._client.client_history.answers(key, requests.essence(answer))
        if not self._is_over:
            self._is_over = True
            self._done(answer)
