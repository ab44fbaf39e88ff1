"""A page of a long list, and a long answer, is made in turns: no turn looks at everything."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from admin.capabilities import paging
from admin.capabilities.acls import ListAcls
from admin.capabilities.brokers import ListBrokers
from admin.capabilities.moves import DescribeMove, DescribeMovePartitions, ListMoves, described
from admin.capabilities.operations import ListOperations
from admin.capabilities.partitions import ListPartitions
from admin.capabilities.quorum import Voters
from admin.capabilities.quotas import ListQuotas
from admin.capabilities.reassignments import ListReassignments
from admin.capabilities.topics import ListTopics
from admin.capabilities.users import ListUsers
from controller.apis.reassignments import listing
from statemachine import slices
from statemachine.configs.config_responses import quotas_response
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.partition_health import PartitionState
from statemachine.partitions.registration import PartitionRegistration, Stage
from statemachine.reassignment.copies import no_report
from statemachine.reassignment.move import Move
from statemachine.records.kafka_records import (
    AccessControlEntry,
    QuotaEntity,
    RegisterBroker,
    UserScramCredential,
)
from statemachine.records.own_records import MoveBegun, MoveOptions
from statemachine.security.scram import describe_user_scram_credentials
from statemachine.vocabulary import MoveKind
from tests.support.slice_work import Work

MANY = 2_000
AT_ONCE_US, TURN_US = 100, 200
"""A tenth of what they are: so few items are enough for many turns."""
STEPS_MAX = 1_000
"""In such a turn: a look at a hundred entries, and their order."""

NUMBERS = random.Random(22).sample(range(MANY), MANY)
VOTERS = Voters(current_voters=(1,), target_voters=None, waits_for=None, as_of_offset=0)


def names(work: Work) -> Iterator[str]:
    return (work.name(f"n{each:04}") for each in NUMBERS)


def users(work: Work) -> Image:
    """Users, every second one with two credentials."""
    image = Image()
    known = UserScramCredential(
        name="", mechanism=0, salt=b"s", stored_key=b"s", server_key=b"s", iterations=4_096
    )
    image.scram_credentials = work.table(
        {
            (name, mechanism): replace(known, name=name, mechanism=mechanism)
            for number, name in enumerate(names(work))
            for mechanism in ((1, 2) if number % 2 else (2,))
        }
    )
    return image


def quotas(work: Work) -> Image:
    image = Image()
    image.quotas = work.table(
        {
            (QuotaEntity(type="user", name=each),): {"producer_byte_rate": 1.0}
            for each in names(work)
        }
    )
    return image


def acls(work: Work) -> Image:
    image = Image()
    image.acls = work.table(
        {
            UUID(int=number): AccessControlEntry(
                id=UUID(int=number),
                resource_type=2,
                resource_name="t",
                pattern_type=3,
                principal=name,
                host="*",
                operation=3,
                permission_type=3,
            )
            for number, name in enumerate(names(work))
        }
    )
    return image


def brokers(work: Work) -> Image:
    image = Image()
    image.brokers = work.table(
        {
            each: RegisterBroker(
                broker_id=each,
                incarnation_id=UUID(int=each),
                broker_epoch=1,
                endpoints=(),
                features=(),
                rack=None,
            )
            for each in NUMBERS
        }
    )
    return image


def moves(work: Work) -> Image:
    """Moves that empty brokers, each another one."""
    image = Image()
    begun = MoveBegun(
        id=0, kind=MoveKind.DRAIN, who="", asked_at_ms=0, partitions=1, refused=0, broker=0
    )
    image.moves = work.table(
        {
            each + 1: Move(
                begun=replace(begun, id=each + 1, broker=each), options=MoveOptions(), since_ms=0
            )
            for each in NUMBERS
        }
    )
    return image


def topics(work: Work) -> Image:
    """Topics of one partition, which are all in a move."""
    image = Image()
    partition = PartitionRegistration(
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=1,
        partition_epoch=1,
        target=(2,),
        stage=Stage(move=1),
    )
    for number, name in enumerate(names(work)):
        topic = Topic(name, UUID(int=number + 1), image.common)
        image.add_topic(topic)
        image.set_partition(topic, 0, partition)
    image.topics, image.topic_ids = work.table(image.topics), work.table(image.topic_ids)
    begun = MoveBegun(
        id=1, kind=MoveKind.REASSIGN, who="", asked_at_ms=0, partitions=MANY, refused=0
    )
    image.moves = {1: Move(begun=begun, options=MoveOptions(), since_ms=0)}
    return image


@dataclass(frozen=True)
class Long:
    """A query about many items: the image, the query, the items of its answer, and their names."""

    image: Callable[[Work], Image]
    ask: Callable[[Image], Any]
    items: Callable[[Any], Any]
    name: Callable[[Any], Any]
    shown: int = 100
    first: str | int = "n0000"


def page(request: Any, *more: Any) -> Callable[[Image], Any]:
    return lambda image: request._page(image, *more)


def of(field: str) -> Callable[[Any], Any]:
    return lambda answer: getattr(answer, field)


MOVING = (PartitionState.REASSIGNING,)
NO_FILTER = SimpleNamespace(components=(), strict=False)
LONG = {
    "users.list": Long(users, page(ListUsers()), of("users"), of("name")),
    "quotas.list": Long(quotas, page(ListQuotas()), of("entities"), lambda each: each.entity.user),
    "acls.list": Long(acls, page(ListAcls()), of("acls"), of("principal")),
    "brokers.list": Long(brokers, page(ListBrokers()), of("brokers"), of("broker_id"), first=0),
    "moves.list": Long(moves, page(ListMoves()), of("moves"), of("move_id"), first=1),
    "operations.list": Long(
        moves,
        page(ListOperations(kind=("move",)), VOTERS),
        of("operations"),
        lambda each: each.moves[0],
        first=1,
    ),
    "topics.list": Long(topics, page(ListTopics()), of("topics"), of("name")),
    "topics.list by state": Long(topics, page(ListTopics(state=MOVING)), of("topics"), of("name")),
    "partitions.list": Long(topics, page(ListPartitions()), of("partitions"), of("topic")),
    "partitions.list by state": Long(
        topics, page(ListPartitions(state=MOVING)), of("partitions"), of("topic")
    ),
    "reassignments.list": Long(
        topics, page(ListReassignments(), no_report), of("partitions"), of("topic")
    ),
    "moves.partitions": Long(
        topics, page(DescribeMovePartitions(move_id=1), no_report), of("partitions"), of("topic")
    ),
    "moves.describe": Long(
        topics,
        lambda image: described(image, DescribeMove(move_id=1).move_id),
        of("partitions"),
        of("topic"),
        shown=200,
    ),
    "DescribeUserScramCredentials": Long(
        users, lambda image: describe_user_scram_credentials(image, None), list, of("user"), MANY
    ),
    "DescribeClientQuotas": Long(
        quotas,
        lambda image: quotas_response(image, NO_FILTER, image.quotas),
        lambda answer: answer["entries"],
        lambda each: each["entity"][0]["entity_name"],
        MANY,
    ),
    "ListPartitionReassignments": Long(
        topics, lambda image: listing(image, None, detailed=False), list, of("topic"), MANY
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_no_turn_looks_at_everything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SORTED_AT_ONCE_US", AT_ONCE_US, raising=False)
    # Tokens are made of plain names.
    monkeypatch.setattr(paging, "token_of", str)
    long, work = LONG[name], Work(TURN_US)
    image = long.image(work)
    answer, steps = work.in_turns(long.ask(image))
    assert steps < STEPS_MAX
    found = [long.name(each) for each in long.items(answer)]
    first = [each if isinstance(each, int) else str(each) for each in found]
    last = long.shown - 1
    expected = f"n{last:04}" if isinstance(long.first, str) else long.first + last
    assert (len(first), first[0], first[-1]) == (long.shown, long.first, expected)
    assert first == sorted(first)
