"""The checker of histories, on histories that are known to be right or wrong.

What is made at random is judged a second time, by trying every order that there is.
"""

import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations

import pytest

from chaos.linearizability.checker import Finding, Key, Model, Operation, Verdict, judged, verdict
from chaos.linearizability.models import (
    Absent,
    Accepted,
    Cancel,
    Cancelled,
    Create,
    Created,
    Delete,
    Deleted,
    Describe,
    Done,
    Exists,
    Get,
    List,
    Look,
    Moving,
    NothingUnderWay,
    Over,
    Pause,
    Reassign,
    Refused,
    Resume,
    Set,
    UnderWay,
    Value,
    model_of,
)
from tests.chaos.linearizability.known_histories import (
    CONFIG,
    KNOWN,
    LOST,
    MOVE,
    NO,
    PARTITION,
    TOPIC,
    YES,
    Line,
    history,
)


@pytest.mark.parametrize(("story", "expected", "operations"), KNOWN, ids=[k[0] for k in KNOWN])
def test_a_known_history_is_judged_as_it_is_known(
    story: str, expected: Verdict, operations: list[Operation]
) -> None:
    (finding,) = judged(operations, model_of)
    assert finding.verdict is expected, f"{story}: {finding}"
    assert by_brute_force(operations, model_of(finding.key)) is (expected is YES)


def test_keys_are_judged_apart() -> None:
    other: Key = ("config", "u", "retention.ms")
    operations = [
        *history(CONFIG, (0, 1, Set("a"), Done()), (2, 3, Get(), Value("a"))),
        *history(other, (2, 3, Set("b"), Done()), (4, 5, Get(), Value("a"))),
    ]
    findings = judged(operations, model_of)
    assert [(each.key, each.verdict) for each in findings] == [(CONFIG, YES), (other, NO)]
    assert verdict(findings) is NO
    assert verdict(findings[:1]) is YES


def test_the_operations_that_fit_no_order_are_named() -> None:
    operations = history(
        CONFIG,
        (0, 1, Set("a"), Done()),
        (2, LOST, Set("b"), None),
        (3, 4, Get(), Value("c")),
    )
    (finding,) = judged(operations, model_of)
    assert finding.verdict is NO
    assert "Get(), called at 3, was told Value(value='c') at 4" in str(finding)


def test_a_search_that_takes_too_long_says_so_after_the_same_number_of_steps() -> None:
    lost = [(0, LOST, Set(str(number)), None) for number in range(20)]
    operations = history(CONFIG, *lost, (1, 2, Get(), Value("nobody has written this")))
    found = [judged(operations, model_of, steps_max=5_000) for _ in range(2)]
    assert found[0] == found[1]
    (finding,) = found[0]
    assert finding.verdict is Verdict.OUT_OF_TIME
    assert verdict(found[0]) is Verdict.OUT_OF_TIME
    assert 5_000 < finding.steps < 6_000


def test_hundreds_of_operations_of_many_clients_take_few_steps() -> None:
    """A register under load: ten at a time, and one in twenty is never answered."""
    rng = random.Random(7)
    lines: list[Line] = []
    value: str | None = None
    for moment in range(0, 5_000, 10):
        if rng.random() < 0.5:
            asked, answer = Get(), Value(value)
        else:
            value = str(moment)
            asked, answer = Set(value), Done()  # type: ignore[assignment]
        is_lost = rng.random() < 0.05
        returned = None if is_lost else moment + rng.randrange(60)
        lines.append((moment - rng.randrange(60), returned, asked, None if is_lost else answer))
    (finding,) = judged(history(CONFIG, *lines), model_of)
    assert finding.verdict is YES
    assert finding.steps < 200_000


# What is made at random, against every order that there is.

ASKED: dict[Key, Sequence[Hashable]] = {
    CONFIG: (Set("a"), Set("b"), Get(), Get()),
    TOPIC: (Create(), Create(), Delete(), Describe()),
    PARTITION: (Reassign((1, 2)), Reassign((3,)), Cancel(), List(), List()),
    MOVE: (Pause(), Resume(), Look(), Look()),
}
ANSWERS: dict[Key, Sequence[Hashable]] = {
    CONFIG: (Done(), Value("a"), Value("b"), Value(None), Refused("no")),
    TOPIC: (Created("x"), Created("y"), Deleted(), Absent(), Exists("x"), Exists(None)),
    PARTITION: (
        *(Accepted(), Cancelled((1, 2)), Cancelled((4,)), NothingUnderWay()),
        *(UnderWay((1, 2)), UnderWay((3,)), Refused("no")),
    ),
    MOVE: (Done(), Moving("running"), Moving("paused"), Moving("ended"), Over()),
}


def by_brute_force(operations: Sequence[Operation], model: Model) -> bool:
    """True if any order of any of the possible operations would explain the answers."""
    return any(explains(order, model) for order in orders(operations))


def orders(operations: Sequence[Operation]) -> Iterator[tuple[Operation, ...]]:
    answered = [each for each in operations if each.returned is not None]
    lost = [each for each in operations if each.returned is None]
    for count in range(len(lost) + 1):
        for happened in combinations(lost, count):
            for order in permutations([*answered, *happened]):
                if all(not precedes(late, early) for early, late in combinations(order, 2)):
                    yield order


def precedes(one: Operation, other: Operation) -> bool:
    return one.returned is not None and one.returned < other.called


def explains(order: Sequence[Operation], model: Model) -> bool:
    states = {model.start}
    for each in order:
        states = {s for state in states for s in model.after(state, each.asked, each.answer)}
    return bool(states)


def a_run(rng: random.Random, key: Key, length: int) -> list[Operation]:
    """One after another in durable, each answered by the model; told apart only by their times."""
    model = model_of(key)
    state = model.start
    found = []
    for number in range(length):
        asked = rng.choice(ASKED[key])
        possible = [a for a in ANSWERS[key] if model.after(state, asked, a)]
        answer = rng.choice(possible)
        state = rng.choice(model.after(state, asked, answer))
        called, returned = 10 * number - rng.randrange(25), 10 * number + rng.randrange(25)
        is_lost = rng.random() < 0.15
        found.append(
            Operation(
                key=key,
                asked=asked,
                called=called,
                returned=None if is_lost else returned,
                answer=None if is_lost else answer,
            )
        )
    return found


def corrupted(rng: random.Random, operations: list[Operation]) -> list[Operation]:
    """With another answer to one of them, of a kind that there is for what it asked."""
    place = rng.randrange(len(operations))
    was = operations[place]
    returned = was.called + 5 if was.returned is None else was.returned
    new = replace(was, returned=returned, answer=rng.choice(ANSWERS[was.key]))
    return [*operations[:place], new, *operations[place + 1 :]]


def the_finding(operations: list[Operation]) -> Finding:
    (finding,) = judged(operations, model_of)
    return finding


@pytest.mark.parametrize("key", ASKED, ids=lambda key: key[0])
def test_a_history_that_happened_in_some_order_is_linearizable(key: Key) -> None:
    for seed in range(100):
        operations = a_run(random.Random(seed), key, length=40)
        finding = the_finding(operations)
        assert finding.verdict is YES, f"seed {seed}: {finding}"


@pytest.mark.parametrize("key", ASKED, ids=lambda key: key[0])
def test_a_corrupted_answer_is_judged_as_by_trying_every_order(key: Key) -> None:
    verdicts = {YES: 0, NO: 0}
    for seed in range(150):
        rng = random.Random(seed)
        operations = corrupted(rng, a_run(rng, key, length=rng.randrange(2, 6)))
        finding = the_finding(operations)
        expected = YES if by_brute_force(operations, model_of(key)) else NO
        assert finding.verdict is expected, f"seed {seed}: {finding}"
        verdicts[expected] += 1
    assert min(verdicts.values()) >= 15, verdicts
