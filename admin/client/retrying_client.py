"""Send a request to one node after the other until it is answered or the time is up.

Our nodes and all brokers forward a request to the active controller, so the client looks up no
leader; a controller of Kafka does not forward, and is asked who leads. The client tries the next
address during an election, or if a connection is lost or a node is down. The final error names the
nodes, their last answers and the leader, if any. It says that a change was made, or was not
made, only if that is certain.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from admin.client.channels import Channels, Fill, Form, NoResponse, Response
from admin.faults import Incompatible, NoLeader, Refused, Unreachable, explained
from admin.units import show_duration
from quorum.core.vocabulary import NO_REPLICA
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.extension import Extension
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

ATTEMPT_MS: Final = 2_000
"""The time-out of the first attempts; it doubles with each round through the addresses, so that
a silent node does not use up the time of the others, and a busy one gets enough. With one address
an attempt has three quarters of the time that is left, and at least this."""
ATTEMPT_MS_MIN: Final = 50
"""The time-out of a further attempt: in less, an answer may be missed, and then it is unknown
whether the change was made."""
LAST_WORD_MS: Final = 1_000
"""The time that is reserved, a fifth at most, to ask for the leader if no node has answered."""
LOOK_UP_MS: Final = 1_000
"""The time that a controller of Kafka has to name the leader."""
CONTROLLERS: Final = 2
"""The kind of nodes that DescribeCluster is asked for (KIP-919)."""
PAUSE_MS: Final = 25
PAUSE_MS_MAX: Final = 400

TRANSIENT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
    }
)
"""Errors during an election, or while a broker starts."""

ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER})
"""Errors of a controller of Kafka that does not lead."""


@dataclass(frozen=True, slots=True)
class KnownLeader:
    """The leader as one node knows it; `leader_id` is -1 for none."""

    leader_id: int
    epoch: int

    def __str__(self) -> str:
        if self.leader_id == NO_REPLICA:
            return f"knows no leader, epoch {self.epoch}"
        return f"says that {self.leader_id} leads epoch {self.epoch}"


def anonymous_discovery(form: Form) -> Any:
    """The DiscoverBrokers request of a client, which announces no address."""
    return form.request(replica_id=NO_REPLICA, boot_timestamp=-1, host="", port=-1)


async def known_leaders(
    channels: Channels, addresses: Sequence[Address], *, timeout_ms: int
) -> Mapping[Address, KnownLeader]:
    """Return the leaders that the nodes at these addresses name within the time."""

    async def ask(address: Address) -> KnownLeader | None:
        try:
            response = await channels.ask(
                address, ApiKey.DISCOVER_BROKERS, anonymous_discovery, timeout_ms=timeout_ms
            )
        except (NoResponse, Incompatible):
            return None
        found = response.value
        return None if found.error_code.value else KnownLeader(found.leader_id, found.leader_epoch)

    found = await asyncio.gather(*map(ask, addresses))
    return {where: each for where, each in zip(addresses, found, strict=True) if each is not None}


def is_leaderless(found: Iterable[KnownLeader]) -> bool:
    """True if some nodes have answered, and none knows a leader."""
    leaders = {each.leader_id for each in found}
    return leaders == {NO_REPLICA}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The error that an answer as a whole reports, 0 if none, and what the node says about it."""

    code: int = 0
    message: str | None = None
    is_undone: bool = False
    """True if the change certainly was not made, and will not be."""


def verdict_of(response: Any) -> Verdict:
    """The verdict of a message, or a part of one, that has an error code of its own."""
    return Verdict(response.error_code.value, getattr(response, "error_message", None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request with what is needed to judge its answer."""

    api_key: ApiKey
    fill: Fill
    judge: Callable[[Any], Verdict] = verdict_of
    failing: str
    """The beginning of the sentence of a failure: "topic a cannot be created"."""
    done_before: int | None = None
    """The error that says that the change was made before. It is a success if an earlier attempt
    may have made it."""
    status_command: str | None
    """Of a change: the command that shows whether it was made, for the error of one whose outcome
    is unknown. None: the request only reads."""
    extension: Extension | None = None
    """Our fields of the request."""
    asks_who_leads: bool = False
    """True if the absence of a leader is an answer, as soon as no node knows one."""

    def doubt(self, *, may_be_done: bool) -> str:
        """Return the words of an error about attempts that may be carried out; empty without."""
        if not may_be_done or self.status_command is None:
            return ""
        return f"Whether it was done, or still will be, is unknown: see {self.status_command}"


@dataclass(slots=True)
class _FailedAttempts:
    """The failed attempts of a call that nobody answered in time."""

    call: Call
    within_ms: int
    last: dict[Address, str] = field(default_factory=dict)
    """The outcome of the last attempt at each address."""
    answered: set[Address] = field(default_factory=set)
    """The nodes whose last attempt ended with an error answer."""
    is_undone: bool = False
    """True if the last answer says that the change was not made, and will not be."""
    unconnected: dict[Address, str] = field(default_factory=dict)
    """The nodes to which the last attempt made no connection, and the reason."""

    def note(self, address: Address, error: NoResponse) -> None:
        """Note whether an attempt without an answer made a connection."""
        self.unconnected.pop(address, None)
        if error.is_unconnected:
            self.unconnected[address] = str(error)

    def note_answer(self, address: Address, verdict: Verdict) -> None:
        """Note an error that may pass."""
        self.answered.add(address)
        self.is_undone = verdict.is_undone
        self.last[address] = f"{address}: {explained(verdict.code, verdict.message)}"

    def is_nowhere(self, addresses: Sequence[Address]) -> bool:
        """True if no address has accepted a connection in its last attempt."""
        return self.unconnected.keys() >= set(addresses)

    def describe(
        self,
        addresses: Sequence[Address],
        found: Mapping[Address, KnownLeader],
        *,
        may_be_done: bool,
    ) -> str:
        """Describe the attempts in a sentence; `found` are the leaders that nodes name."""
        said_why = [each for each in addresses if self._says_more(each, found)]
        no_leader = is_leaderless(found.values()) and not said_why
        words = []
        for each in addresses:
            if each in self.last and not (no_leader and each in found):
                words.append(self.last[each])
            if each in found and each not in said_why:
                words.append(f"{each} {found[each]}")
        said = "; ".join(words)
        call, time = self.call, f"within {self.within_ms} ms"
        if no_leader:
            what = f"no controller leads ({said}; asked for {self.within_ms} ms)"
        elif self.answered:
            is_undone = self.is_undone and not may_be_done
            what = f"it was not {'done' if is_undone else 'answered'} {time} ({said})"
        else:
            what = f"no answer from {', '.join(map(str, addresses))} {time} ({said})"
        doubt = call.doubt(may_be_done=may_be_done)
        return f"{call.failing}: {what}{doubt and f'. {doubt}'}"

    def _says_more(self, node: Address, found: Mapping[Address, KnownLeader]) -> bool:
        """True if a node's last error says more than which leader it knows."""
        return node in self.answered and node in found and f"{found[node]}," in self.last[node]


class RetryingClient:
    """Asks the nodes at `bootstrap` in turn, beginning with the one that answered last."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        client_id: str,
        security: ClientSecurity = PLAIN_CLIENT,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`say` is told once if no address accepts a connection, while the client still tries."""
        assert bootstrap
        self._say: Callable[[str], None] | None = say
        self.bootstrap = tuple(bootstrap)
        self._channels = Channels(client_id, security)
        self._turn = 0
        self._leader: Address | None = None
        """The leader as a controller of Kafka has named it; asked first, once."""

    async def close(self) -> None:
        """Close the connections."""
        await self._channels.close()

    async def ask(self, call: Call, *, within_ms: int) -> Response[Any]:
        """The answer. Raises `Refused`, `Unreachable` when time is up, or `Incompatible`."""
        now = asyncio.get_running_loop().time
        began = now()
        deadline = began + (within_ms - _last_word_ms(within_ms)) / 1_000
        pause_ms = PAUSE_MS
        repeated = False
        failed = _FailedAttempts(call, within_ms)
        attempt = 0
        while True:
            left_ms = max(1, round((deadline - now()) * 1_000))
            leader, self._leader = self._leader, None
            address = leader or self.bootstrap[self._turn % len(self.bootstrap)]
            attempt_ms = min(left_ms, self._attempt_ms(attempt, left_ms))
            try:
                response = await self._channels.ask(
                    address,
                    call.api_key,
                    call.fill,
                    call.extension,
                    timeout_ms=attempt_ms,
                )
            except NoResponse as error:
                repeated = repeated or error.may_be_done
                failed.note(address, error)
                if failed.is_nowhere(self.bootstrap):
                    self._complain(failed, round((deadline - now()) * 1_000))
                # An earlier error answer says more than a time-out at the end.
                if attempt_ms >= ATTEMPT_MS or address not in failed.answered:
                    failed.last[address] = str(error)
                    failed.answered.discard(address)
            else:
                verdict = call.judge(response.value)
                if not verdict.code or (repeated and verdict.code == call.done_before):
                    self._leader = leader
                    return response
                if verdict.code not in TRANSIENT:
                    raise Refused(
                        call.failing,
                        verdict.code,
                        verdict.message,
                        throttle_ms=_throttle_ms(response.value),
                        doubt=call.doubt(may_be_done=repeated),
                    )
                repeated |= verdict.code == ErrorCode.REQUEST_TIMED_OUT and not verdict.is_undone
                failed.note_answer(address, verdict)
                if await self._find_leader(address, verdict, left_ms) and leader is None:
                    continue
                await self._check_for_leader(failed, verdict, round((now() - began) * 1_000))
            self._turn += 1
            attempt += 1
            if now() + (pause_ms + ATTEMPT_MS_MIN) / 1_000 >= deadline:
                raise await self._out_of_time(failed, may_be_done=repeated)
            await asyncio.sleep(pause_ms / 1_000)
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)

    async def _find_leader(self, address: Address, verdict: Verdict, left_ms: int) -> bool:
        """Look the leader up if a controller of Kafka has answered that it is another one."""
        if verdict.code in ELSEWHERE and self._channels.is_of_kafka(address):
            self._leader = await self._leader_by(address, min(left_ms, LOOK_UP_MS))
        return self._leader is not None

    async def _leader_by(self, address: Address, timeout_ms: int) -> Address | None:
        """Return the leader that the controller of Kafka at `address` names, if it is another."""
        try:
            response = await self._channels.ask(
                address,
                ApiKey.DESCRIBE_CLUSTER,
                lambda form: form.request(
                    include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
                ),
                timeout_ms=timeout_ms,
            )
        except (NoResponse, Incompatible):
            return None
        found = response.value
        places = {each.broker_id: Address(each.host, each.port) for each in found.brokers}
        leader = places.get(found.controller_id)
        return None if leader == address else leader

    def _complain(self, failed: _FailedAttempts, left_ms: int) -> None:
        """Say that nobody accepts a connection, if there is time left to read it."""
        say, self._say = self._say, None
        if say is not None and left_ms >= LAST_WORD_MS:
            reasons = "; ".join(dict.fromkeys(failed.unconnected.values()))
            say(f"{reasons}; trying for {show_duration(left_ms)} more")

    async def _check_for_leader(
        self, failed: _FailedAttempts, verdict: Verdict, after_ms: int
    ) -> None:
        """Raise `NoLeader` if the call asks for the leader, and no node that answers knows one,
        after `after_ms`."""
        is_all = failed.last.keys() >= set(self.bootstrap)
        if not (is_all and failed.call.asks_who_leads and verdict.code == ErrorCode.NOT_CONTROLLER):
            return
        timeout_ms = _last_word_ms(failed.within_ms)
        found = await known_leaders(self._channels, self.bootstrap, timeout_ms=timeout_ms)
        if is_leaderless(found.values()):
            failed.within_ms = after_ms
            message = failed.describe(self.bootstrap, found, may_be_done=False)
            raise NoLeader(message, may_be_done=False)

    async def _out_of_time(self, failed: _FailedAttempts, *, may_be_done: bool) -> Unreachable:
        timeout_ms = _last_word_ms(failed.within_ms)
        found = await known_leaders(self._channels, self.bootstrap, timeout_ms=timeout_ms)
        message = failed.describe(self.bootstrap, found, may_be_done=may_be_done)
        fault = NoLeader if is_leaderless(found.values()) else Unreachable
        return fault(message, may_be_done=may_be_done)

    def _attempt_ms(self, attempt: int, left_ms: int) -> int:
        if len(self.bootstrap) == 1:
            return max(ATTEMPT_MS, left_ms * 3 // 4)
        return ATTEMPT_MS << min(attempt // len(self.bootstrap), 16)


def _throttle_ms(response: Any) -> int:
    throttle_time: timedelta = getattr(response, "throttle_time", timedelta(0))
    return throttle_time // timedelta(milliseconds=1)


def _last_word_ms(within_ms: int) -> int:
    return max(1, min(LAST_WORD_MS, within_ms // 5))
