"""Clients that write and read continuously, and record every answer: the workload of a run.

All of it is Kafka's own protocol, so that the same clients work against our controllers and
Kafka's. There are two kinds of objects:

- A *register* is the subscription `fire-N` to clients' metrics, whose `metrics` one client
  sets to n1, n2, n3 ... A number is used once, so that it can be looked for in the log.
- A *user* is a SCRAM credential that several clients set and remove. The answer to a removal says
  whether the credential was there, so that the answers to changes alone show an order.

A request is sent once. One without an answer, or with an error, may take effect later or never.
Objects are replaced by new ones now and then, as the search of the checker grows with the requests
that were not answered.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

from admin.client.admin_client import AdminClient, Incompatible
from admin.client.channels import Channels, Fill, Form, NoResponse
from chaos.linearizability.checker import Key, Operation
from chaos.linearizability.models import Absent, AddUser, Done, Get, RemoveUser, Set, Value
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.transport.address import Address

CLIENT_METRICS: Final = 16
"""Kafka's number of this kind of resource."""
NAME: Final = "metrics"
WRITERS_PER_NODE: Final = 2
ATTEMPT_MS: Final = 400
"""The time a client waits for an answer before it goes on with its next request."""
PAUSE_MS: Final = 5
SELDOM_MS: Final = 25
"""The pause of a client that reads, or changes users."""
READ_MS: Final = 10_000
OPERATIONS_MAX: Final = 400
UNKNOWN_MAX: Final = 6
"""An object with so many operations, or so many without an answer, is replaced by a new one."""
CONTROLLERS: Final = 2
"""The kind of nodes that DescribeCluster is asked for (KIP-919)."""
SCRAM_SHA_256: Final = 1
ITERATIONS: Final = 4_096
_SALT: Final = bytes(16)
_PASSWORD: Final = bytes(32)


@dataclass(slots=True)
class Register:
    """The writes of one writer to one register, and their outcomes."""

    name: str
    asked: int = 0
    """The last number that was sent."""
    acknowledged: list[int] = field(default_factory=list)

    def may_hold(self, value: int) -> bool:
        """True if a reader may see this number once all writing has ended."""
        last = self.acknowledged[-1] if self.acknowledged else 0
        unknown = value not in self.acknowledged
        return value == last or (0 < value <= self.asked and unknown)

    @property
    def unknown(self) -> int:
        """The writes without an answer."""
        return self.asked - len(self.acknowledged)

    @property
    def is_worn(self) -> bool:
        """True if the next number belongs into a new register."""
        return self.asked >= OPERATIONS_MAX or self.unknown >= UNKNOWN_MAX


@dataclass(slots=True)
class _User:
    """A user that several clients change."""

    name: str
    operations: int = 0
    unknown: int = 0

    @property
    def is_worn(self) -> bool:
        return self.operations >= OPERATIONS_MAX or self.unknown >= UNKNOWN_MAX


def number_of(value: str | None) -> int:
    """The number in a register's value; 0 for none."""
    return int(value.removeprefix("n")) if value else 0


class Commit(NamedTuple):
    """An acknowledged change, in seconds of the event loop's clock."""

    begun: float
    ended: float


class _Refusal(Exception):
    """An answer with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(_name_of(code))
        self.code = code


class Client:
    """One client: it asks its own node, the leader that the node names, or the next node."""

    def __init__(self, home: int, addresses: Mapping[int, Address]) -> None:
        self._by_id = addresses
        self._nodes = list(addresses.values())
        self._turn = list(addresses).index(home)
        self._leader: Address | None = None
        self._channels = Channels(f"fire-client-{home}")

    async def ask(self, api_key: ApiKey, fill: Fill) -> Any:
        """The answer to a request that is sent once; raises `NoResponse`."""
        try:
            found = await self._channels.ask(self._address, api_key, fill, timeout_ms=ATTEMPT_MS)
        except (NoResponse, Incompatible) as error:
            self.move_on()
            if isinstance(error, NoResponse):
                raise
            # The connection ended in the middle of its first requests.
            raise NoResponse(str(error), may_be_done=True) from None
        return found.value

    @property
    def is_of_kafka(self) -> bool:
        """True if the node that this client asks is one of Kafka's, which forwards nothing."""
        return self._channels.is_of_kafka(self._address)

    @property
    def _address(self) -> Address:
        return self._leader or self._nodes[self._turn % len(self._nodes)]

    def move_on(self) -> None:
        """Ask the next node from now on."""
        self._leader = None
        self._turn += 1

    async def find_leader(self) -> None:
        """Ask the node that leads from now on: a controller of Kafka's forwards nothing."""

        def fill(form: Form) -> Any:
            return form.request(
                include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
            )

        try:
            found = await self.ask(ApiKey.DESCRIBE_CLUSTER, fill)
        except NoResponse:
            return
        # By its id: what it advertises may be the address of a proxy.
        self._leader = self._by_id.get(found.controller_id)

    async def close(self) -> None:
        """Close the connections."""
        await self._channels.close()


class Load:
    """The clients of a run."""

    def __init__(self, addresses: Mapping[int, Address], tag: str = "fire") -> None:
        """All names begin with `tag`: in a cluster that lives on, no two runs may have one."""
        self._addresses = dict(addresses)
        self._tag = tag
        self.registers: list[Register] = []
        self.history: list[Operation] = []
        self.commits: list[Commit] = []
        """All acknowledged changes, in the order of their answers."""
        self.refusals: Counter[str] = Counter()
        """Errors that were answered, by name."""
        self._current: dict[str, Register] = {}
        self._numbers = count(1)
        self._users: list[str] = []
        self._user = self._new_user()
        self._progress = asyncio.Event()
        self.is_of_kafka = False
        """True once a node of Kafka has answered."""

    @property
    def acknowledged(self) -> int:
        return len(self.commits)

    @property
    def unknown(self) -> int:
        """The requests without an answer that can be relied on."""
        return sum(each.returned is None for each in self.history)

    async def run(self) -> None:
        """Send requests until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for node in self._addresses:
                for place in range(WRITERS_PER_NODE):
                    tasks.create_task(self._repeat(node, self._writer(f"{node}-{place}")))
                tasks.create_task(self._repeat(node, self._read, SELDOM_MS))
                tasks.create_task(self._repeat(node, self._user_changer(), SELDOM_MS))

    async def success_after(self, moment: float) -> float:
        """Wait for a change that was begun after `moment` and acknowledged; return when that
        was."""
        while True:
            ended = []
            for each in reversed(self.commits):
                if each.ended < moment:
                    break
                if each.begun >= moment:
                    ended.append(each.ended)
            if ended:
                return min(ended)
            self._progress.clear()
            await self._progress.wait()

    async def read_back(self, addresses: Iterable[Address]) -> list[str]:
        """Return the errors in the registers, as read from each of these nodes."""
        problems = []
        for address in addresses:
            async with AdminClient([address], is_controller=True, timeout_ms=READ_MS) as client:
                for register in self.registers:
                    found = await client.describe_configs(CLIENT_METRICS, register.name)
                    values = [each.value for each in found if each.name == NAME]
                    shown = number_of(values[0] if values else None)
                    if not register.may_hold(shown):
                        last = register.acknowledged[-1:]
                        problems.append(
                            f"{address} shows {shown} in {register.name}, acknowledged was {last}"
                        )
        return problems

    async def remove_all(self) -> None:
        """Remove every object of the run from the cluster; raises `AdminError`."""
        addresses = list(self._addresses.values())
        async with AdminClient(addresses, is_controller=True, timeout_ms=READ_MS) as admin:
            for register in self.registers:
                await admin.alter_configs(CLIENT_METRICS, register.name, {}, removed=[NAME])
        client = Client(min(self._addresses), self._addresses)
        try:
            for user in self._users:
                await self._remove(client, user)
        finally:
            await client.close()

    async def _remove(self, client: Client, user: str) -> None:
        while True:
            try:
                answer = await client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _deletion(user))
                if answer.results[0].error_code.value != ErrorCode.RESOURCE_NOT_FOUND:
                    _check(answer.results[0])
            except NoResponse:
                await asyncio.sleep(SELDOM_MS / 1_000)
            except _Refusal as refusal:
                await self._go_on(client, refusal)
                await asyncio.sleep(SELDOM_MS / 1_000)
            else:
                return

    async def _repeat(
        self,
        home: int,
        act: Callable[[Client], Coroutine[Any, Any, None]],
        pause_ms: int = PAUSE_MS,
    ) -> None:
        client = Client(home, self._addresses)
        try:
            while True:
                try:
                    await act(client)
                except NoResponse:
                    pass
                except _Refusal as refusal:
                    self.refusals[str(refusal)] += 1
                    await self._go_on(client, refusal)
                await asyncio.sleep(pause_ms / 1_000)
        finally:
            await client.close()

    async def _go_on(self, client: Client, refusal: _Refusal) -> None:
        """Let a client that was refused ask another node."""
        if refusal.code == ErrorCode.NOT_CONTROLLER and client.is_of_kafka:
            self.is_of_kafka = True
            await client.find_leader()
        else:
            client.move_on()

    def _writer(self, place: str) -> Callable[[Client], Coroutine[Any, Any, None]]:
        async def write(client: Client) -> None:
            register = self._current.get(place)
            if register is None or register.is_worn:
                register = Register(f"{self._tag}-{place}-{next(self._numbers)}")
                self._current[place] = register
                self.registers.append(register)
            register.asked += 1
            value = f"n{register.asked}"
            with self._asked(("config", register.name), Set(value)) as pending:
                answer = await client.ask(
                    ApiKey.INCREMENTAL_ALTER_CONFIGS, _set(register.name, value)
                )
                _check(answer.responses[0])
                register.acknowledged.append(register.asked)
                self._committed(pending, Done())

        return write

    def _user_changer(self) -> Callable[[Client], Coroutine[Any, Any, None]]:
        turn = count()

        async def change(client: Client) -> None:
            if self._user.is_worn:
                self._user = self._new_user()
            user = self._user
            user.operations += 1
            adds = next(turn) % 2 == 0
            asked: Hashable = AddUser() if adds else RemoveUser()
            fill = _upsertion(user.name) if adds else _deletion(user.name)
            # Counted as unknown until it is answered.
            user.unknown += 1
            with self._asked(("user", user.name), asked) as pending:
                answer = await client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, fill)
                code = answer.results[0].error_code.value
                if code == ErrorCode.RESOURCE_NOT_FOUND and not adds:
                    pending.returns(Absent())
                else:
                    _check(answer.results[0])
                    self._committed(pending, Done())
                user.unknown -= 1

        return change

    async def _read(self, client: Client) -> None:
        if not self._current:
            return
        place = sorted(self._current)[len(self.history) % len(self._current)]
        name = self._current[place].name
        with self._asked(("config", name), Get(), changes=False) as pending:
            answer = await client.ask(ApiKey.DESCRIBE_CONFIGS, _get(name))
            _check(answer.results[0])
            values = [each.value for each in answer.results[0].configs if each.name == NAME]
            # A register that was never written shows the default of Kafka: nothing.
            pending.returns(Value((values[0] if values else None) or None))

    def _committed(self, pending: "_Pending", answer: Hashable) -> None:
        pending.returns(answer)
        self.commits.append(Commit(pending.begun, pending.ended))
        self._progress.set()

    def _asked(self, key: Key, asked: Hashable, *, changes: bool = True) -> "_Pending":
        return _Pending(self, key, asked, changes)

    def ended(self, operation: Operation | None) -> None:
        """Put a request into the history, if it may have had an effect."""
        if operation is not None:
            self.history.append(operation)

    def _new_user(self) -> _User:
        user = _User(f"{self._tag}-user-{next(self._numbers)}")
        self._users.append(user.name)
        return user


class _Pending:
    """One request from its call to its answer, as a context."""

    def __init__(self, load: Load, key: Key, asked: Hashable, changes: bool) -> None:
        self._load = load
        self._key = key
        self._asked = asked
        self._changes = changes
        self.begun = asyncio.get_running_loop().time()
        self.ended = self.begun
        self._done: Operation | None = None

    def __enter__(self) -> "_Pending":
        return self

    def returns(self, answer: Hashable) -> None:
        """The client has got this answer."""
        self.ended = asyncio.get_running_loop().time()
        self._done = Operation(
            key=self._key,
            asked=self._asked,
            called=_ns(self.begun),
            returned=_ns(self.ended),
            answer=answer,
        )

    def unanswered(self) -> Operation:
        """The operation without an answer."""
        return Operation(key=self._key, asked=self._asked, called=_ns(self.begun))

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        done = self._done
        never_sent = isinstance(error, NoResponse) and not error.may_be_done
        if done is None and self._changes and not never_sent:
            done = self.unanswered()
        self._load.ended(done)


def _ns(moment: float) -> int:
    return round(moment * 1_000_000_000)


def _check(part: Any) -> None:
    if part.error_code.value:
        raise _Refusal(part.error_code.value)


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _set(name: str, value: str) -> Fill:
    resource = {
        "resource_type": CLIENT_METRICS,
        "resource_name": name,
        "configs": [{"name": NAME, "config_operation": 0, "value": value}],
    }
    return lambda form: form.request(resources=[resource], validate_only=False)


def _get(name: str) -> Fill:
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
    return lambda form: form.request(
        resources=[resource], include_synonyms=False, include_documentation=False
    )


def _upsertion(user: str) -> Fill:
    upsertion = {
        "name": user,
        "mechanism": SCRAM_SHA_256,
        "iterations": ITERATIONS,
        "salt": _SALT,
        "salted_password": _PASSWORD,
    }
    return lambda form: form.request(deletions=(), upsertions=[upsertion])


def _deletion(user: str) -> Fill:
    deletion = {"name": user, "mechanism": SCRAM_SHA_256}
    return lambda form: form.request(deletions=[deletion], upsertions=())
