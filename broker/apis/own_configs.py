"""The configurations of its own that an embedded broker takes while it runs.

As in Kafka (KIP-226), the broker named by a request judges it before the controller records it:
only the broker knows what it can change. The controllers serve Kafka's brokers too, and take
whatever one of those may know. An embedded broker changes its rates of throttled replication.
"""

from collections.abc import Mapping
from typing import Any, Final

from quorum.protocol.apis import ApiKey
from statemachine.commands import ConfigOperation
from statemachine.configs.broker_configs import BROKER_CONFIGS, base_name, unknown_broker_config
from statemachine.image.image import Image
from statemachine.reassignment.throttle import FOLLOWER_RATE, LEADER_RATE
from statemachine.vocabulary import BROKER_RESOURCE, BrokerId

DYNAMIC: Final = (LEADER_RATE, FOLLOWER_RATE)


class OwnConfigs:
    """The check of requests about the configurations of one broker."""

    def __init__(self, broker_id: BrokerId, image: Image) -> None:
        self._broker = str(broker_id)
        self._image = image

    def refusal(self, api_key: int, message: Any) -> str | None:
        """Return the reason to refuse a request that is to be forwarded, or None.

        Removed and unchanged values are accepted, whatever their names.
        """
        if api_key not in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
            return None
        current = self._image.configs.get((BROKER_RESOURCE, self._broker), {})
        for resource in message.resources:
            if (resource.resource_type, resource.resource_name) == (BROKER_RESOURCE, self._broker):
                for each in resource.configs:
                    reason = self._value_refusal(each, current)
                    if reason is not None:
                        return reason
        return None

    def _value_refusal(self, config: Any, current: Mapping[str, str]) -> str | None:
        operation = getattr(config, "config_operation", ConfigOperation.SET)
        name, value = config.name, config.value
        if operation == ConfigOperation.DELETE or value == current.get(name) or name in DYNAMIC:
            return None
        if base_name(name) not in BROKER_CONFIGS:
            # The controller refuses those that no broker of Kafka changes while it runs.
            return unknown_broker_config(name)
        return (
            f"{name} cannot be changed while an embedded broker runs: if it has this setting, set "
            f"it in the file of broker {self._broker} and restart it; while it runs, it takes "
            f"{' and '.join(DYNAMIC)}"
        )
