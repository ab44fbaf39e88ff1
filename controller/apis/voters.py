"""Who votes: AlterQuorum (20001, KIP-595), and AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter
(80, 81, 82, KIP-853). Each is answered once its record is committed.
"""

from typing import Any, Final
from uuid import UUID

from controller.apis.request import TIMEOUT_MS_MAX, KafkaRequest, code
from controller.service import Service
from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from quorum.core.vocabulary import NO_DIRECTORY, Epoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter
from quorum.protocol.errors import ErrorCode

UNSAID_TIMEOUT_MS: Final = 2_000
"""How long a change may wait whose request does not say it (RemoveRaftVoter, if Kafka's tool asks),
as with Kafka, where it is controller.quorum.request.timeout.ms: whoever asks hears why, and may ask
again."""

_SHARE_OF_TIME: Final = 9 / 10
"""Of the time that the asker gives, what the leader may use up: its answer has to get there."""


async def alter_quorum(request: KafkaRequest, service: Service) -> Any:
    target = request.message.target_voters
    keys = None if target is None else tuple(_key(each) for each in target)
    return await _ask(
        request, service, AlterQuorumRequest(target=keys, timeout_ms=_timeout_ms(request))
    )


async def add_voter(request: KafkaRequest, service: Service) -> Any:
    voter = Voter(_key(request.message), _endpoints(request))
    if voter.id < 0 or not voter.directory_id_is_known:
        return refuse(
            request,
            ErrorCode.INVALID_REQUEST,
            f"{voter.key.text}: an id and a directory id are needed",
        )
    if not voter.endpoints:
        return refuse(request, ErrorCode.INVALID_REQUEST, f"{voter.key.text} names no listener")
    change = AddVoterRequest(voter=voter, timeout_ms=_timeout_ms(request))
    return await _ask(request, service, change)


async def remove_voter(request: KafkaRequest, service: Service) -> Any:
    change = RemoveVoterRequest(voter=_key(request.message), timeout_ms=_timeout_ms(request))
    return await _ask(request, service, change)


async def update_voter(request: KafkaRequest, service: Service) -> Any:
    message = request.message
    levels = message.k_raft_version_feature
    voter = Voter(
        _key(message),
        _endpoints(request),
        levels.min_supported_version,
        levels.max_supported_version,
    )
    epoch = Epoch(message.current_leader_epoch)
    change = UpdateVoterRequest(epoch=epoch, voter=voter, timeout_ms=_timeout_ms(request))
    return await _ask(request, service, change)


def refuse(request: KafkaRequest, error: int, message: str) -> Any:
    return request.respond(error_code=code(error), error_message=message or None)


def refuse_update(request: KafkaRequest, error: int, _message: str) -> Any:
    """UpdateRaftVoter has no room for a message, and always names a leader."""
    leader = request.part("CurrentLeader", leader_id=-1, leader_epoch=-1, host="", port=-1)
    return request.respond(error_code=code(error), current_leader=leader)


async def _ask(request: KafkaRequest, service: Service, change: VoterRequest) -> Any:
    answer = refuse_update if isinstance(change, UpdateVoterRequest) else refuse
    cluster_id = request.message.cluster_id
    if cluster_id is not None and service.cluster_id not in (None, cluster_id):
        text = f"this is cluster {service.cluster_id}, not {cluster_id}"
        return answer(request, ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    response = await service.want_voters(request.principal, change)
    return answer(request, response.error, response.text)


def _key(named: Any) -> ReplicaKey:
    directory_id: UUID | None = named.voter_directory_id
    return ReplicaKey(ReplicaId(named.voter_id), directory_id or NO_DIRECTORY)


def _endpoints(request: KafkaRequest) -> tuple[Endpoint, ...]:
    listeners = request.message.listeners
    return tuple(Endpoint(each.name, each.host, int(each.port)) for each in listeners)


def _timeout_ms(request: KafkaRequest) -> int:
    asked_ms = UNSAID_TIMEOUT_MS if request.asked_ms is None else request.asked_ms
    return round(max(0, min(asked_ms, TIMEOUT_MS_MAX)) * _SHARE_OF_TIME)
