"""The page of compatibility has the table of calls, and every "no" has a reason."""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from bench.compatibility import operations, page
from bench.compatibility.clients import clients
from bench.compatibility.model import BROKERS, Call, Client, Failed, Place, Reason
from tests.support.tree import ROOT

PAGE: Final = ROOT / "docs" / "compatibility.md"


def section(name: str) -> str:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n\n")
    return rest.partition(f"\n<!-- /{name} -->")[0]


def calls() -> Iterator[tuple[Client, Call]]:
    for client in clients():
        for call in client.calls:
            yield client, call


def test_the_page_has_the_table_of_calls() -> None:
    assert section("compatibility") == page.as_markdown(clients()), "make compatibility writes it"


def test_the_page_is_of_a_run_of_every_call() -> None:
    made = sum(len(call.places) for _, call in calls())
    assert section("compatibility-run").startswith(f"- {made} calls, ")


def test_every_no_is_offered_and_has_a_reason_in_words_and_a_pattern() -> None:
    for client, call in calls():
        for place, reason in call.no.items():
            assert place in call.places, (client.name, call.operation.label)
            assert reason.text.strip()
            assert re.compile(reason.said).pattern


def test_no_client_has_two_answers_for_one_call() -> None:
    found = [
        (each.name, each.version, call.program, call.operation.label) for each, call in calls()
    ]
    assert len(found) == len(set(found))


def test_versions_with_the_same_results_share_a_row() -> None:
    def client(version: str, *made: Call) -> Client:
        return Client(name="a client", version=version, calls=made, start=None)  # type: ignore[arg-type]

    def call(**more: object) -> Call:
        return Call(operation=operations.LIST_TOPICS, act=str, **more)  # type: ignore[arg-type]

    absent = {Place.EMBEDDED: Reason("it has none", "none")}
    made = page.as_markdown(
        [
            client("1", call(places=BROKERS, no=absent)),
            client("2", call(places=BROKERS)),
            client("3", call(places=BROKERS, no=absent)),
        ]
    )
    rows = [line for line in made.splitlines() if line.startswith("| a client")]
    assert rows == [
        "| a client | 1, 3 | list topics | no (1) | yes | — |",
        "| a client | 2 | list topics | yes | yes | — |",
    ]
    assert made.endswith("### Reasons\n\n1. it has none\n")


@pytest.mark.parametrize("said", ["57", "offset 57,", "t:0:57"])
def test_a_word_is_found_in_an_output_only_as_a_whole(said: str) -> None:
    judge = operations.shows(operations.constant(57))
    judge(None, said)  # type: ignore[arg-type]
    with pytest.raises(Failed, match="57 is not in"):
        judge(None, said.replace("57", "157"))  # type: ignore[arg-type]
