"""The JSON of `reassign-partitions`: accepted forms, and one sentence for every error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.model import Assignment, PartitionDescription, PartitionId, TopicDescription
from admin.plan_file import (
    InvalidPlan,
    check_plan,
    parse_move,
    parse_offsets,
    parse_partitions,
    parse_plan,
    parse_topics,
    render_plan,
)


def refusal(plan: object) -> str:
    text = plan if isinstance(plan, str) else json.dumps(plan)
    with pytest.raises(InvalidPlan) as raised:
        parse_plan(text)
    return str(raised.value)


def plan(*partitions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": 1, "partitions": list(partitions), **more}


def entry(topic: Any = "orders", partition: Any = 0, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "replicas": [101, 102], **more}


def test_assignments_come_in_the_order_of_the_file() -> None:
    parsed = parse_plan(json.dumps(plan(entry(partition=3), entry("a", log_dirs=["any", "any"]))))
    assert [str(one.id) for one in parsed] == ["orders-3", "a-0"]
    assert parsed[0].replicas == (101, 102)


def test_the_version_may_be_left_out() -> None:
    assert len(parse_plan(json.dumps({"partitions": [entry()]}))) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON at line 1, column 1: Expecting value"),
        (
            '{"version": 1,\n "partitions": [}',
            "not valid JSON at line 2, column 17: Expecting value",
        ),
        ('{"version": NaN}', "JSON is malformed: invalid character (byte 12)"),
        ('{"version": 1, "version": 1}', "the field 'version' is there twice in one object"),
        ("[" * 100_000, "its JSON is nested deeper than any plan"),
        (f"[{'9' * 5_000}]", "Expected `object`, got `array`"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "Object missing required field `partitions`"),
    ],
)
def test_invalid_json_is_refused_with_its_position(text: str, message: str) -> None:
    assert refusal(text) == message


def test_deeply_nested_json_is_refused_in_a_sentence() -> None:
    """A plan that just parses is printed from deeper in the program, and may be too deep there."""
    for depth in range(800, 1_000, 3):
        nested = "[" * depth + "]" * depth
        assert "nested deeper" in refusal(nested) or "Expected `object`" in refusal(nested)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (plan(entry(), version=2), "Not supported version field value 2; write 1"),
        (plan(entry(), version=True), "version: expected `int`, got `bool`"),
        (plan(), "Partition reassignment list cannot be empty"),
        ({"partitions": {}}, "partitions: expected `array`, got `object`"),
        (
            plan(entry(), partition=[]),
            "Object contains unknown field `partition`; did you mean `partitions`?",
        ),
        (
            plan(entry(replica=[1])),
            "partitions[0]: object contains unknown field `replica`; did you mean `replicas`?",
        ),
        (
            plan(entry(xyz=1)),
            "object contains unknown field `xyz`; known are topic, partition, replicas, log_dirs",
        ),
        (
            plan({"topic": "a", "replicas": [1]}),
            "partitions[0]: object missing required field `partition`",
        ),
        (plan(entry(), 7), "partitions[1]: expected `object`, got `int`"),  # type: ignore[arg-type]
        (plan(entry(topic="")), "partitions[0].topic: expected `str` of length >= 1"),
        (plan(entry(topic=3)), "partitions[0].topic: expected `str`, got `int`"),
        (
            plan(entry(partition=-1)),
            "partitions[0].partition: expected `int` >= 0",
        ),
        (plan(entry(partition="0")), "partitions[0].partition: expected `int`, got `str`"),
        (plan(entry(partition=True)), "partitions[0].partition: expected `int`, got `bool`"),
        (plan(entry(partition=2**31)), "partitions[0].partition: expected `int` <= 2147483647"),
        (plan(entry(replicas=[])), "Partition replica list cannot be empty: orders-0"),
        (plan(entry(replicas="101")), "partitions[0].replicas: expected `array`, got `str`"),
        (plan(entry(replicas=[1.5])), "partitions[0].replicas[0]: expected `int`, got `float`"),
        (
            plan(entry(), entry()),
            "Partition reassignment contains duplicate topic partitions: orders-0",
        ),
        (
            plan(entry(replicas=[101, 102, 101])),
            "Partition replica lists may not contain duplicate entries: "
            "orders-0 contains multiple entries for 101",
        ),
        (
            plan(entry(log_dirs=["any"])),
            "orders-0 has 2 replica(s) and 1 log_dirs; name as many",
        ),
        (plan(entry(log_dirs="any")), "partitions[0].log_dirs: expected `array | null`, got `str`"),
        (
            plan(entry(log_dirs=["any", "/d1"])),
            'orders-0 names the log dir "/d1"; a broker has one',
        ),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(wrong: object, message: str) -> None:
    assert message in refusal(wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["version", "partitions", "topic", "partition", "replicas", "log_dirs"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_either_a_plan_or_refused_with_a_reason(value: object) -> None:
    try:
        parsed = parse_plan(json.dumps(value))
    except InvalidPlan as error:
        assert str(error)  # noqa: PT017
    else:
        assert all(one.replicas for one in parsed)


PLACES = st.dictionaries(
    st.builds(PartitionId, st.text(min_size=1, max_size=4), st.integers(0, 9)),
    st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).map(tuple),
    min_size=1,
    max_size=6,
)


@given(PLACES)
def test_a_saved_rollback_plan_can_be_read_as_a_plan(
    places: dict[PartitionId, tuple[int, ...]],
) -> None:
    again = parse_plan(render_plan(places))
    assert {one.id: one.replicas for one in again} == places
    assert [one.id for one in again] == sorted(places)


def topic(name: str, partitions: int) -> TopicDescription:
    found = tuple(
        PartitionDescription(
            partition=number, leader=101, leader_epoch=0, replicas=(101,), isr=(101,)
        )
        for number in range(partitions)
    )
    return TopicDescription(name=name, topic_id=None, partitions=found)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            entry(replicas=[101, 9]),
            "Unknown broker id 9; the brokers are 101, 102; it is wanted for orders-0",
        ),
        (entry(topic="payments"), "Topic payments not found. The plan names payments-0"),
        (entry(partition=4), "Unable to find partition: orders-4"),
    ],
)
def test_topics_and_brokers_that_do_not_exist_are_named(
    wrong: dict[str, Any], message: str
) -> None:
    topics = {"orders": topic("orders", 4)}
    check_plan(parse_plan(json.dumps(plan(entry()))), brokers={101, 102}, topics=topics)
    with pytest.raises(InvalidPlan) as raised:
        check_plan(parse_plan(json.dumps(plan(wrong))), brokers={101, 102}, topics=topics)
    assert str(raised.value) == message


def test_the_three_invalid_partitions_of_a_hundred_thousand_are_named() -> None:
    count = 100_000
    moves = [
        Assignment(topic="orders", partition=number, replicas=(101, 102)) for number in range(count)
    ]
    moves[7] = Assignment(topic="orders", partition=7, replicas=(101, 9))
    moves[8] = Assignment(topic="orders", partition=count, replicas=(101,))
    moves[9] = Assignment(topic="payments", partition=0, replicas=(102,))
    with pytest.raises(InvalidPlan) as raised:
        check_plan(moves, brokers={101, 102}, topics={"orders": topic("orders", count)})
    assert str(raised.value).splitlines() == [
        "Unknown broker id 9; the brokers are 101, 102; it is wanted for orders-7",
        "Unable to find partition: orders-100000",
        "Topic payments not found. The plan names payments-0",
    ]


def test_a_plan_that_is_all_invalid_names_the_first_and_counts_the_rest() -> None:
    moves = [Assignment(topic="a", partition=number, replicas=(9,)) for number in range(1_000)]
    with pytest.raises(InvalidPlan) as raised:
        check_plan(moves, brokers={101}, topics={})
    assert [len(line) < 400 for line in str(raised.value).splitlines()] == [True, True]
    assert str(raised.value).endswith("a-18, a-19, and 980 more")
    twice = plan(*[entry(partition=number) for number in [*range(30)] * 2])
    assert refusal(twice).endswith("and 10 more")


def move(**fields: Any) -> str:
    return json.dumps(plan(entry(), **fields))


def test_a_plan_over_http_may_say_how_its_move_is_to_be_known() -> None:
    whole = parse_move(move(name="rack 7", priority=-3, dry_run=True))
    assert (whole.name, whole.priority, whole.dry_run) == ("rack 7", -3, True)
    assert [str(one.id) for one in whole.assignments] == ["orders-0"]
    plain = parse_move(move())
    assert (plain.name, plain.priority, plain.dry_run, plain.key) == ("", 0, False, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (move(name=7), "name: expected `str`, got `int`"),
        (move(name="x" * 256), "the name of a move has at most 255 characters, not 256"),
        (move(name="a\nb"), "has characters that cannot be shown"),
        (
            '{"name": "\\ud800", "partitions": [{"topic": "a", "partition": 0, "replicas": [1]}]}',
            "JSON is malformed: unexpected end of escaped utf-16 surrogate pair",
        ),
        (
            move(priority=2**31),
            "priority: expected `int` <= 2147483647",
        ),
        (move(priority=True), "priority: expected `int`, got `bool`"),
        (move(dry_run="yes"), "dry_run: expected `bool`, got `str`"),
        (move(nmae="x"), "Object contains unknown field `nmae`; did you mean `name`?"),
        ('{"name": "x", "partitions": []}', "Partition reassignment list cannot be empty"),
    ],
)
def test_options_of_a_move_in_a_plan_file_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidPlan) as raised:
        parse_move(text)
    assert message in str(raised.value)


def test_the_file_of_the_command_has_no_fields_of_a_move() -> None:
    """There they are options."""
    assert "unknown field `priority`" in refusal(plan(entry(), priority=1))


def test_topics_come_in_the_order_of_the_file() -> None:
    assert parse_topics('{"version": 1, "topics": [{"topic": "b"}, {"topic": "a"}]}') == ("b", "a")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "Expected `object`, got `array`"),
        ({"topics": []}, "the list of topics is empty; name at least one"),
        ({"topics": "a"}, "topics: expected `array`, got `str`"),
        ({"version": 2, "topics": []}, "Not supported version field value 2; write 1"),
        ({"version": 1}, "Object missing required field `topics`"),
        ({"topics": ["a"]}, "topics[0]: expected `object`, got `str`"),
        ({"topics": [{}]}, "topics[0]: object missing required field `topic`"),
        ({"topics": [{"topic": ""}]}, "topics[0].topic: expected `str` of length >= 1"),
        (
            {"topics": [{"name": "a"}]},
            "topics[0]: object contains unknown field `name`; known are topic",
        ),
        (
            {"topics": [{"topic": "b"}, {"topic": "a"}, {"topic": "b"}]},
            "List of topics to reassign contains duplicate entries: b",
        ),
    ],
)
def test_topics_that_cannot_be_meant_are_refused(wrong: object, message: str) -> None:
    with pytest.raises(InvalidPlan) as refused:
        parse_topics(json.dumps(wrong))
    assert str(refused.value) == message


def test_the_files_of_elections_and_deletions_name_each_partition_once() -> None:
    """Kafka's script for elections writes no version."""
    one, other = {"topic": "a", "partition": 1}, {"topic": "a", "partition": 0}
    assert parse_partitions(json.dumps({"partitions": [one, other]})) == (
        PartitionId("a", 1),
        PartitionId("a", 0),
    )
    offsets = {"version": 1, "partitions": [{**one, "offset": -1}, {**other, "offset": 7}]}
    assert parse_offsets(json.dumps(offsets)) == {PartitionId("a", 1): -1, PartitionId("a", 0): 7}
    for parse in (parse_partitions, parse_offsets):
        for text, reason in (
            ({"partitions": []}, "the list of partitions is empty; name at least one"),
            ({"partitions": [{"topic": "", "partition": 0}]}, "partitions"),
        ):
            with pytest.raises(InvalidPlan, match=reason):
                parse(json.dumps(text))
    with pytest.raises(InvalidPlan, match="contains duplicate entries: a-1"):
        parse_partitions(json.dumps({"partitions": [one, other, one]}))
    with pytest.raises(InvalidPlan, match=r"did you mean `offset`\?"):
        parse_offsets(json.dumps({"partitions": [{**one, "ofset": 1}]}))
    with pytest.raises(InvalidPlan, match=">= -1"):
        parse_offsets(json.dumps({"partitions": [{**one, "offset": -2}]}))
