"""DescribeConfigs (32) and DescribeClientQuotas (48), answered from the image.

The state machine defines the configurations; this broker adds the settings of its own file.
"""

from collections.abc import Mapping

from broker.config import BrokerConfig
from quorum.protocol import codec
from quorum.protocol.config_responses import (
    describe_configs_response,
    describe_quotas_response,
    quota_filters,
)
from quorum.transport.address import Address
from quorum.transport.inbound import InboundRequest
from statemachine.configs.describe_configs import BrokerFile, ConfigEntry, describe_configs
from statemachine.configs.quotas import QuotaFilter, describe_quotas
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, Resource


class ConfigsApi:
    """The handler of both requests; each is answered at once."""

    def __init__(self, config: BrokerConfig, image: Image) -> None:
        self._file = BrokerFile(str(config.node_id), _settings(config))
        self._image = image

    def handle(self, request: InboundRequest) -> None:
        """DescribeConfigs: any resource; of brokers only the cluster default and this one."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        payload = describe_configs_response(schema, message, self._described)
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def quotas(self, request: InboundRequest) -> None:
        """DescribeClientQuotas: the quotas, as far as this broker has replayed the log."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        filters = quota_filters(message, QuotaFilter)
        found = describe_quotas(self._image, filters, strict=message.strict)
        payload = describe_quotas_response(schema, found)
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def _described(self, resource: Resource) -> tuple[ConfigEntry, ...] | Refusal:
        kind, name = resource
        if kind == BROKER_RESOURCE and name not in (CLUSTER_DEFAULT, self._file.broker):
            reason = f"this is broker {self._file.broker}: of broker {name}, ask that one"
            return Refusal(Error.INVALID_REQUEST, reason)
        return describe_configs(self._image, resource, self._file)


def _settings(config: BrokerConfig) -> Mapping[str, str]:
    """The effective settings of this broker."""
    voters = (
        f"{each}" if address is None else f"{each}@{Address(*address)}"
        for each, address in sorted(config.voters.items())
    )
    defaults = config.topic_defaults
    return {
        **config.settings,
        "node.id": str(config.node_id),
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": str(config.log_dir),
        "log.segment.bytes": str(config.log_segment_bytes),
        "message.max.bytes": str(defaults.max_message_bytes),
        "min.insync.replicas": str(defaults.min_insync_replicas),
        "replica.lag.time.max.ms": str(config.replica_lag_time_max_ms),
        "replica.fetch.max.bytes": str(config.replica_fetch_max_bytes),
        "broker.session.timeout.ms": str(config.session_timeout_ms),
        "broker.heartbeat.interval.ms": str(config.heartbeat_interval_ms),
        **({} if config.rack is None else {"broker.rack": config.rack}),
    }
