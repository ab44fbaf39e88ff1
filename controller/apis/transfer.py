"""Who leads: TransferLeadership (20002), answered when another one does, or with why none will."""

from datetime import timedelta
from typing import Any, Final

from admin.model import NO_LEADER
from controller.apis.request import KafkaRequest, code
from controller.service import Service
from quorum.core.messages import TransferResponse
from quorum.core.vocabulary import ReplicaId
from quorum.protocol.errors import ErrorCode

ANYBODY: Final = -1


async def transfer_leadership(call: KafkaRequest, service: Service) -> Any:
    cluster_id, wanted = call.message.cluster_id, call.message.voter_id
    if cluster_id is not None and service.cluster_id not in (None, cluster_id):
        text = f"this is cluster {service.cluster_id}, not {cluster_id}"
        return refuse(call, ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    to = None if wanted == ANYBODY else ReplicaId(wanted)
    found = await service.transfer_leadership(call.principal, to)
    if isinstance(found, TransferResponse):
        return call.respond(
            error_code=code(found.error),
            error_message=found.text or None,
            leader_id=NO_LEADER if found.leader is None else found.leader,
            leader_epoch=found.epoch,
        )
    return call.respond(
        error_code=code(0),
        error_message=None,
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        duration=timedelta(milliseconds=found.duration_ms),
    )


def refuse(call: KafkaRequest, error: int, message: str) -> Any:
    return call.respond(error_code=code(error), error_message=message or None, duration=timedelta())
