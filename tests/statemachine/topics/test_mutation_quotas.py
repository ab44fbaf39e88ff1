"""Quotas of controller mutations (KIP-599): precedence, buckets and decisions.

The numbers are those of Kafka's own tests: `TokenBucketTest`, `ControllerMutationQuotaManagerTest`
and `ControllerMutationQuotaTest`.
"""

import random
from typing import Final
from uuid import UUID

import pytest

from statemachine.commands import (
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    MutationClient,
    MutationsAnswered,
    MutationTokens,
    NewTopic,
)
from statemachine.configs.quota_precedence import controller_mutation_quota
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.image.image import Image, QuotaHolder, quota_holder
from statemachine.limits import MUTATION_BUCKETS_KEPT_MS, MUTATION_BUCKETS_MAX
from statemachine.records import kafka_records
from statemachine.topics.mutation_quota import THROTTLE_MS_MAX, MutationQuotas
from tests.statemachine.support.world import World

RATE: Final = "controller_mutation_rate"
DEFAULT: Final = None


def holder(**parts: str | None) -> QuotaHolder:
    """The entity of a quota; `client` stands for client-id, None for the default."""
    kinds = {"user": "user", "client": "client-id"}
    return quota_holder(
        kafka_records.QuotaEntity(type=kinds[kind], name=name) for kind, name in parts.items()
    )


# From the most to the least specific, with the bucket that each one is counted in.
PRECEDENCE: Final = (
    (holder(user="ann", client="c"), ("ann", "c")),
    (holder(user="ann", client=DEFAULT), ("ann", "c")),
    (holder(user="ann"), ("ann", "")),
    (holder(user=DEFAULT, client="c"), ("ann", "c")),
    (holder(user=DEFAULT, client=DEFAULT), ("ann", "c")),
    (holder(user=DEFAULT), ("ann", "")),
    (holder(client="c"), ("", "c")),
    (holder(client=DEFAULT), ("", "c")),
)


def kafka_quota(rates: dict[QuotaHolder, float], user: str, client: str) -> object:
    """As `DefaultQuotaCallback` finds it: first the tags of the metric, then the limit by them."""
    tags = ("", client)
    for entity, found in (
        (holder(user=user, client=client), (user, client)),
        (holder(user=user, client=DEFAULT), (user, client)),
        (holder(user=user), (user, "")),
        (holder(user=DEFAULT, client=client), (user, client)),
        (holder(user=DEFAULT, client=DEFAULT), (user, client)),
        (holder(user=DEFAULT), (user, "")),
    ):
        if entity in rates:
            tags = found
            break
    user, client = tags
    names: tuple[QuotaHolder, ...] = ()
    if user and client:
        names = tuple(holder(user=u, client=c) for u in (user, DEFAULT) for c in (client, DEFAULT))
    elif user:
        names = holder(user=user), holder(user=DEFAULT)
    elif client:
        names = holder(client=client), holder(client=DEFAULT)
    return next(((tags, rates[name]) for name in names if name in rates), None)


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_quota_applies(first: int) -> None:
    """KIP-55, and the comment of Kafka's `ClientQuotaManager`."""
    rates = {entity: {RATE: float(n + 1)} for n, (entity, _) in enumerate(PRECEDENCE)}
    left = dict(list(rates.items())[first:])
    owner = PRECEDENCE[first][1]
    assert controller_mutation_quota(left, "ann", "c") == (owner, first + 1)


def test_any_set_of_quotas_resolves_as_in_kafka() -> None:
    """All 256 sets of the eight kinds, for clients that they name, that they do not, without id."""
    entities = [entity for entity, _ in PRECEDENCE]
    for chosen in range(1 << len(entities)):
        rates = {e: float(n + 1) for n, e in enumerate(entities) if chosen >> n & 1}
        quotas = {entity: {RATE: rate} for entity, rate in rates.items()}
        for user in ("ann", "bob"):
            for client in ("c", "d", ""):
                found = controller_mutation_quota(quotas, user, client)
                assert found == kafka_quota(rates, user, client), (rates, user, client)


def test_quotas_of_bytes_are_no_quotas_of_mutations() -> None:
    quotas = {
        holder(user="ann"): {"producer_byte_rate": 1.0},
        holder(user=DEFAULT): {RATE: 3.0},
    }
    assert controller_mutation_quota(quotas, "ann", "c") == (("ann", ""), 3.0)


class Bucket:
    """The bucket of user ann, filled at `rate` up to `window` seconds."""

    def __init__(self, rate: float, window: int = 10, *, is_strict: bool = True) -> None:
        self.image = Image()
        self.quotas = MutationQuotas(window)
        self.now_ms = 1_000_000
        self.is_strict = is_strict
        self.rate(rate)

    def rate(self, rate: float | None) -> None:
        self.image.quotas[holder(user="ann")] = {} if rate is None else {RATE: rate}

    def take(self, *partitions: int, user: str = "ann") -> tuple[list[bool], int]:
        """True for each that is accepted, and the time to wait afterwards, in ms."""
        client = MutationClient(user=user, client_id="c", is_strict=self.is_strict)
        budget = self.quotas.at(self.now_ms).budget(self.image, client)
        accepted = [budget.take(each) is None for each in partitions]
        if budget.left is not None:
            self.quotas.record(budget.left)
        return accepted, max(0, budget.throttled_until_ms - self.now_ms)


def test_a_strict_quota_accepts_until_it_is_used_up() -> None:
    """`StrictControllerMutationQuotaTest`: 100 tokens; 90 leave 10, 90 more leave -80."""
    bucket = Bucket(10)
    assert bucket.take(90) == ([True], 0)
    assert bucket.take(90) == ([True], 0)
    assert bucket.take(90) == ([False], 8_000)
    bucket.now_ms += 5_000
    assert bucket.take(90) == ([False], 3_000)
    bucket.now_ms += 3_000
    assert bucket.take(90) == ([True], 0)


def test_a_permissive_quota_accepts_everything_and_makes_the_client_wait() -> None:
    """`PermissiveControllerMutationQuotaTest`."""
    bucket = Bucket(10, is_strict=False)
    assert bucket.take(90) == ([True], 0)
    assert bucket.take(90) == ([True], 8_000)
    assert bucket.take(90) == ([True], 17_000)
    bucket.now_ms += 5_000
    assert bucket.take(0) == ([True], 12_000)


def test_a_spike_is_accepted_and_paid_for_afterwards() -> None:
    """`testControllerMutationQuotaViolation`."""
    bucket = Bucket(10)
    for _ in range(10):
        assert bucket.take(10) == ([True], 0)
        bucket.now_ms += 1_000
    assert bucket.take(110) == ([True], 0)
    assert bucket.take(110) == ([False], 1_000)
    bucket.now_ms += 1_000
    assert bucket.take(110) == ([True], 0)


def test_a_request_of_several_topics_is_accepted_in_part() -> None:
    """`testStrictCreateTopicsRequest`: rate 2, 20 tokens; 30 of 30 + 30 leave -10."""
    assert Bucket(2).take(30, 30, 1) == ([True, False, False], 5_000)
    assert Bucket(2, is_strict=False).take(30, 30) == ([True, True], 20_000)


def test_the_wait_is_rounded_as_java_rounds() -> None:
    # 0.5 rounds up, also where Python would round to even.
    assert Bucket(0.4, 5).take(2, 1, 1) == ([True, True, False], 2_500)
    bucket = Bucket(400, 1)
    assert bucket.take(401, 1) == ([True, False], 3)


def test_a_new_rate_applies_from_the_last_charge_on() -> None:
    """Kafka gives the bucket a new configuration, and keeps its tokens."""
    bucket = Bucket(10)
    assert bucket.take(180) == ([True], 0)
    bucket.rate(40)
    assert bucket.take(1) == ([False], 2_000)
    bucket.now_ms += 1_000
    assert bucket.take(1) == ([False], 1_000)
    bucket.rate(None)
    assert bucket.take(1_000_000) == ([True], 0)


def test_a_client_that_is_idle_for_an_hour_begins_anew() -> None:
    """Kafka forgets a sensor that has recorded nothing for an hour, even one below zero."""
    bucket = Bucket(1)
    assert bucket.take(10 + 2 * 3_600) == ([True], 0)
    bucket.now_ms += MUTATION_BUCKETS_KEPT_MS
    assert bucket.take(1) == ([False], MUTATION_BUCKETS_KEPT_MS)
    bucket.now_ms += 1
    assert bucket.take(10, 1) == ([True, True], 0)


@pytest.mark.parametrize("rate", [0.0, -1.0, 5e-324])
def test_a_quota_that_never_fills_is_used_up_for_the_longest_time(rate: float) -> None:
    """Kafka refuses such quotas today; a log may have them."""
    assert Bucket(rate).take(5, 5)[1] == THROTTLE_MS_MAX


def test_the_buckets_are_bounded() -> None:
    quotas = MutationQuotas(11)
    for n in range(MUTATION_BUCKETS_MAX + 10):
        quotas.record(MutationTokens(("ann", str(n)), 1.0, n))
    assert quotas.clients == MUTATION_BUCKETS_MAX
    # An old one that is used again is not the oldest.
    quotas.record(MutationTokens(("ann", "10"), 1.0, MUTATION_BUCKETS_MAX + 10))
    assert quotas.clients == MUTATION_BUCKETS_MAX
    quotas.record(MutationTokens(("bob", ""), 1.0, 10 * MUTATION_BUCKETS_KEPT_MS))
    assert quotas.clients == 1


def test_clients_share_the_bucket_of_what_the_quota_is_for() -> None:
    image = Image()
    image.quotas[holder(user=DEFAULT)] = {RATE: 1.0}
    image.quotas[holder(client="shared")] = {RATE: 1.0}
    quotas = MutationQuotas(11)

    def is_accepted(user: str, client_id: str) -> bool:
        client = MutationClient(user=user, client_id=client_id)
        budget = quotas.at(0).budget(image, client)
        accepted = budget.take(20) is None
        if budget.left is not None:
            quotas.record(budget.left)
        return accepted

    assert is_accepted("ann", "a")
    assert not is_accepted("ann", "b"), "one bucket of the user"
    assert is_accepted("bob", "a"), "another user has another one"
    del image.quotas[holder(user=DEFAULT)]
    assert is_accepted("ann", "shared")
    assert not is_accepted("bob", "shared"), "one bucket of the client id"


# --- decisions -----------------------------------------------------------------------------------


class Cluster(World):
    """One broker, and a quota of 2 partitions a second, 20 at once, for user ann."""

    def __init__(self) -> None:
        super().__init__(broker_count=1)
        self.quotas = MutationQuotas(10)
        self.clock_ms = 0
        self.replay(
            kafka_records.ClientQuota(entity=holder(user="ann"), key=RATE, value=2.0, remove=False)
        )

    def carry_out(self, command: Command) -> tuple[list[Error], int]:
        """The errors of the parts, and the time to wait; records are replayed, tokens taken."""
        decision = decide(self.image, command, mutations=self.quotas.at(self.clock_ms))
        for record in decision.records:
            self.replay(record)
        if decision.tokens is not None:
            self.quotas.record(decision.tokens)
        answer = decision.answer
        assert isinstance(answer, MutationsAnswered)
        errors = [each.error for each in answer.topics]  # type: ignore[attr-defined]
        return errors, max(0, answer.throttled_until_ms - self.clock_ms)

    def partitions(self) -> dict[str, int]:
        return {each.name: len(each.partitions) for each in self.image.topics.values()}


ANN: Final = MutationClient(user="ann", client_id="c")
LENIENT: Final = MutationClient(user="ann", client_id="c", is_strict=False)
BOB: Final = MutationClient(user="bob", client_id="c")
OK, EXCEEDED = Error.NONE, Error.THROTTLING_QUOTA_EXCEEDED


def topics(**counts: int) -> tuple[NewTopic, ...]:
    return tuple(
        NewTopic(
            name=name,
            topic_id=UUID(int=random.Random(name).getrandbits(128), version=4),
            partition_count=count,
            replication_factor=1,
        )
        for name, count in counts.items()
    )


def creation(client: MutationClient | None = ANN, **counts: int) -> CreateTopics:
    return CreateTopics(topics=topics(**counts), client=client)


def growth(client: MutationClient | None = ANN, **counts: int) -> CreatePartitions:
    more = tuple(MorePartitions(name=name, count=count) for name, count in counts.items())
    return CreatePartitions(topics=more, client=client)


def test_topics_are_created_until_the_quota_is_used_up() -> None:
    """`testStrictCreateTopicsRequest`."""
    cluster = Cluster()
    assert cluster.carry_out(creation(a=30, b=30)) == ([OK, EXCEEDED], 5_000)
    assert cluster.partitions() == {"a": 30}
    cluster.clock_ms += 4_999
    assert cluster.carry_out(creation(b=30)) == ([EXCEEDED], 1)
    cluster.clock_ms += 1
    assert cluster.carry_out(creation(b=30)) == ([OK], 0)
    assert cluster.carry_out(creation(BOB, c=500)) == ([OK], 0), "no quota"
    assert cluster.carry_out(creation(None, d=500)) == ([OK], 0), "no client"


def test_an_old_request_creates_all_topics_and_waits() -> None:
    """`testPermissiveCreateTopicsRequest`."""
    cluster = Cluster()
    assert cluster.carry_out(creation(LENIENT, a=30, b=30)) == ([OK, OK], 20_000)
    assert cluster.partitions() == {"a": 30, "b": 30}


@pytest.mark.parametrize(
    ("client", "errors", "wait_ms"),
    [(ANN, [OK, EXCEEDED], 5_000), (LENIENT, [OK, OK], 20_000), (BOB, [OK, OK], 0)],
)
def test_deletions_and_growth_use_it_as_creations_do(
    client: MutationClient, errors: list[Error], wait_ms: int
) -> None:
    """`testStrictDeleteTopicsRequest`, `testStrictCreatePartitionsRequest` and the others."""
    cluster = Cluster()
    cluster.carry_out(creation(None, a=30, b=30))
    deletion = DeleteTopics(topics=("a", "b"), client=client)
    assert cluster.carry_out(deletion) == (errors, wait_ms)
    assert len(cluster.partitions()) == errors.count(EXCEEDED)

    cluster = Cluster()
    cluster.carry_out(creation(None, a=1, b=1))
    assert cluster.carry_out(growth(client, a=31, b=31)) == (errors, wait_ms)
    assert cluster.partitions()["b"] == (1 if EXCEEDED in errors else 31)


def test_only_what_passes_the_checks_uses_the_quota() -> None:
    cluster = Cluster()
    cluster.carry_out(creation(None, there=40))
    for command, error in (
        (creation(there=40), Error.TOPIC_ALREADY_EXISTS),
        (CreateTopics(topics=topics(**{"no name": 40}), client=ANN), Error.INVALID_TOPIC_EXCEPTION),
        (growth(there=40), Error.INVALID_PARTITIONS),
        (growth(nowhere=40), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopics(topics=("nowhere",), client=ANN), Error.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        assert cluster.carry_out(command) == ([error], 0)
    assert cluster.quotas.clients == 0
    assert cluster.carry_out(creation(a=20, b=1, c=1)) == ([OK, OK, EXCEEDED], 500)
    # A fault in the request is said before the quota.
    assert cluster.carry_out(creation(there=1)) == ([Error.TOPIC_ALREADY_EXISTS], 0)


def test_partitions_that_cannot_be_placed_use_the_quota() -> None:
    """In `ReplicationControlManager.createPartitions` the quota comes before the placement."""
    cluster = Cluster()
    cluster.carry_out(creation(None, a=1))
    more = MorePartitions(name="a", count=31, assignments=((9,),) * 30)
    command = CreatePartitions(topics=(more,), client=ANN)
    assert cluster.carry_out(command) == ([Error.INVALID_REPLICA_ASSIGNMENT], 0)
    assert cluster.carry_out(creation(b=1)) == ([EXCEEDED], 5_000)


def test_a_request_that_only_validates_uses_the_quota_as_in_kafka() -> None:
    cluster = Cluster()
    check = CreateTopics(topics=topics(a=30), validate_only=True, client=ANN)
    assert cluster.carry_out(check) == ([OK], 0)
    assert cluster.partitions() == {}
    assert cluster.carry_out(check) == ([EXCEEDED], 5_000)


def test_a_refusal_says_whose_quota_it_is_and_when_to_try_again() -> None:
    cluster = Cluster()
    cluster.carry_out(creation(a=30))
    client = MutationClient(user="ann", client_id="c" * 30_000)
    cluster.replay(
        kafka_records.ClientQuota(
            entity=holder(user="ann", client=DEFAULT), key=RATE, value=0.5, remove=False
        )
    )
    words = []
    for each, count in ((ANN, 50), (client, 50)):
        view = cluster.quotas.at(0)
        answer = decide(cluster.image, creation(each, b=count, c=1), mutations=view).answer
        words.append(answer.topics[1].message)  # type: ignore[attr-defined]
    assert words[0] == (
        "The throttling quota has been exceeded: controller_mutation_rate=0.5 (partitions a "
        "second) of user ann with client id c; try again in 90.0 s"
    )
    assert len(words[1]) < 300
