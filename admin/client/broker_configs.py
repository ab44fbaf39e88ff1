"""The configurations of a broker with the settings in its own file, which it alone knows."""

from typing import Any, Final

from msgspec.structs import replace

from admin.capabilities.configs import BrokerConfigs, Config
from admin.client.channels import Channels, Form, NoResponse, only
from admin.client.retrying_client import verdict_of
from admin.faults import Incompatible
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import error_name
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from statemachine.configs.definitions import ConfigType
from statemachine.configs.describe_configs import Source
from statemachine.vocabulary import BROKER_RESOURCE

PATIENCE_MS: Final = 3_000
"""The time that the broker may take."""


async def with_file(
    found: BrokerConfigs, address: Address, security: ClientSecurity = PLAIN_CLIENT
) -> BrokerConfigs:
    """Return the configurations as the broker describes them, or `found` with the reason."""
    resource = {
        "resource_type": BROKER_RESOURCE,
        "resource_name": str(found.broker_id),
        "configuration_keys": None,
    }

    def fill(form: Form) -> Any:
        return form.request(
            resources=[resource], include_synonyms=True, include_documentation=False
        )

    channels = Channels("metaquorum-admin", security)
    try:
        response = await channels.ask(
            address, ApiKey.DESCRIBE_CONFIGS, fill, timeout_ms=PATIENCE_MS
        )
    except (NoResponse, Incompatible) as error:
        return replace(found, without_file=str(error))
    finally:
        await channels.close()
    try:
        result = only(response.value.results)
    except Incompatible as error:
        return replace(found, without_file=f"{address}: {error}")
    verdict = verdict_of(result)
    if verdict.code:
        reason = f"{address}: {verdict.message or error_name(verdict.code)}"
        return replace(found, without_file=reason)
    configs = sorted(map(_config, result.configs), key=lambda each: each.name)
    return replace(found, configs=tuple(configs), without_file=None)


def _config(entry: Any) -> Config:
    defaults = (each.value for each in entry.synonyms if each.source == Source.DEFAULT)
    return Config(
        name=entry.name,
        value=entry.value,
        source=_name(Source, entry.config_source),
        default=next(defaults, None),
        type=_name(ConfigType, entry.config_type),
        is_sensitive=entry.is_sensitive,
        is_read_only=entry.read_only,
    )


def _name(kind: Any, number: int) -> str:
    """The name of a number; one of a later release has none."""
    found: str = kind(number).name if number in set(kind) else str(number)
    return found
