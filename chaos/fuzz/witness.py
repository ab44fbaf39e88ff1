"""The well-behaved client: it commits, produces and asks by HTTP, and measures its waits.

What it was promised it reads back at the end.
"""

import asyncio
import random
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from admin.client.admin_client import AdminClient, AdminError
from chaos.fuzz.cluster import BROKER, WITNESS, FuzzedCluster
from chaos.processes.load import CLIENT_METRICS, NAME, Register, number_of
from quorum.clocks import monotonic_ms, wall_ms
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.records.decode import decode as decode_records
from quorum.records.encode import ClientRecord, encode_client
from quorum.transport.channel import Channel
from quorum.transport.outcomes import RequestFailed
from quorum.transport.sweeper import Sweeper

REGISTER: Final = "witness"
TOPIC: Final = "kept"
PAUSE_SECONDS: Final = 0.01
WAIT_MS: Final = 10_000
"""The time after which a request has failed."""
FETCH_BYTES: Final = 1 << 20
_PRODUCE: Final = 9
_FETCH: Final = 12


@dataclass(slots=True)
class Probe:
    """One kind of request, sent again and again."""

    name: str
    asked: int = 0
    longest_ms: float = 0.0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name} {self.longest_ms:.0f} ms of {self.asked}"


class Witness:
    """Use it as an async context; it sends from then on, until it is left."""

    def __init__(self, cluster: FuzzedCluster) -> None:
        self._cluster = cluster
        self.register = Register(REGISTER)
        self.produced: list[int] = []
        self.probes = [Probe("commit"), Probe("produce"), Probe("HTTP")]
        security = cluster.security(WITNESS)
        controllers = [cluster.address_of(id) for id in cluster.controllers]
        self.client = AdminClient(
            controllers, is_controller=True, timeout_ms=WAIT_MS, security=security
        )
        self._sweeper = Sweeper(monotonic_ms)
        self._broker = Channel(
            lambda: cluster.address_of(BROKER),
            client_id="witness",
            sweeper=self._sweeper,
            rng=random.Random(0),
            security=security,
        )
        self._http: tuple[StreamReader, StreamWriter] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ending = False

    async def is_served(self) -> bool:
        """Produce a record; False if the broker does not lead the new partition yet."""
        try:
            await self._produce()
        except ValueError:
            return False
        return True

    async def __aenter__(self) -> "Witness":
        actions = (self._commit, self._produce, self._ask_http)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._repeat(probe, action))
            for probe, action in zip(self.probes, actions, strict=True)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish the requests under way."""
        self._is_ending = True
        await asyncio.gather(*self._tasks)

    def take_probes(self) -> list[Probe]:
        """Return what the probes have measured, and begin again."""
        found = [replace(each) for each in self.probes]
        for each in self.probes:
            each.asked, each.longest_ms, each.failures = 0, 0.0, []
        return found

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        await self._broker.close()
        self._sweeper.close()
        self._drop_http()

    async def _repeat(self, probe: Probe, action: Callable[[], Awaitable[None]]) -> None:
        now = asyncio.get_running_loop().time
        while not self._is_ending:
            begun = now()
            try:
                await action()
            except (
                AdminError,
                RequestFailed,
                OSError,
                EOFError,
                TimeoutError,
                ValueError,
            ) as error:
                probe.failures.append(f"{probe.name}: {error!r}")
            probe.asked += 1
            probe.longest_ms = max(probe.longest_ms, (now() - begun) * 1_000)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _commit(self) -> None:
        register = self.register
        register.asked += 1
        await self.client.alter_configs(CLIENT_METRICS, REGISTER, {NAME: f"n{register.asked}"})
        register.acknowledged.append(register.asked)

    async def _produce(self) -> None:
        number = len(self.produced) + 1
        records = bytes(encode_client([ClientRecord(wall_ms(), None, b"%d" % number)]))
        body = codec.request_body(
            ApiKey.PRODUCE,
            _PRODUCE,
            acks=-1,
            timeout=timedelta(milliseconds=WAIT_MS),
            topic_data=[{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}],
        )
        answer = await self._ask(ApiKey.PRODUCE, _PRODUCE, body)
        (part,) = answer.responses[0].partition_responses
        if part.error_code.value:
            raise ValueError(f"Produce is answered {part.error_code.name}")
        self.produced.append(number)

    async def _ask_http(self) -> None:
        try:
            async with asyncio.timeout(WAIT_MS / 1_000):
                await self._exchange()
        except BaseException:
            self._drop_http()
            raise

    async def _exchange(self) -> None:
        address = self._cluster.http_of(self._cluster.controllers[0])
        if self._http is None:
            context = self._cluster.tls_context()
            self._http = await asyncio.open_connection(*address, ssl=context)
        reader, writer = self._http
        token = self._cluster.token(WITNESS)
        authorization = "" if token is None else f"Authorization: Bearer {token}\r\n"
        writer.write(f"GET /v1/quorum HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise ValueError(f"HTTP is answered {head[:40]!r}")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        await reader.readexactly(length)

    def _drop_http(self) -> None:
        if self._http is not None:
            self._http[1].transport.abort()
            self._http = None

    async def _ask(self, api_key: int, version: int, body: bytes) -> Any:
        reply = await self._broker.call(api_key, body, timeout_ms=WAIT_MS, version=version)
        return reply.decode()

    async def read_back(self) -> list[str]:
        """Return what is lost of what was acknowledged, or changed."""
        problems = []
        for id in self._cluster.controllers:
            async with AdminClient(
                [self._cluster.address_of(id)],
                is_controller=True,
                security=self._cluster.security(WITNESS),
            ) as client:
                found = await client.describe_configs(CLIENT_METRICS, REGISTER)
            shown = number_of(next((each.value for each in found if each.name == NAME), None))
            if not self.register.may_hold(shown):
                last = (self.register.acknowledged or [0])[-1]
                problems.append(
                    f"controller {id} shows {shown} in {REGISTER}, acknowledged: {last}"
                )
        lost = set(self.produced) - set(await self._consumed())
        if lost:
            problems.append(f"{len(lost)} produced records are lost, the first is {min(lost)}")
        return problems

    async def _consumed(self) -> list[int]:
        numbers: list[int] = []
        offset = 0
        while True:
            body = codec.request_body(
                ApiKey.FETCH,
                _FETCH,
                replica_id=-1,
                max_wait=timedelta(0),
                min_bytes=0,
                max_bytes=FETCH_BYTES,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                forgotten_topics_data=(),
                rack_id="",
                topics=[
                    {
                        "topic": TOPIC,
                        "partitions": [
                            {
                                "partition": 0,
                                "current_leader_epoch": -1,
                                "fetch_offset": offset,
                                "last_fetched_epoch": -1,
                                "log_start_offset": -1,
                                "partition_max_bytes": FETCH_BYTES,
                            }
                        ],
                    }
                ],
            )
            answer = await self._ask(ApiKey.FETCH, _FETCH, body)
            (part,) = answer.responses[0].partitions
            found = list(decode_records(part.records or b""))
            if not found:
                return numbers
            offset = found[-1].offset + 1
            numbers += [int(each.value) for each in found if each.value is not None]
