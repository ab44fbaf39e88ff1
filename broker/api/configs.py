"""DescribeConfigs: what is set for a topic or a broker, and by whom."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, Final, NamedTuple

from broker.api.codes import Code
from broker.config import BrokerConfig
from quorum.transport.server import InboundRequest
from quorum.wire import codec
from statemachine.image import Image
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE

_ZERO: Final = timedelta(0)
_UNKNOWN_TYPE: Final = 0


class Source(IntEnum):
    """Where a value comes from (KIP-226), the nearest one counts."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5


class Entry(NamedTuple):
    """One setting in force."""

    name: str
    value: str
    source: Source
    is_read_only: bool = False


class ConfigsApi:
    """Handles DescribeConfigs, at once."""

    def __init__(self, config: BrokerConfig, image: Image) -> None:
        self._config = config
        self._image = image

    def handle(self, request: InboundRequest) -> None:
        """Topics and brokers are known; of brokers the shared settings and this one."""
        version = request.api_version
        message = codec.decode_request(request.api_key, version, request.body)
        schema = codec.response_schema(request.api_key, version)
        payload = codec.make(
            schema,
            throttle_time=_ZERO,
            results=tuple(self._result(schema, each) for each in message.resources),
        )
        request.respond(codec.encode_response_body(request.api_key, version, payload))

    def _result(self, schema: type[Any], resource: Any) -> Any:
        code, reason, entries = self._described(resource.resource_type, resource.resource_name)
        wanted = resource.configuration_keys
        return codec.make(
            codec.nested(schema, "DescribeConfigsResult"),
            error_code=codec.error_code(code),
            error_message=reason,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(
                _entry(schema, each) for each in entries if wanted is None or each.name in wanted
            ),
        )

    def _described(self, kind: int, name: str) -> tuple[Code, str | None, Sequence[Entry]]:
        if kind == TOPIC_RESOURCE:
            if name not in self._image.topic_ids:
                return Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}", ()
            return Code.NONE, None, self._topic(name)
        if kind == BROKER_RESOURCE:
            return self._broker(name)
        return Code.INVALID_REQUEST, f"resource type {kind} has no configurations here", ()

    def _topic(self, name: str) -> Sequence[Entry]:
        defaults = self._config.topic_defaults
        shared = self._image.configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {})
        found = {
            "cleanup.policy": Entry("cleanup.policy", "delete", Source.DEFAULT),
            "max.message.bytes": Entry(
                "max.message.bytes", str(defaults.max_message_bytes), Source.DEFAULT
            ),
            "message.timestamp.type": Entry("message.timestamp.type", "CreateTime", Source.DEFAULT),
            "min.insync.replicas": Entry(
                "min.insync.replicas", str(defaults.min_insync_replicas), Source.DEFAULT
            ),
            "segment.bytes": Entry(
                "segment.bytes", str(self._config.log_segment_bytes), Source.DEFAULT
            ),
        }
        for key, value in shared.items():
            if key in found:
                found[key] = Entry(key, value, Source.ALL_BROKERS)
        for key, value in self._image.configs.get((TOPIC_RESOURCE, name), {}).items():
            found[key] = Entry(key, value, Source.TOPIC)
        return [found[key] for key in sorted(found)]

    def _broker(self, name: str) -> tuple[Code, str | None, Sequence[Entry]]:
        shared = self._image.configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {})
        found = {key: Entry(key, value, Source.ALL_BROKERS) for key, value in shared.items()}
        if name == CLUSTER_DEFAULT:
            return Code.NONE, None, _sorted(found)
        if name != str(self._config.node_id):
            return Code.INVALID_REQUEST, f"this is broker {self._config.node_id}, ask {name}", ()
        for key, value in self._static().items():
            found.setdefault(key, Entry(key, value, Source.FILE, is_read_only=True))
        for key, value in self._image.configs.get((BROKER_RESOURCE, name), {}).items():
            found[key] = Entry(key, value, Source.BROKER)
        return Code.NONE, None, _sorted(found)

    def _static(self) -> Mapping[str, str]:
        config = self._config
        voters = (f"{each}@{host}:{port}" for each, (host, port) in sorted(config.voters.items()))
        return {
            "node.id": str(config.node_id),
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(config.log_dir),
            "log.segment.bytes": str(config.log_segment_bytes),
            "replica.lag.time.max.ms": str(config.replica_lag_time_max_ms),
            "replica.fetch.max.bytes": str(config.replica_fetch_max_bytes),
            "broker.session.timeout.ms": str(config.session_timeout_ms),
            "broker.heartbeat.interval.ms": str(config.heartbeat_interval_ms),
            **({} if config.rack is None else {"broker.rack": config.rack}),
            **config.settings,
        }


def _sorted(found: Mapping[str, Entry]) -> Sequence[Entry]:
    return [found[key] for key in sorted(found)]


def _entry(schema: type[Any], entry: Entry) -> Any:
    return codec.make_known(
        codec.nested(schema, "DescribeConfigsResourceResult"),
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=(),
        config_type=_UNKNOWN_TYPE,
        documentation=None,
    )
