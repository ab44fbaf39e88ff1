"""A node for tests that speaks the Kafka protocol over a real socket, with scripted answers."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from quorum.clocks import monotonic_ms
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.protocol.codec import decode_request, encode_response_body, error_code, response_schema
from quorum.transport.address import Address
from quorum.transport.inbound import InboundRequest
from quorum.transport.server import Server
from tests.support.kio_values import make_known, nested

HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and what is needed to answer it in its version."""

    api_key: ApiKey
    version: int
    message: Any

    def respond(self, error: int | None = None, **values: Any) -> Any:
        """The response; `error` is its error code."""
        coded = {} if error is None else {"error_code": error_code(error)}
        schema = response_schema(self.api_key, self.version)
        return make_known(schema, throttle_time=timedelta(0), **coded, **values)

    def part(self, name: str, /, error: int | None = None, **values: Any) -> Any:
        """A structure inside the response."""
        coded = {} if error is None else {"error_code": error_code(error)}
        schema = nested(response_schema(self.api_key, self.version), name)
        return make_known(schema, **coded, **values)


class HangUp(Exception):
    """Raised by a script: the connection is closed instead of an answer."""


class Silence(Exception):
    """Raised by a script: no answer ever comes."""


Script = Callable[[Asked], Any]


class ScriptedNode:
    """Serves exactly the APIs that it has scripts for; `asked` keeps every request."""

    def __init__(self, scripts: Mapping[ApiKey, Script]) -> None:
        self.scripts = dict(scripts)
        self.asked: list[Asked] = []
        self.address = Address(HOST, 0)
        self._offered: dict[int, VersionRange] = {
            key: SPOKEN[key] for key in (ApiKey.API_VERSIONS, *scripts)
        }
        self._server = Server(
            self._handle, offered=self._offered, name="scripted", clock_ms=monotonic_ms
        )

    async def listen(self) -> Address:
        self.address = Address(HOST, await self._server.listen(HOST, 0))
        return self.address

    async def close(self) -> None:
        await self._server.close(within_ms=200)

    def _handle(self, request: InboundRequest) -> None:
        key, version = ApiKey(request.api_key), request.api_version
        if key is ApiKey.API_VERSIONS:
            request.respond(write_offer(version, self._offered))
            return
        asked = Asked(key, version, decode_request(key, version, request.body))
        self.asked.append(asked)
        try:
            response = self.scripts[key](asked)
        except HangUp:
            request.reject("as the script says")
        except Silence:
            return
        else:
            request.respond(encode_response_body(key, version, response))


@asynccontextmanager
async def listening(*nodes: ScriptedNode) -> AsyncIterator[list[Address]]:
    """The nodes, listening, with their addresses in order."""
    try:
        yield [await node.listen() for node in nodes]
    finally:
        for node in nodes:
            await node.close()


def in_turn(*answers: Any) -> Script:
    """A script that answers with each of `answers` in turn, and with the last one from then on.

    An answer is a function of what was asked, or an exception to raise.
    """
    left = list(answers)

    def script(asked: Asked) -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(asked)

    return script
