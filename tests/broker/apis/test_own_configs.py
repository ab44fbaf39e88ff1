"""An embedded broker judges changes of its own configurations before the controller does."""

from pathlib import Path
from typing import Any

import pytest

from broker.apis import broker_apis
from broker.apis.own_configs import DYNAMIC, OwnConfigs
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from statemachine.image.image import Image
from statemachine.records.kafka_records import Config
from statemachine.replay import replay
from statemachine.vocabulary import BrokerId
from tests.broker.apis.test_broker_configs import BROKER, TOPIC
from tests.broker.embedded_cluster import Brokers, cluster
from tests.support.kio_values import make, nested

SET, DELETE = 0, 1


def incremental(kind: int, resource: str, name: str, value: str | None, operation: int) -> Any:
    schema = codec.request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    config = make(
        nested(schema, "AlterableConfig"), name=name, config_operation=operation, value=value
    )
    asked = make(
        nested(schema, "AlterConfigsResource"),
        resource_type=kind,
        resource_name=resource,
        configs=(config,),
    )
    return make(schema, resources=(asked,), validate_only=False)


def whole(resource: str, name: str, value: str) -> Any:
    schema = codec.request_schema(ApiKey.ALTER_CONFIGS, 2)
    config = make(nested(schema, "AlterableConfig"), name=name, value=value)
    asked = make(
        nested(schema, "AlterConfigsResource"),
        resource_type=BROKER,
        resource_name=resource,
        configs=(config,),
    )
    return make(schema, resources=(asked,), validate_only=False)


async def refusal(brokers: Brokers, request: Any) -> str:
    api_key = ApiKey(request.__api_key__)
    answer = await brokers[1].call(api_key, request.__version__, request)
    assert answer.responses[0].error_code.value == 42
    assert not brokers.controller.envelopes
    return str(answer.responses[0].error_message)


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("listeners", "set it in the file of broker 1 and restart it"),
        ("num.io.threads", "while it runs, it takes leader.replication.throttled.rate and foll"),
        ("listener.name.x.ssl.keystore.location", "cannot be changed while an embedded broker"),
        ("bogus.key", "bogus.key is not a configuration of brokers"),
    ],
)
async def test_what_it_cannot_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str, *, is_long: bool
) -> None:
    monkeypatch.setattr(broker_apis, "LONG_BODY_BYTES", 0 if is_long else 1_000)
    async with cluster(tmp_path, 1) as brokers:
        assert words in await refusal(brokers, incremental(BROKER, "1", name, "x", SET))
        assert words in await refusal(brokers, whole("1", name, "x"))


def test_all_else_goes_to_the_controller() -> None:
    """Also what is set already, in a request that names all that stays."""
    image = Image()
    roll = Config(resource_type=BROKER, resource_name="1", name="log.roll.ms", value="7")
    replay(image, roll, 0)
    forwarded = [
        *(incremental(BROKER, "1", name, "9", SET) for name in DYNAMIC),
        incremental(BROKER, "1", "bogus.key", None, DELETE),
        incremental(BROKER, "1", "node.id", "3", SET),
        incremental(BROKER, "1", "reassignment.completion.rule", "min-isr", SET),
        incremental(BROKER, "2", "num.io.threads", "9", SET),
        incremental(BROKER, "", "num.io.threads", "9", SET),
        incremental(TOPIC, "1", "retention", "9", SET),
        whole("1", "log.roll.ms", "7"),
    ]
    own = OwnConfigs(BrokerId(1), image)
    for request in forwarded:
        assert own.refusal(request.__api_key__, request) is None, request
    changed = whole("1", "log.roll.ms", "8")
    assert own.refusal(changed.__api_key__, changed) is not None
