"""Kafka's requests about users (SCRAM credentials) and ACLs, as calls of a client."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from admin.client.channels import only
from admin.client.retrying_client import Call, Verdict, verdict_of
from quorum.protocol.apis import ApiKey
from quorum.transport.security.credentials import ScramMechanism
from quorum.transport.security.scram import SALT_BYTES, salted_password
from statemachine.errors import Error
from statemachine.security.authorizer import (
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)


@dataclass(frozen=True, slots=True)
class User:
    """A SCRAM credential of a user, without its secrets."""

    name: str
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """An access control entry."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission_type: PermissionType

    def __str__(self) -> str:
        resource = f"{self.resource_type.name} {self.resource_name}"
        if self.pattern_type is PatternType.PREFIXED:
            resource += "*"
        return f"{self.permission_type.name} {self.operation.name} on {resource}: {self.principal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """The ACLs that have all of these; None and ANY match every one."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission_type: PermissionType = PermissionType.ANY

    def fields(self) -> dict[str, Any]:
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.resource_name,
            "pattern_type_filter": self.pattern_type,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission_type,
        }


_MECHANISMS: Final = {each.number: each.mechanism for each in ScramMechanism}


def describe_users() -> Call:
    """Describe the credentials of all users (KIP-554)."""
    return Call(
        api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        # No names stand for all users. So does None, but a broker of Kafka never answers that to a
        # client without the right: its error response is made from the names.
        fill=lambda form: form.request(users=()),
        judge=_judge_description,
        failing="the users cannot be listed",
        status_command=None,
    )


def _judge_description(response: Any) -> Verdict:
    """The verdict on a description; Kafka's brokers answer without naming the missing right."""
    verdict = verdict_of(response)
    is_unnamed = "needs DESCRIBE on" not in (verdict.message or "")
    if verdict.code == Error.CLUSTER_AUTHORIZATION_FAILED.code and is_unnamed:
        return replace(verdict, message="this client needs DESCRIBE on CLUSTER kafka-cluster")
    return verdict


def read_users(response: Any) -> Sequence[User]:
    """Return the credentials in an answer, by user and mechanism."""
    found = (
        User(each.user, _MECHANISMS.get(info.mechanism, str(info.mechanism)), info.iterations)
        for each in response.results
        for info in each.credential_infos
    )
    return sorted(found, key=lambda each: (each.name, each.mechanism))


def set_user(name: str, mechanism: ScramMechanism, password: str, iterations: int) -> Call:
    """Set the password of a user. It takes milliseconds: the password itself is not sent."""
    salt = secrets.token_bytes(SALT_BYTES)
    upsertion = {
        "name": name,
        "mechanism": mechanism.number,
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted_password(mechanism, password, salt, iterations),
    }
    return _alter_users(f"user {name} cannot be added", upsertions=[upsertion])


def remove_user(name: str, mechanism: ScramMechanism) -> Call:
    """Remove the credential of a user for a mechanism."""
    deletion = {"name": name, "mechanism": mechanism.number}
    return _alter_users(f"user {name} cannot be removed", deletions=[deletion])


def _alter_users(failing: str, **changes: Any) -> Call:
    return Call(
        api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        fill=lambda form: form.request(**{"deletions": (), "upsertions": (), **changes}),
        judge=lambda response: _first_failure(response.results),
        failing=failing,
        status_command="metaquorum users list",
        # A removal that is tried again may find it gone.
        done_before=Error.RESOURCE_NOT_FOUND.code if "deletions" in changes else None,
    )


def create_acls(acls: Sequence[Acl]) -> Call:
    """Create ACLs; those that are there already stay."""
    creations = []
    for each in acls:
        fields = asdict(each)
        fields["resource_pattern_type"] = fields.pop("pattern_type")
        creations.append(fields)
    return Call(
        api_key=ApiKey.CREATE_ACLS,
        fill=lambda form: form.request(creations=creations),
        judge=lambda response: _first_failure(response.results),
        failing="the ACLs cannot be created",
        status_command="metaquorum acls list",
    )


def delete_acls(asked: AclFilter) -> Call:
    """Delete the ACLs that a filter matches."""
    return Call(
        api_key=ApiKey.DELETE_ACLS,
        fill=lambda form: form.request(filters=[asked.fields()]),
        judge=lambda response: _first_failure(response.filter_results),
        failing="the ACLs cannot be deleted",
        status_command="metaquorum acls list",
    )


def read_deleted(response: Any) -> Sequence[Acl]:
    """Return the ACLs that were deleted."""
    result = only(response.filter_results)
    return _sorted(_acl(each, each) for each in result.matching_acls)


def describe_acls(asked: AclFilter) -> Call:
    """Describe the ACLs that a filter matches."""
    return Call(
        api_key=ApiKey.DESCRIBE_ACLS,
        fill=lambda form: form.request(**asked.fields()),
        judge=_judge_description,
        failing="the ACLs cannot be listed",
        status_command=None,
    )


def read_acls(response: Any) -> Sequence[Acl]:
    """Return the ACLs in an answer, by resource and principal."""
    return _sorted(_acl(found, each) for found in response.resources for each in found.acls)


def _acl(resource: Any, entry: Any) -> Acl:
    return Acl(
        resource_type=ResourceType(resource.resource_type),
        resource_name=resource.resource_name,
        pattern_type=PatternType(resource.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=Operation(entry.operation),
        permission_type=PermissionType(entry.permission_type),
    )


def _sorted(acls: Iterator[Acl]) -> Sequence[Acl]:
    return sorted(acls, key=lambda each: tuple(asdict(each).values()))


def _first_failure(results: Sequence[Any]) -> Verdict:
    return next((each for each in map(verdict_of, results) if each.code), Verdict())
