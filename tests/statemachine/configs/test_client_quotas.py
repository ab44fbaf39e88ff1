"""Client quotas in the state machine: the stored quotas equal the requested ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.commands import AlterClientQuotas, ClientQuotasAltered, QuotaChange, QuotaOp
from statemachine.configs.quotas import QuotaFilter, matching_quotas, quotas_of
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image, quota_holder
from statemachine.limits import QUOTA_NAME_BYTES_MAX
from statemachine.records import kafka_records
from statemachine.records.kafka_records import QuotaEntity
from statemachine.replay import replay
from tests.statemachine.support.world import World


def entity(**parts: str | None) -> tuple[QuotaEntity, ...]:
    """An entity; `client_id` stands for client-id."""
    return tuple(
        QuotaEntity(type=kind.replace("_", "-"), name=name) for kind, name in parts.items()
    )


def change(whom: tuple[QuotaEntity, ...], **quotas: float | None) -> QuotaChange:
    """Quotas to set, or where there is none, to remove."""
    return QuotaChange(
        entity=whom,
        ops=tuple(
            QuotaOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ),
    )


def ask(world: World, *changes: QuotaChange) -> list[tuple[Error, str]]:
    """Error and message of each entity."""
    answer = world.ask(AlterClientQuotas(changes=changes)).answer
    assert isinstance(answer, ClientQuotasAltered)
    return [(each.error, each.message) for each in answer.entities]


def test_only_what_changes_is_recorded() -> None:
    world = World()
    wish = change(entity(user="a"), producer_byte_rate=5.0, request_percentage=1.5)
    decision = world.ask(AlterClientQuotas(changes=(wish,)))
    assert [type(each) for each in decision.records] == [kafka_records.ClientQuota] * 2
    assert world.ask(AlterClientQuotas(changes=(wish,))).records == ()
    removal = change(entity(user="a"), producer_byte_rate=None, consumer_byte_rate=None)
    (record,) = world.ask(AlterClientQuotas(changes=(removal,))).records
    assert record == kafka_records.ClientQuota(
        entity=entity(user="a"), key="producer_byte_rate", value=0.0, remove=True
    )
    assert world.image.quotas == {entity(user="a"): {"request_percentage": 1.5}}


def test_the_order_of_an_entitys_parts_says_nothing() -> None:
    """Another writer of the log may have used another order."""
    image = Image()
    for value, whom in enumerate(
        (entity(user="a", client_id=None), entity(client_id=None, user="a")), start=1
    ):
        record = kafka_records.ClientQuota(entity=whom, key="k", value=float(value), remove=False)
        replay(image, record, image.end_offset)
    assert image.quotas == {quota_holder(whom): {"k": 2.0}}


def test_quotas_are_undone_with_what_was_not_committed() -> None:
    world = World()
    ask(world, change(entity(user="a"), producer_byte_rate=5.0))
    image = world.image
    image.begin_undo_log(image.end_offset)
    offset = image.end_offset
    ask(world, change(entity(user="a"), producer_byte_rate=6.0), change(entity(user="b")))
    ask(world, change(entity(ip=None), connection_creation_rate=1.0))
    image.rewind(offset)
    assert image.quotas == {entity(user="a"): {"producer_byte_rate": 5.0}}


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (change((), producer_byte_rate=1.0), "needs a type: user, client-id, ip"),
        (change((*entity(user="a"), *entity(user="b"))), "each type once"),
        (change(entity(user="")), "a user needs a name; null stands for the default"),
        (change(entity(user="x" * (QUOTA_NAME_BYTES_MAX + 1))), str(QUOTA_NAME_BYTES_MAX)),
        (change(entity(topic="t")), "'topic' is none of user, client-id, ip"),
        (change(entity(ip="1.2.3.4", client_id="c")), "ip stands alone"),
        (change(entity(ip="a b"), connection_creation_rate=1.0), "'a b' is neither an IP"),
        (change(entity(user="a"), rate=1.0), "'rate' is not a quota of this entity"),
        (change(entity(ip=None), producer_byte_rate=1.0), "connection_creation_rate"),
        (change(entity(user="a"), producer_byte_rate=-1.0), "greater than 0"),
        (change(entity(user="a"), request_percentage=float("inf")), "greater than 0"),
        (change(entity(user="a"), consumer_byte_rate=1.001), "must be a whole number"),
        (change(entity(user="a"), consumer_byte_rate=1e19), "at most 9223372036854775807"),
        (change(entity(ip=None), connection_creation_rate=2.0**31), "at most 2147483647"),
        (
            QuotaChange(
                entity=entity(user="a"),
                ops=(QuotaOp(key="k", remove=True), QuotaOp(key="k", remove=True)),
            ),
            "k is named more than once for user a",
        ),
    ],
)
def test_quotas_that_cannot_be_are_refused_alone(wish: QuotaChange, said: str) -> None:
    world = World()
    (bad, good) = ask(world, wish, change(entity(client_id="good"), producer_byte_rate=1.0))
    assert bad[0] is Error.INVALID_REQUEST
    assert said in bad[1]
    assert good == (Error.NONE, "")
    assert list(world.image.quotas) == [entity(client_id="good")]


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "h-1.example"]
)
def test_hosts_are_addresses_or_names_and_are_not_looked_up(host: str) -> None:
    assert ask(World(), change(entity(ip=host), connection_creation_rate=1.0)) == [(Error.NONE, "")]


NAMES = st.sampled_from([None, "a", "b"])
ENTITIES = st.one_of(
    st.builds(lambda name: entity(user=name), NAMES),
    st.builds(lambda name: entity(client_id=name), NAMES),
    st.builds(lambda one, two: entity(user=one, client_id=two), NAMES, NAMES),
    st.builds(lambda name: entity(ip=name), st.sampled_from([None, "::1"])),
)
RATES = st.none() | st.integers(1, 3).map(float)


@given(st.lists(st.tuples(ENTITIES, RATES, RATES), max_size=8))
def test_the_records_replayed_give_exactly_the_quotas_asked_for(
    steps: list[tuple[tuple[QuotaEntity, ...], float | None, float | None]],
) -> None:
    world = World()
    wanted: dict[tuple[QuotaEntity, ...], dict[str, float]] = {}
    for whom, one, two in steps:
        keys = (
            ("connection_creation_rate",)
            if whom[0].type == "ip"
            else ("producer_byte_rate", "request_percentage")
        )
        asked = dict(zip(keys, (one, two), strict=False))
        assert ask(world, change(whom, **asked)) == [(Error.NONE, "")]
        after = {**wanted.get(quota_holder(whom), {}), **asked}
        wanted[quota_holder(whom)] = {k: v for k, v in after.items() if v is not None}
    assert world.image.quotas == {whom: quotas for whom, quotas in wanted.items() if quotas}
    assert {whom: quotas_of(world.image, whom) for whom in wanted} == wanted


FILTERS = st.builds(
    QuotaFilter,
    type=st.sampled_from(["user", "client-id", "ip", "", "x"]),
    match=st.integers(-1, 4),
    name=NAMES,
)


@given(st.lists(FILTERS, max_size=4), st.booleans())
def test_any_filter_is_answered(filters: list[QuotaFilter], strict: bool) -> None:
    world = World()
    ask(world, change(entity(user="a"), producer_byte_rate=1.0))
    found = matching_quotas(world.image.quotas, filters, strict=strict)
    if isinstance(found, Refusal):
        assert found.message
    else:
        assert [*found] in ([None], [entity(user="a")])
