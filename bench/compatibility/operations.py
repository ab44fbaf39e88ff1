"""The operations of the table: how the cluster is prepared for each, and how its outcome is judged.

A client's exit code or return value is not believed: the judge looks for the topic, the setting or
the records, and only of a call that reads it searches the output.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from admin.capabilities.quotas import AlterQuotas, Entity, ListQuotas
from admin.client.security import (
    Acl,
    AclFilter,
    create_acls,
    delete_acls,
    describe_acls,
    describe_users,
    read_acls,
    read_users,
    remove_user,
    set_user,
)
from admin.faults import AdminError
from admin.model import PartitionDescription
from bench.compatibility import reasons
from bench.compatibility.model import Case, Failed, Operation, Place
from bench.compatibility.site import until
from quorum.transport.security.credentials import ScramMechanism
from statemachine.commands import UpgradeType
from statemachine.security.authorizer import (
    Operation as Right,
)
from statemachine.security.authorizer import PatternType, PermissionType, ResourceType
from statemachine.vocabulary import BROKER_RESOURCE

RETENTION: Final = "retention.ms"
RETENTION_MS: Final = "7654321"
BROKER_SETTING: Final = "leader.replication.throttled.rate"
BROKER_VALUE: Final = "76543210"
RECORDS: Final = 57
"""A number that appears in nothing else that a client prints about a topic."""
KEPT_FROM: Final = 3
GROUP_OFFSET: Final = 41
ITERATIONS: Final = 4_321
QUOTA: Final = "producer_byte_rate"
QUOTA_BYTES: Final = 54_321
FEATURE: Final = "eligible.leader.replicas.version"
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
_PADDING: Final = "a" * 400
"""librdkafka sends a batch uncompressed that compression does not make smaller."""


def expect(condition: object, text: str) -> None:
    """Raise `Failed` unless the condition holds."""
    if not condition:
        raise Failed(text)


def eventually(holds: Callable[[], object], wanted: str) -> None:
    """Raise `Failed` unless it comes true within the patience of the run."""
    try:
        until(holds, wanted)
    except TimeoutError as error:
        raise Failed(str(error)) from None


def shows(*wanted: Callable[[Case], str]) -> Callable[[Case, str], None]:
    """Judge a call that reads by words that its output must have, in upper or lower case."""

    def judge(case: Case, said: str) -> None:
        for each in wanted:
            word = each(case)
            pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
            expect(re.search(pattern, said, re.IGNORECASE), f"{word} is not in: {said[:300]}")

    return judge


def name(case: Case) -> str:
    """The name of the case."""
    return case.name


def constant(word: object) -> Callable[[Case], str]:
    """The same word for each case."""
    return lambda _: str(word)


# --- the cluster ---------------------------------------------------------------------------------


def _shows_nodes(case: Case, said: str) -> None:
    nodes = case.site.controllers if case.place is Place.CONTROLLERS else case.site.servers
    for address in nodes.split(","):
        port = address.rpartition(":")[2]
        expect(port in said, f"port {port} is not in: {said[:300]}")


DESCRIBE_CLUSTER: Final = Operation(
    label="describe the cluster",
    judge=shows(lambda case: case.site.cluster_id),
    only_reads=True,
)
LIST_NODES: Final = Operation(label="list the nodes", judge=_shows_nodes, only_reads=True)
LIST_APIS: Final = Operation(
    label="list the API versions", judge=shows(constant("Metadata")), only_reads=True
)

# --- topics --------------------------------------------------------------------------------------


def _partitions(case: Case) -> Sequence[PartitionDescription]:
    found = case.site.topic(case.name)
    return () if found is None else found.partitions


def _is_created(case: Case, _: str) -> None:
    eventually(lambda: _partitions(case), f"topic {case.name}")
    replicas = [len(each.replicas) for each in _partitions(case)]
    expect(replicas == [2, 2], f"the replicas of the partitions are {replicas}")
    found = case.site.topic_config(case.name, RETENTION)
    expect(found == RETENTION_MS, f"{RETENTION} is {found}")


def _one_partition(case: Case) -> None:
    case.site.create(case.name, [case.brokers[:2]], {RETENTION: RETENTION_MS})


def _drop_topic(case: Case) -> None:
    case.site.delete(case.name)


def _has_partitions(case: Case, _: str) -> None:
    eventually(lambda: len(_partitions(case)) == 3, "a topic of 3 partitions")


def _is_deleted(case: Case, _: str) -> None:
    eventually(lambda: case.site.topic(case.name) is None, "the end of the topic")


CREATE_TOPIC: Final = Operation(label="create a topic", judge=_is_created, clean_up=_drop_topic)
LIST_TOPICS: Final = Operation(
    label="list topics",
    prepare=_one_partition,
    judge=shows(name),
    clean_up=_drop_topic,
    only_reads=True,
)
DESCRIBE_TOPIC: Final = replace(
    LIST_TOPICS,
    label="describe a topic",
    judge=shows(name, lambda case: str(case.brokers[0]), lambda case: str(case.brokers[1])),
)
ADD_PARTITIONS: Final = Operation(
    label="add partitions", prepare=_one_partition, judge=_has_partitions, clean_up=_drop_topic
)
DELETE_TOPIC: Final = Operation(
    label="delete a topic", prepare=_one_partition, judge=_is_deleted, clean_up=_drop_topic
)

# --- configurations ------------------------------------------------------------------------------


def _topic_is_set(case: Case, _: str) -> None:
    eventually(
        lambda: case.site.topic_config(case.name, RETENTION) == "600000", f"{RETENTION}=600000"
    )


def _broker(case: Case) -> str:
    return str(case.brokers[0])


def _broker_is_set(case: Case, _: str) -> None:
    eventually(
        lambda: case.site.config(BROKER_RESOURCE, _broker(case), BROKER_SETTING) == BROKER_VALUE,
        f"{BROKER_SETTING}={BROKER_VALUE}",
    )


def _set_broker(case: Case) -> None:
    values = {BROKER_SETTING: BROKER_VALUE}
    case.site.ask(lambda client: client.alter_configs(BROKER_RESOURCE, _broker(case), values))


def _reset_broker(case: Case) -> None:
    unset = [BROKER_SETTING]
    case.site.ask(lambda client: client.alter_configs(BROKER_RESOURCE, _broker(case), {}, unset))


DESCRIBE_TOPIC_CONFIG: Final = replace(
    LIST_TOPICS, label="describe the settings of a topic", judge=shows(constant(RETENTION_MS))
)
ALTER_TOPIC_CONFIG: Final = Operation(
    label="change a setting of a topic",
    prepare=_one_partition,
    judge=_topic_is_set,
    clean_up=_drop_topic,
)


def _default_is_set(case: Case, _: str) -> None:
    eventually(
        lambda: case.site.config(BROKER_RESOURCE, "", BROKER_SETTING) == BROKER_VALUE,
        f"{BROKER_SETTING}={BROKER_VALUE}",
    )


def _reset_default(case: Case) -> None:
    unset = [BROKER_SETTING]
    case.site.ask(lambda client: client.alter_configs(BROKER_RESOURCE, "", {}, unset))


ALTER_DEFAULT_CONFIG: Final = Operation(
    label="change a setting of all brokers", judge=_default_is_set, clean_up=_reset_default
)
DESCRIBE_BROKER_CONFIG: Final = Operation(
    label="describe the settings of a broker",
    prepare=_set_broker,
    judge=shows(constant(BROKER_SETTING), constant(BROKER_VALUE)),
    clean_up=_reset_broker,
    only_reads=True,
)
ALTER_BROKER_CONFIG: Final = Operation(
    label="change a setting of a broker", judge=_broker_is_set, clean_up=_reset_broker
)

# --- partitions ----------------------------------------------------------------------------------


def _records(case: Case) -> None:
    _one_partition(case)
    case.site.write(case.name, [f"record {number}" for number in range(RECORDS)])


def _begins_later(case: Case, _: str) -> None:
    eventually(lambda: case.site.earliest(case.name) == KEPT_FROM, f"a first offset of {KEPT_FROM}")


def _led_by_another(case: Case) -> None:
    """The order of the replicas changes, and with it the preferred leader, not the leader."""
    _one_partition(case)
    _move(case, case.brokers[1::-1])
    until(lambda: not case.site.is_moving(case.name), "an end of the move")


def _is_led_by_preferred(case: Case, _: str) -> None:
    leader = case.brokers[1]
    eventually(lambda: _partitions(case)[0].leader == leader, f"leader {leader}")


def _move(case: Case, replicas: Sequence[int]) -> None:
    case.site.move(case.name, replicas)


def _is_at(case: Case, replicas: Sequence[int]) -> bool:
    moving = case.site.is_moving(case.name)
    return not moving and sorted(_partitions(case)[0].replicas) == sorted(replicas)


def _has_moved(case: Case, _: str) -> None:
    target = [case.brokers[1], case.brokers[2]]
    eventually(lambda: _is_at(case, target), f"the topic on brokers {target}")


def _moving(case: Case) -> None:
    """Move to a broker that never fetches, so that the reassignment lasts."""
    _one_partition(case)
    case.broker = case.site.register_fenced()
    _move(case, [case.brokers[0], case.broker])
    until(lambda: case.site.is_moving(case.name), "a move")


def _stop_moving(case: Case) -> None:
    with suppress(AdminError):
        _drop_topic(case)
    if case.broker:
        with suppress(AdminError):
            case.site.unregister(case.broker)


def _is_cancelled(case: Case, _: str) -> None:
    eventually(lambda: _is_at(case, case.brokers[:2]), "the topic where it was")


DESCRIBE_LOG_DIRS: Final = replace(LIST_TOPICS, label="describe log directories", prepare=_records)
LIST_OFFSETS: Final = replace(
    LIST_TOPICS, label="list offsets", prepare=_records, judge=shows(constant(RECORDS))
)
DELETE_RECORDS: Final = Operation(
    label="delete records",
    prepare=_records,
    judge=_begins_later,
    clean_up=_drop_topic,
    no={Place.EMBEDDED: reasons.NO_DELETION},
)
ELECT_LEADERS: Final = Operation(
    label="elect the preferred leader",
    prepare=_led_by_another,
    judge=_is_led_by_preferred,
    clean_up=_drop_topic,
)
REASSIGN: Final = Operation(
    label="reassign a partition", prepare=_one_partition, judge=_has_moved, clean_up=_drop_topic
)
PROPOSE: Final = replace(
    LIST_TOPICS, label="generate a plan", judge=shows(name, constant("Proposed"))
)
VERIFY: Final = replace(
    LIST_TOPICS, label="verify a reassignment", judge=shows(constant("completed"))
)
LIST_REASSIGNMENTS: Final = Operation(
    label="list reassignments",
    prepare=_moving,
    judge=shows(name, lambda case: str(case.broker)),
    clean_up=_stop_moving,
    only_reads=True,
)
CANCEL_REASSIGNMENT: Final = Operation(
    label="cancel a reassignment", prepare=_moving, judge=_is_cancelled, clean_up=_stop_moving
)

# --- records -------------------------------------------------------------------------------------


def _to_write(case: Case) -> None:
    _one_partition(case)
    case.values = [f"{case.name} {number} {_PADDING}" for number in range(3)]


def _is_written(case: Case, _: str) -> None:
    found = case.site.read(case.name, len(case.values))
    expect(found == list(case.values), f"{len(found)} records are back: {str(found)[:200]}")
    codec = case.site.codec(case.name)
    expect(codec == case.codec, f"the batch on the disk has the codec {codec}")


def _to_read(case: Case) -> None:
    _one_partition(case)
    case.values = [f"{case.name} {codec} {_PADDING}" for codec in case.codecs]
    for codec, value in zip(case.codecs, case.values, strict=True):
        case.site.write(case.name, [value], codec)


def _shows_records(case: Case, said: str) -> None:
    found = [codec for codec, value in zip(case.codecs, case.values, strict=True) if value in said]
    expect(found == list(case.codecs), f"only the records of {found} are in: {said[-300:]}")


def _producing(label: str, acks: str = "all", codec: str = "none") -> Operation:
    return Operation(
        label=label,
        prepare=_to_write,
        judge=_is_written,
        clean_up=_drop_topic,
        given={"acks": acks, "codec": codec},
    )


PRODUCE: Final = tuple(_producing(f"produce with acks={acks}", acks) for acks in ("0", "1", "all"))
PRODUCE_CODEC: Final = {codec: _producing(f"produce with {codec}", codec=codec) for codec in CODECS}
PRODUCE_IDEMPOTENT: Final = _producing("produce, idempotent")
CONSUME: Final = Operation(
    label="consume, without a group, every codec",
    prepare=_to_read,
    judge=_shows_records,
    clean_up=_drop_topic,
)

# --- groups and transactions ---------------------------------------------------------------------


def _group(case: Case) -> None:
    _records(case)
    if case.place is Place.KAFKA:
        case.site.commit(case.name, case.name, GROUP_OFFSET)


def _has_consumed(case: Case, said: str) -> None:
    _shows_records(case, said)
    count = len(case.values)
    eventually(
        lambda: case.site.committed(case.name, case.name) == count, f"committed offset {count}"
    )


def _group_is_gone(case: Case, _: str) -> None:
    eventually(lambda: case.site.committed(case.name, case.name) < 0, "the end of the group")


def _group_is_reset(case: Case, _: str) -> None:
    eventually(lambda: case.site.committed(case.name, case.name) == 0, "committed offset 0")


CONSUME_IN_GROUP: Final = replace(
    CONSUME,
    label="join a group, consume and commit",
    judge=_has_consumed,
    no={Place.EMBEDDED: reasons.NO_GROUPS},
)
LIST_GROUPS: Final = Operation(
    label="list groups",
    prepare=_group,
    judge=shows(name),
    clean_up=_drop_topic,
    no={Place.EMBEDDED: reasons.NO_GROUPS},
    only_reads=True,
)
DESCRIBE_GROUP: Final = replace(
    LIST_GROUPS,
    label="describe a group and its offsets",
    judge=shows(name, constant(GROUP_OFFSET)),
)
RESET_GROUP: Final = Operation(
    label="reset the offsets of a group",
    prepare=_group,
    judge=_group_is_reset,
    clean_up=_drop_topic,
    no={Place.EMBEDDED: reasons.NO_GROUPS},
)
DELETE_GROUP: Final = replace(RESET_GROUP, label="delete a group", judge=_group_is_gone)


def _transaction(case: Case) -> None:
    _one_partition(case)
    if case.place is Place.KAFKA:
        case.site.write_transaction(case.name, case.name, ["in a transaction"])


PRODUCE_TRANSACTION: Final = replace(
    _producing("produce in a transaction"), no={Place.EMBEDDED: reasons.NO_TRANSACTIONS}
)
LIST_TRANSACTIONS: Final = replace(
    LIST_TOPICS,
    label="list transactions",
    prepare=_transaction,
    judge=shows(name),
    no={Place.EMBEDDED: reasons.NO_TRANSACTIONS},
)

# --- security ------------------------------------------------------------------------------------


def _principal(case: Case) -> str:
    return f"User:{case.name}"


def _acls_of(case: Case) -> AclFilter:
    return AclFilter(principal=_principal(case))


def _add_acl(case: Case) -> None:
    acl = Acl(
        resource_type=ResourceType.TOPIC,
        resource_name=case.name,
        pattern_type=PatternType.LITERAL,
        principal=_principal(case),
        host="*",
        operation=Right.READ,
        permission_type=PermissionType.ALLOW,
    )
    case.site.ask(lambda client: client.carry_out(create_acls([acl])))


def _acls(case: Case) -> Sequence[Acl]:
    return read_acls(case.site.ask(lambda client: client.carry_out(describe_acls(_acls_of(case)))))


def _drop_acls(case: Case) -> None:
    case.site.ask(lambda client: client.carry_out(delete_acls(_acls_of(case))))


def _acl_is_there(case: Case, _: str) -> None:
    eventually(lambda: _acls(case), "the ACL")
    (acl,) = _acls(case)
    wanted = (ResourceType.TOPIC, case.name, Right.READ, PermissionType.ALLOW)
    found = (acl.resource_type, acl.resource_name, acl.operation, acl.permission_type)
    expect(found == wanted, f"the ACL is {acl}")


def _acl_is_gone(case: Case, _: str) -> None:
    eventually(lambda: not _acls(case), "the end of the ACL")


CREATE_ACL: Final = Operation(label="create an ACL", judge=_acl_is_there, clean_up=_drop_acls)
LIST_ACLS: Final = Operation(
    label="list ACLs",
    prepare=_add_acl,
    judge=shows(name),
    clean_up=_drop_acls,
    only_reads=True,
)
DELETE_ACL: Final = Operation(
    label="delete an ACL", prepare=_add_acl, judge=_acl_is_gone, clean_up=_drop_acls
)

_MECHANISM: Final = ScramMechanism.SHA_256


def _set_user(case: Case) -> None:
    call = set_user(case.name, _MECHANISM, "a password", ITERATIONS)
    case.site.ask(lambda client: client.carry_out(call))


def _drop_user(case: Case) -> None:
    with suppress(AdminError):
        case.site.ask(lambda client: client.carry_out(remove_user(case.name, _MECHANISM)))


def _iterations(case: Case) -> int | None:
    users = read_users(case.site.ask(lambda client: client.carry_out(describe_users())))
    return next((each.iterations for each in users if each.name == case.name), None)


def _user_is_set(case: Case, _: str) -> None:
    eventually(lambda: _iterations(case) == ITERATIONS, f"a user with {ITERATIONS} iterations")


ALTER_SCRAM: Final = Operation(
    label="set a SCRAM credential", judge=_user_is_set, clean_up=_drop_user
)
DESCRIBE_SCRAM: Final = Operation(
    label="describe SCRAM credentials",
    prepare=_set_user,
    judge=shows(name, constant(ITERATIONS)),
    clean_up=_drop_user,
    only_reads=True,
)


def _set_quota(case: Case) -> None:
    change = AlterQuotas(entity=Entity(user=case.name), set={QUOTA: QUOTA_BYTES})
    case.site.ask(lambda client: client.ask(change))


def _drop_quota(case: Case) -> None:
    change = AlterQuotas(entity=Entity(user=case.name), delete=(QUOTA,))
    case.site.ask(lambda client: client.ask(change))


def _quota(case: Case) -> float | None:
    asked = ListQuotas(user=case.name)
    found = case.site.ask(lambda client: client.ask(asked))
    return next((each.quotas.get(QUOTA) for each in found.entities), None)


def _quota_is_set(case: Case, _: str) -> None:
    eventually(lambda: _quota(case) == QUOTA_BYTES, f"{QUOTA}={QUOTA_BYTES}")


ALTER_QUOTA: Final = Operation(label="set a quota", judge=_quota_is_set, clean_up=_drop_quota)
DESCRIBE_QUOTAS: Final = Operation(
    label="describe quotas",
    prepare=_set_quota,
    judge=shows(name, constant(QUOTA_BYTES)),
    clean_up=_drop_quota,
    only_reads=True,
)

# --- features, the quorum, brokers ---------------------------------------------------------------


def _level(case: Case) -> int:
    features = case.site.ask(lambda client: client.describe_features()).features
    return next((each.level for each in features if each.name == FEATURE), 0)


def _feature_off(case: Case) -> None:
    if _level(case):
        down = UpgradeType.SAFE_DOWNGRADE
        case.site.ask(lambda client: client.update_features({FEATURE: 0}, upgrade_type=down))
        until(lambda: not _level(case), f"{FEATURE} 0")


def _feature_is_on(case: Case, _: str) -> None:
    eventually(lambda: _level(case) == 1, f"{FEATURE} 1")


def _shows_quorum(case: Case, said: str) -> None:
    quorum = case.site.quorum()
    for each in quorum.voters:
        expect(re.search(rf"\b{each.id}\b", said), f"voter {each.id} is not in: {said[:300]}")
    for each in quorum.observers:
        expect(re.search(rf"\b{each.id}\b", said), f"observer {each.id} is not in: {said[:300]}")


def _one_voter_less(case: Case) -> None:
    case.site.restore_voters()
    case.site.remove_voter(case.site.a_follower())


def _all_voters(case: Case) -> None:
    case.site.restore_voters()


def _voters_are(count: int) -> Callable[[Case, str], None]:
    def judge(case: Case, _: str) -> None:
        eventually(lambda: len(case.site.quorum().voters) == count, f"a quorum of {count} voters")

    return judge


def _fenced_broker(case: Case) -> None:
    case.broker = case.site.register_fenced()


def _is_unregistered(case: Case, _: str) -> None:
    eventually(lambda: not case.site.is_registered(case.broker), "the end of the broker")


DESCRIBE_FEATURES: Final = Operation(
    label="describe features", judge=shows(constant("metadata.version")), only_reads=True
)
UPDATE_FEATURE: Final = Operation(
    label="raise a feature", prepare=_feature_off, judge=_feature_is_on, clean_up=_feature_off
)
DESCRIBE_QUORUM: Final = Operation(
    label="describe the quorum", judge=_shows_quorum, only_reads=True
)
REMOVE_VOTER: Final = Operation(
    label="remove a raft voter",
    prepare=_all_voters,
    judge=_voters_are(2),
    clean_up=_all_voters,
)
ADD_VOTER: Final = Operation(
    label="add a raft voter",
    prepare=_one_voter_less,
    judge=_voters_are(3),
    clean_up=_all_voters,
)
UNREGISTER_BROKER: Final = Operation(
    label="unregister a broker",
    prepare=_fenced_broker,
    judge=_is_unregistered,
    clean_up=_stop_moving,
)
