"""The questions of those who care for brokers, and how their answers are read."""

from collections.abc import Sequence
from typing import Any, Final

from admin.care import (
    BrokerResult,
    BrokerStanding,
    BrokerStandings,
    HurtPartition,
    Operation,
    SafetyReport,
)
from admin.client.asking import Answer, Question
from admin.client.channels import Form
from admin.faults import error_name
from admin.model import PartitionId
from quorum.protocol.apis import ApiKey

BROKER_ID_NOT_REGISTERED: Final = 102
LOOK: Final = "metaquorum brokers list"
"""What shows which brokers there are, and which of them are cordoned."""


def alter_brokers(broker_ids: Sequence[int], operation: Operation) -> Question:
    """Let these get no new replicas, or again, or forget them."""

    def fill(form: Form) -> Any:
        return form.request(
            timeout=form.patience,
            broker_ids=tuple(broker_ids),
            operation=operation.value,
        )

    return Question(
        api_key=ApiKey.ALTER_BROKERS,
        fill=fill,
        failing=f"brokers {_listed(broker_ids)} cannot be {operation.participle}",
        look=LOOK,
    )


def read_alterations(response: Any) -> Sequence[BrokerResult]:
    """One result for each broker named."""
    return tuple(
        BrokerResult(
            broker_id=each.broker_id,
            error_code=int(each.error_code),
            error_name=error_name(int(each.error_code)),
            message=each.error_message,
        )
        for each in response.brokers
    )


def safe_to_stop(broker_ids: Sequence[int]) -> Question:
    """What would be hurt if all of these stopped."""
    return Question(
        api_key=ApiKey.SAFE_TO_STOP,
        fill=lambda form: form.request(broker_ids=tuple(broker_ids)),
        failing=f"whether {_listed(broker_ids)} may stop cannot be said",
    )


def read_safety(answer: Answer) -> SafetyReport:
    """What would be hurt."""
    response = answer.response
    return SafetyReport(
        hurt=[
            HurtPartition(
                id=PartitionId(each.topic_name, each.partition_index),
                harm=each.harm,
                left=each.left,
                min_isr=each.min_isr,
            )
            for each in response.hurt
        ],
        hurt_count=response.hurt_count,
        looked_at=response.looked_at,
        as_of=answer.as_of,
    )


def describe_brokers(broker_ids: Sequence[int] | None) -> Question:
    """These brokers, or all that are registered."""
    wanted = None if broker_ids is None else tuple(broker_ids)
    return Question(
        api_key=ApiKey.DESCRIBE_BROKERS,
        fill=lambda form: form.request(broker_ids=wanted),
        failing="the brokers cannot be described",
    )


def read_standings(answer: Answer) -> BrokerStandings:
    """The brokers with what they have."""
    return BrokerStandings(
        brokers=tuple(
            BrokerStanding(
                id=each.broker_id,
                epoch=each.broker_epoch,
                rack=each.rack,
                is_fenced=each.is_fenced,
                is_stopping=each.is_stopping,
                is_cordoned=each.is_cordoned,
                replica_count=each.replica_count,
                in_sync_count=each.in_sync_count,
                leader_count=each.leader_count,
                is_to_be_unregistered=each.to_be_unregistered,
            )
            for each in answer.response.brokers
        ),
        as_of=answer.as_of,
    )


def unregister_broker(broker_id: int) -> Question:
    """Forget a broker that will not come back."""
    return Question(
        api_key=ApiKey.UNREGISTER_BROKER,
        fill=lambda form: form.request(broker_id=broker_id),
        failing=f"broker {broker_id} cannot be unregistered",
        done_before=BROKER_ID_NOT_REGISTERED,
        look=LOOK,
    )


def _listed(broker_ids: Sequence[int]) -> str:
    return ", ".join(map(str, broker_ids))
