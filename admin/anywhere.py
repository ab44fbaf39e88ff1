"""The service of a controller, asked on any node: here if it is active, else at the one that is.

For doors that hold no bytes which could be passed on as they came (HTTP). It waits through a
short election, and gives up with `NoActiveController` when the time is up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from admin import new_moves, plan_sizes, reassignment_questions
from admin.capabilities.plans import BytesMoved, PlanResult
from admin.capabilities.schema import Context, Request, with_key
from admin.capabilities.server import carry_out
from admin.client.admin_client import AdminClient, AdminError
from admin.client.asking import Question
from admin.client.log_sizes import copies_of
from admin.faults import Refused, Unreachable
from admin.model import (
    Assignment,
    PartitionResult,
    Reassignment,
    Reassignments,
)
from admin.new_moves import BegunMove, NewMove
from controller import reassignments
from controller.apis.forwarder import leaderless
from controller.service import NotActive, Service
from statemachine.errors import Refusal

WAIT_SECONDS_MAX: Final = 10.0
"""How long a request waits for an active controller, at most."""

FAREWELL_SECONDS_MAX: Final = 2.0
"""How long one who was asked to give up the lead may take, once it has, to say who has it."""

_POLL_SECONDS: Final = 0.05

T = TypeVar("T")


class NoActiveController(Exception):
    """Nobody could answer in time; `leader_id` is who was last known to lead."""

    def __init__(self, reason: str, leader_id: int | None) -> None:
        super().__init__(reason)
        self.leader_id = leader_id


class _NoLeader(Exception):
    """This node knows of nobody to ask."""


class OutcomeUnknown(Exception):
    """The leader was lost while the request was under way: it may have been carried out."""


class Anywhere:
    """The capabilities of the cluster, as one node offers them.

    Every method raises `Refused` when the active controller says no, `NoActiveController` when
    there was none within `wait_seconds`, and `OutcomeUnknown`.
    """

    def __init__(self, service: Service, *, wait_seconds: float = WAIT_SECONDS_MAX) -> None:
        self._service = service
        self._wait_seconds = wait_seconds

    async def list_reassignments(
        self, wanted: Mapping[str, Sequence[int]] | None, *, stale: bool = False
    ) -> Reassignments:
        """The partitions under way; as this node has heard of them, if it may be `stale`."""

        async def here() -> Reassignments:
            found = await reassignments.list_reassignments(self._service, wanted, stale=stale)
            moves = [Reassignment(**asdict(each)) for each in found.value]
            return Reassignments(moves=moves, as_of=found.offset)

        return await self._read(here, lambda client: client.reassignments(wanted), stale=stale)

    async def ask(self, request: Request[T], who: str, *, stale: bool = False) -> T:
        """The answer of the active controller, or of this node if it may be `stale`."""
        request, stale = with_key(request), stale or request.LOCAL
        timeout_ms = round(self._wait_seconds * 1_000)
        context = Context(service=self._service, who=who, stale=stale, timeout_ms=timeout_ms)
        if stale:
            return await self._read(
                lambda: carry_out(request, context), lambda client: client.ask(request), stale=True
            )
        return await self._ask(
            lambda: carry_out(request, context),
            lambda client: client.ask(request),
            changes=not request.only_reads(),
            has_key=bool(getattr(request, "key", "")),
            patience=FAREWELL_SECONDS_MAX if request.SLOW else 0,
            asks_who_leads=request.ASKS_WHO_LEADS,
        )

    async def begin_move(self, who: str, asked: NewMove) -> BegunMove:
        """Begin a move, redirect and cancel what is under way; one result for each partition."""
        asked = new_moves.with_key(asked)

        async def here() -> BegunMove:
            command = new_moves.command_of(asked, who)
            if isinstance(command, Refusal):
                raise _as_refused(reassignment_questions.begin_move(asked), command)
            answer = await reassignments.alter_reassignments(self._service, who, command, asked.key)
            return new_moves.told(answer)

        return await self._ask(
            here, lambda client: client.begin_move(asked), changes=True, has_key=True
        )

    async def bytes_of_plan(self, found: PlanResult) -> BytesMoved:
        """What the plan would copy, as the brokers that are alive say it."""
        return await plan_sizes.bytes_moved(self._service, copies_of(found))

    async def bytes_of_move(
        self, assignments: Sequence[Assignment], refused: Sequence[PartitionResult]
    ) -> BytesMoved:
        """What a move of all but those refused would copy, as the brokers that are alive say it."""
        copies = await plan_sizes.copies_of(self._service, assignments, refused)
        return await plan_sizes.bytes_moved(self._service, copies)

    async def _read(
        self,
        here: Callable[[], Awaitable[T]],
        there: Callable[[AdminClient], Coroutine[Any, Any, T]],
        *,
        stale: bool,
    ) -> T:
        """What is read of the active controller, or, if it may be `stale`, of this node."""
        if not stale:
            return await self._ask(here, there)
        try:
            return await here()
        except NotActive as error:
            raise NoActiveController(str(error), error.leader_id) from error

    async def _ask(
        self,
        here: Callable[[], Awaitable[T]],
        there: Callable[[AdminClient], Coroutine[Any, Any, T]],
        *,
        changes: bool = False,
        patience: float = 0,
        asks_who_leads: bool = False,
        has_key: bool = False,
    ) -> T:
        """`changes` unless it only asks; `has_key` if it may be asked again all the same.

        `patience` is how many seconds one who leads no more may still take for its answer;
        `asks_who_leads` if that nobody does is an answer.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_seconds
        may_be_done = False
        while True:
            leader = self._service.quorum.leader
            is_for_long = False
            try:
                return await self._ask_once(leader, here, there, deadline - loop.time(), patience)
            except NotActive as error:
                if error.reason.may_be_done and not has_key:
                    raise OutcomeUnknown(str(error)) from error
                may_be_done |= error.reason.may_be_done
                reason = str(error)
            except Refused:
                raise
            except _NoLeader:
                reason, is_for_long = leaderless(
                    self._service.quorum, asks_who_leads=asks_who_leads
                )
            except AdminError as error:
                may_be_done |= changes and isinstance(error, Unreachable) and error.may_be_done
                reason = str(error)
            if is_for_long or loop.time() >= deadline:
                if may_be_done:
                    raise OutcomeUnknown(f"{reason}; an attempt before may have done it")
                raise NoActiveController(reason, leader)
            await self._service.quorum.leader_changed(within_seconds=_POLL_SECONDS)

    async def _ask_once(
        self,
        leader: int | None,
        here: Callable[[], Awaitable[T]],
        there: Callable[[AdminClient], Coroutine[Any, Any, T]],
        seconds: float,
        patience: float,
    ) -> T:
        """The answer, or `NotActive`, `_NoLeader` or `AdminError` with why there is none now."""
        if self._service.controller.is_active:
            return await here()
        if leader is None:
            raise _NoLeader
        if leader == self._service.quorum.node.me.id:
            progress = self._service.controller.progress
            raise AdminError(f"node {leader} is about to be active{progress}")
        return await self._ask_leader(leader, there, seconds, patience)

    async def _ask_leader(
        self,
        leader: int,
        there: Callable[[AdminClient], Coroutine[Any, Any, T]],
        seconds: float,
        patience: float,
    ) -> T:
        """What the leader answers; raises `AdminError`, also when it has led no more for a time."""
        address = self._service.address_of(leader)
        if address is None:
            raise AdminError(f"node {leader} leads, and where it listens is not known yet")
        timeout_ms = max(1, round(seconds * 1_000))
        async with AdminClient([address], is_controller=True, timeout_ms=timeout_ms) as client:
            asking = asyncio.get_running_loop().create_task(there(client))
            try:
                while self._service.quorum.leader == leader or patience > 0:
                    done, _ = await asyncio.wait({asking}, timeout=_POLL_SECONDS)
                    if done:
                        return asking.result()
                    if self._service.quorum.leader != leader:
                        patience -= _POLL_SECONDS
                raise Unreachable(f"node {leader} led, and does no more", may_be_done=True)
            finally:
                asking.cancel()
                await asyncio.wait({asking})


def _as_refused(question: Question, refusal: Refusal) -> Refused:
    """As a client would have been told it."""
    return Refused(question.failing, refusal.error.code, refusal.message)
