"""ACLs, SCRAM credentials and delegation tokens.

DescribeAcls (29), CreateAcls (30), DeleteAcls (31); DescribeUserScramCredentials (50) and
AlterUserScramCredentials (51, KIP-554); CreateDelegationToken (38), RenewDelegationToken (39),
ExpireDelegationToken (40) and DescribeDelegationToken (41, KIP-48).
"""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from msgspec.structs import asdict

from controller.apis.access import access_of
from controller.apis.request import (
    KafkaRequest,
    encode_body,
    free_in_slices,
    offload,
    outcome,
    refuse,
)
from controller.service import AsOf, Service
from quorum.core.vocabulary import uuid_to_text
from quorum.protocol.principal import ANONYMOUS
from quorum.protocol.refusals import error_fields
from quorum.transport.security.credentials import ScramCredential, ScramMechanism
from quorum.transport.security.scram import credential_of_salted
from statemachine.commands import (
    AclCreation,
    AclFilter,
    AclsCreated,
    AclsDeleted,
    AclsMatched,
    AlterUserScramCredentials,
    CreateAcls,
    CreateDelegationToken,
    DelegationTokenGiven,
    DeleteAcls,
    ExpireDelegationToken,
    RenewDelegationToken,
    ScramCredentialsAltered,
)
from statemachine.errors import Error, Refusal
from statemachine.records.kafka_records import (
    AccessControlEntry,
    DelegationToken,
    RemoveUserScramCredential,
    UserScramCredential,
)
from statemachine.security import acls
from statemachine.security.delegation_tokens import describe_delegation_tokens
from statemachine.security.rights import CREATE_TOKENS, DESCRIBE_TOKEN, DESCRIBE_TOKENS
from statemachine.security.scram import (
    UserCredentials,
    describe_user_scram_credentials,
)

# An id only has to differ from all others: replay takes it from the record.
_ids = random.SystemRandom()


def new_id() -> UUID:
    """Return the id of a new ACL or token."""
    return UUID(int=_ids.getrandbits(128), version=4)


def _error_fields(refusal: Refusal | None, **values: Any) -> dict[str, Any]:
    if refusal is None:
        return error_fields(Error.NONE.code, "", **values)
    return error_fields(refusal.error.code, refusal.message, **values)


# --- ACLs ----------------------------------------------------------------------------------------


def acls_to_create(message: Any, parts_max: int | None = None) -> CreateAcls:
    """Return the command of a CreateAcls request, or of its first parts."""
    return CreateAcls(
        creations=tuple(
            AclCreation(
                id=new_id(),
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                pattern_type=each.resource_pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
            )
            for each in message.creations[:parts_max]
        )
    )


async def create_acls(request: KafkaRequest, service: Service) -> Any:
    command = acls_to_create(request.message)
    answer = await service.carry_out(command, AclsCreated, who=str(request.principal))
    return request.respond(results=map(outcome, answer.results))


def acls_to_delete(message: Any, parts_max: int | None = None) -> DeleteAcls:
    """Return the command of a DeleteAcls request, or of its first parts."""
    return DeleteAcls(filters=tuple(map(_filter, message.filters[:parts_max])))


async def delete_acls(request: KafkaRequest, service: Service) -> Any:
    command = acls_to_delete(request.message)
    answer = await service.carry_out(command, AclsDeleted, who=str(request.principal))

    def respond() -> bytes:
        return encode_body(request, request.respond(filter_results=map(_deleted, answer.results)))

    return await offload(respond, sum(len(each.acls) for each in answer.results))


def _deleted(result: AclsMatched) -> dict[str, Any]:
    return outcome(result, matching_acls=[_error_fields(None, **asdict(a)) for a in result.acls])


def _filter(asked: Any) -> AclFilter:
    return AclFilter(
        resource_type=asked.resource_type_filter,
        resource_name=asked.resource_name_filter,
        pattern_type=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission_type=asked.permission_type,
    )


async def describe_acls(request: KafkaRequest, service: Service) -> Any:
    """Describe the ACLs that pass a filter (DescribeAcls)."""
    reading = partial(acls.describe_acls, asked=_filter(request.message))
    found = await service.read_long(reading, stale=request.stale)
    matching = found.value
    if isinstance(matching, Refusal):
        return AsOf(refuse(request, matching.error.code, matching.message), found.offset)
    response = await offload(partial(_described, request, matching), len(matching))
    return AsOf(response, found.offset)


def _described(request: KafkaRequest, matching: list[AccessControlEntry]) -> bytes:
    resources = acls.grouped(matching)
    return encode_body(request, request.respond(**_error_fields(None, resources=resources)))


# --- SCRAM credentials ---------------------------------------------------------------------------

_MECHANISMS: Final = {each.number: each for each in ScramMechanism}
_NO_KEYS: Final = ScramCredential(b"", b"", b"", 0)


def scram_changes(message: Any, parts_max: int | None = None) -> AlterUserScramCredentials:
    """Return the command of an AlterUserScramCredentials request, or of its first parts."""
    return AlterUserScramCredentials(
        deletions=tuple(
            RemoveUserScramCredential(name=each.name, mechanism=each.mechanism)
            for each in message.deletions[:parts_max]
        ),
        upsertions=tuple(map(_credential, message.upsertions[:parts_max])),
    )


async def alter_scram_credentials(request: KafkaRequest, service: Service) -> Any:
    """Delete and set SCRAM credentials (AlterUserScramCredentials)."""
    command = scram_changes(request.message)
    answer = await service.carry_out(command, ScramCredentialsAltered, who=str(request.principal))
    return request.respond(results=map(outcome, answer.users))


def _credential(upsertion: Any) -> UserScramCredential:
    return credential_of(
        upsertion.name,
        upsertion.mechanism,
        upsertion.salted_password,
        upsertion.salt,
        upsertion.iterations,
    )


def credential_of(
    name: str, mechanism: int, salted_password: bytes, salt: bytes, iterations: int
) -> UserScramCredential:
    """Return the credential of a user; it has no keys if the mechanism or the password is none."""
    known, keys = _MECHANISMS.get(mechanism), _NO_KEYS
    if known is not None and salted_password:
        keys = credential_of_salted(known, salted_password, salt, iterations)
    return UserScramCredential(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


async def describe_scram_credentials(request: KafkaRequest, service: Service) -> Any:
    """Describe which credentials users have (DescribeUserScramCredentials)."""
    asked = request.message.users
    users = None if asked is None else [each.name for each in asked]

    reading = partial(describe_user_scram_credentials, users=users)
    found = await service.read_long(reading, stale=request.stale)
    respond = partial(_described_users, request, found.value)
    response = await offload(respond, len(found.value))
    free_in_slices(found.value)
    return AsOf(response, found.offset)


def _described_users(request: KafkaRequest, users: list[UserCredentials]) -> bytes:
    results = map(_described_user, users)
    return encode_body(request, request.respond(**_error_fields(None, results=results)))


def _described_user(found: UserCredentials) -> dict[str, Any]:
    infos = [asdict(each) for each in found.infos]
    return _error_fields(found.refusal, user=found.user, credential_infos=infos)


# --- Delegation tokens ---------------------------------------------------------------------------

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999: what kio can write at most."""


def _time(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=min(max(0, ms), _LAST_MS))


def _ms(period: timedelta) -> int:
    return round(period / timedelta(milliseconds=1))


def _principal(principal: str) -> dict[str, str]:
    kind, _, name = principal.partition(":")
    return {"principal_type": kind, "principal_name": name}


def _token_fault(request: KafkaRequest, service: Service) -> Error | None:
    """Return the reason to refuse a request about tokens, or None.

    A client must have authenticated itself, and not by a token: who has one could live on for ever
    by further ones. In Kafka the protocol of its connection decides; a client that is anonymous
    came by one of those.
    """
    if request.principal == ANONYMOUS or request.principal.token_authenticated:
        return Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return None if service.tokens.is_enabled else Error.DELEGATION_TOKEN_AUTH_DISABLED


async def create_token(request: KafkaRequest, service: Service) -> Any:
    """Create a delegation token (CreateDelegationToken)."""
    asked, config = request.message, service.tokens.config
    owner = str(request.principal)
    if getattr(asked, "owner_principal_name", None):
        owner = f"{asked.owner_principal_type}:{asked.owner_principal_name}"
    answer: DelegationTokenGiven
    fault, access = _token_fault(request, service), access_of(request, service)
    if fault is not None:
        answer = DelegationTokenGiven(error=fault)
    elif owner != str(request.principal) and not access.may(CREATE_TOKENS, owner):
        answer = DelegationTokenGiven(error=CREATE_TOKENS.error)
    else:
        command = CreateDelegationToken(
            token_id=uuid_to_text(new_id()),
            owner=owner,
            requester=str(request.principal),
            renewers=tuple(f"{r.principal_type}:{r.principal_name}" for r in asked.renewers),
            max_lifetime_ms=_ms(asked.max_lifetime),
            default_max_lifetime_ms=config.max_lifetime_ms,
            default_renew_period_ms=config.renew_period_ms,
        )
        answer = await service.carry_out(command, DelegationTokenGiven, who=str(request.principal))
    token, requester = answer.token, _principal(str(request.principal))
    return request.respond(
        error_code=answer.error.code,
        **_principal(owner),
        token_requester_principal_type=requester["principal_type"],
        token_requester_principal_name=requester["principal_name"],
        issue_timestamp=_time(0 if token is None else token.issue_timestamp_ms),
        expiry_timestamp=_time(0 if token is None else token.expiration_timestamp_ms),
        max_timestamp=_time(0 if token is None else token.max_timestamp_ms),
        token_id="" if token is None else token.token_id,
        hmac=b"" if token is None else service.tokens.hmac(token.token_id),
    )


async def renew_token(request: KafkaRequest, service: Service) -> Any:
    """Let a delegation token be valid for longer (RenewDelegationToken)."""
    command = RenewDelegationToken(
        token_id=_find(request, service),
        requester=str(request.principal),
        renew_period_ms=_ms(request.message.renew_period),
        default_renew_period_ms=service.tokens.config.renew_period_ms,
    )
    return await _alter_token(request, service, command)


async def expire_token(request: KafkaRequest, service: Service) -> Any:
    """Let a delegation token expire (ExpireDelegationToken)."""
    command = ExpireDelegationToken(
        token_id=_find(request, service),
        requester=str(request.principal),
        expiry_period_ms=_ms(request.message.expiry_time_period),
    )
    return await _alter_token(request, service, command)


def _find(request: KafkaRequest, service: Service) -> str | None:
    if not service.tokens.is_enabled:
        return None
    return service.tokens.find(service.controller.image.delegation_tokens, request.message.hmac)


async def _alter_token(
    request: KafkaRequest, service: Service, command: RenewDelegationToken | ExpireDelegationToken
) -> Any:
    answer: DelegationTokenGiven
    fault = _token_fault(request, service)
    if fault is not None:
        answer = DelegationTokenGiven(error=fault)
    else:
        answer = await service.carry_out(command, DelegationTokenGiven, who=str(request.principal))
    return request.respond(
        error_code=answer.error.code, expiry_timestamp=_time(answer.expiry_timestamp_ms)
    )


async def describe_tokens(request: KafkaRequest, service: Service) -> Any:
    """Describe the delegation tokens that the client may see (DescribeDelegationToken)."""
    fault = _token_fault(request, service)
    if fault is not None:
        return request.respond(error_code=fault.code, tokens=())
    asked = request.message.owners
    owners = None
    if asked is not None:
        owners = [f"{each.principal_type}:{each.principal_name}" for each in asked]

    access = access_of(request, service)

    def may_describe(token: DelegationToken) -> bool:
        return access.may(DESCRIBE_TOKEN, token.token_id, is_told=False) or access.may(
            DESCRIBE_TOKENS, token.owner, is_told=False
        )

    reading = partial(
        describe_delegation_tokens,
        requester=str(request.principal),
        owners=owners,
        may_describe=may_describe,
    )
    found = await service.read_long(reading, stale=request.stale)
    respond = partial(_described_tokens, request, service, found.value)
    return AsOf(await offload(respond, len(found.value)), found.offset)


def _described_tokens(
    request: KafkaRequest, service: Service, tokens: list[DelegationToken]
) -> bytes:
    fields = [_described_token(service, each) for each in tokens]
    return encode_body(request, request.respond(error_code=Error.NONE.code, tokens=fields))


def _described_token(service: Service, token: DelegationToken) -> dict[str, Any]:
    requester = _principal(token.requester)
    return {
        **_principal(token.owner),
        "token_requester_principal_type": requester["principal_type"],
        "token_requester_principal_name": requester["principal_name"],
        "issue_timestamp": token.issue_timestamp_ms,
        "expiry_timestamp": token.expiration_timestamp_ms,
        "max_timestamp": token.max_timestamp_ms,
        "token_id": token.token_id,
        "hmac": service.tokens.hmac(token.token_id),
        "renewers": [_principal(each) for each in token.renewers],
    }
