"""The requests that brokers forward and controllers serve: two tables of two packages agree."""

from broker.apis.broker_apis import FORWARDED, OFFERED
from controller.apis import admin_apis, controller_apis
from quorum.protocol.apis import ApiKey


def test_brokers_offer_of_the_controllers_what_these_serve() -> None:
    """A client that is offered more would be answered with a closed connection."""
    offered = {key: OFFERED[key] for key in FORWARDED}
    served = {key: controller_apis.OFFERED[key] for key in FORWARDED}
    assert offered == served


def test_brokers_pass_on_all_that_only_an_active_controller_can_do() -> None:
    active = {key for key, api in admin_apis.APIS.items() if not api.anywhere}
    # Only a voter asks for this, of its leader; Kafka's brokers do not offer it either.
    active -= {ApiKey.UPDATE_RAFT_VOTER}
    # A broker describes them from its own image, as Kafka's do.
    assert active - {ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_CLIENT_QUOTAS} == set(FORWARDED)
    assert active <= set(OFFERED)
    assert ApiKey.ALTER_PARTITION_REASSIGNMENTS in active
