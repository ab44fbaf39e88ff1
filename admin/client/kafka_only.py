"""APIs that only Kafka's brokers offer: the embedded brokers refuse them with the reason.

librdkafka would wait for ever for a coordinator, or name the releases of Kafka that have the API.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

from admin.client.channels import Form
from admin.client.retrying_client import Call
from admin.faults import Incompatible
from quorum.protocol.apis import ApiKey
from quorum.version import SOFTWARE_NAME, VERSION


class KafkaOnly(Enum):
    """An API by its key, and the reason why an embedded broker has none of it."""

    DELETE_RECORDS = 21, "records cannot be deleted: the embedded brokers keep whole logs"
    JOIN_GROUP = 11, "there are no consumer groups: the embedded brokers store no offsets of groups"

    def __init__(self, api_key: int, reason: str) -> None:
        self.api_key = api_key
        self.reason = reason


async def check_offered(ask: Callable[[Call], Awaitable[Any]], wanted: KafkaOnly) -> None:
    """Raise `Incompatible` if the broker that `ask` asks does not offer an API."""

    def fill(form: Form) -> Any:
        return form.request(client_software_name=SOFTWARE_NAME, client_software_version=VERSION)

    call = Call(
        api_key=ApiKey.API_VERSIONS,
        fill=fill,
        failing="the broker cannot be asked",
        status_command=None,
    )
    if wanted.api_key not in {each.api_key for each in (await ask(call)).api_keys}:
        raise Incompatible(f"{wanted.reason}; use Kafka's, as in metaquorum local --kafka")
