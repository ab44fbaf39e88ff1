"""Settings of librdkafka, and the look-up of a topic, for the producer and the consumer."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError

from admin.client.cluster import metadata, read_topics
from admin.client.command_config import ClientConfig
from admin.client.retrying_client import Call, RetryingClient
from admin.faults import AdminError, Unauthenticated
from admin.model import PartitionDescription
from quorum.clocks import wall_ms
from quorum.transport.address import Address

T = TypeVar("T")

POLL_SECONDS: Final = 0.1
"""How long a call into librdkafka may block its thread, and with it the end of the client."""
TOKEN_RETRY_SECONDS: Final = 10
"""Until a token that has ended, or does not tell its end, is fetched anew."""

if TYPE_CHECKING:
    # It brings a library that only clients with OAUTHBEARER need.
    from quorum.transport.security.oauthbearer import TokenSource

_NO_LOG: Final = logging.getLogger("librdkafka")
_NO_LOG.disabled = True


_UNAUTHORIZED: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    # Of InitProducerId, which WRITE on any topic allows.
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


def is_unauthorized(error: KafkaError) -> bool:
    """Return whether a right is missing."""
    return error.code() in _UNAUTHORIZED


def reason_of(error: KafkaError, principal: str, right: str) -> str:
    """Return an error of librdkafka in words; if a right is missing, it is this one.

    A right has the form "READ on TOPIC orders".
    """
    said = error.str()
    if is_unauthorized(error):
        said += f" ({principal} needs {right})"
    if error.code() == KafkaError._MSG_TIMED_OUT:
        # It retries, and keeps the broker's last error to itself.
        said += " (topics describe tells if the leader, or too many in-sync replicas, are missing)"
    return said


def settings_of(
    bootstrap: Sequence[Address], client_id: str, config: ClientConfig
) -> dict[str, Any]:
    """Return the settings of any client of librdkafka; raises `Unauthenticated`."""
    if config.has_delegation_token:
        raise Unauthenticated(
            "librdkafka, which this command runs on, cannot log in with a delegation token "
            '(tokenauth="true"): use a password or a certificate, or Kafka\'s own tool'
        )
    return {
        "bootstrap.servers": ",".join(map(str, bootstrap)),
        "client.id": client_id,
        # Errors are raised; librdkafka must not write them to stderr as well.
        "log_level": 0,
        "logger": _NO_LOG,
        "error_cb": lambda _: None,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 500,
        **config.librdkafka,
        **({} if config.tokens is None else {"oauth_cb": _token_callback(config.tokens)}),
    }


def _token_callback(tokens: "TokenSource") -> Callable[[str], tuple[str, float]]:
    """Return what gives librdkafka a token, and the second since 1970 when it ends.

    librdkafka calls it in a thread of its own when a client is made, which waits for it, and before
    a token ends. An exception there would not be heard, so the first token is fetched here, and one
    that cannot be renewed is presented again: the broker tells whether it still counts.
    Raises `Unauthenticated`.
    """
    from quorum.transport.security.oauthbearer import Unavailable, expires_at

    try:
        kept = tokens.fetched()
    except Unavailable as error:
        raise Unauthenticated(str(error)) from None

    def token(_: str) -> tuple[str, float]:
        nonlocal kept
        with contextlib.suppress(Unavailable):
            kept = tokens.fetched()
        now, ends = wall_ms() / 1_000, expires_at(kept)
        return kept, ends if ends > now else now + TOKEN_RETRY_SECONDS

    return token


class UnknownTopic(AdminError):
    """The topic does not exist, or has no such partition."""


class BlockingClient:
    """A client whose calls block: they run one at a time, in one thread of its own."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        client_id: str,
        *,
        timeout_ms: int,
        config: ClientConfig,
    ) -> None:
        self.settings: Final = settings_of(bootstrap, client_id, config)
        self.timeout_ms: Final = timeout_ms
        self._principal = config.security.principal
        self._client = RetryingClient(bootstrap, client_id, config.security)
        self._thread = ThreadPoolExecutor(1)

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call `function` in the thread, after the earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def reason_of(self, error: KafkaError, right: str) -> str:
        """Return an error in words, as the function does."""
        return reason_of(error, self._principal, right)

    async def ask(self, call: Call) -> Any:
        """Return the answer to a request that librdkafka has no function for."""
        return (await self._client.ask(call, within_ms=self.timeout_ms)).value

    async def partitions(
        self, topic: str, wanted: Sequence[int] | None = None
    ) -> Sequence[PartitionDescription]:
        """The `wanted` partitions of the topic, or all; raises `AdminError`, or `UnknownTopic`."""
        answer = await self.ask(metadata([topic]))
        found = read_topics(answer, self._principal).get(topic)
        if found is None:
            raise UnknownTopic(f"there is no topic {topic}")
        every = {each.partition: each for each in found.partitions}
        for number in wanted or ():
            if number not in every:
                raise UnknownTopic(
                    f"topic {topic} has partitions 0 to {max(every)}, and not {number}"
                )
        return found.partitions if wanted is None else [every[number] for number in wanted]

    async def close(self, close: Callable[[], object]) -> None:
        """Let the thread `close` librdkafka, and end it."""
        await self.call(close)
        self._thread.shutdown(wait=False)
        await self._client.close()
