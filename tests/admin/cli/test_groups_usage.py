"""`metaquorum groups`: what needs no group. `tests/process` has the rest, at Kafka's brokers."""

import pytest
from click.testing import CliRunner

from admin.cli.groups import described, new_offset
from admin.cli.main import group
from admin.client.routed_admin import DescribedGroup, GroupMember
from admin.model import PartitionId

SERVER = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("way", "value", "at", "committed", "offset"),
    [
        ("to_earliest", 0, None, 15, 10),
        ("to_latest", 0, None, 15, 20),
        ("to_offset", 12, None, 15, 12),
        ("to_offset", 99, None, 15, 20),
        ("to_offset", 0, None, 15, 10),
        ("to_datetime", 1_000, 13, 15, 13),
        ("to_datetime", 1_000, None, 15, 20),
        ("shift_by", -2, None, 15, 13),
        ("shift_by", 99, None, 15, 20),
        ("shift_by", 3, None, None, 13),
    ],
)
def test_an_offset_is_reset_to_one_that_the_partition_has(
    way: str, value: int, at: int | None, committed: int | None, offset: int
) -> None:
    assert new_offset(way, value, 10, 20, at=at, committed=committed) == offset


def test_a_group_is_described_with_its_members() -> None:
    member = GroupMember(
        member_id="m-1", client_id="app", host="/10.0.0.1", partitions=[PartitionId("a", 0)]
    )
    found = DescribedGroup(
        group="g", state="Stable", assignor="range", coordinator=101, members=[member]
    )
    assert described(found).splitlines() == [
        "Group g: Stable, 1 member(s), assignor range, coordinator 101.",
        "Member  Client  Host       Partitions",
        "m-1     app     /10.0.0.1  a-0",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--bootstrap-controller", "h:1"), "groups are kept by brokers"),
        (("reset-offsets", "g", "--to-latest", *SERVER), "give --topic or --all-topics"),
        (
            ("reset-offsets", "g", "--all-topics", "--topic", "a", "--to-latest", *SERVER),
            "give --topic or --all-topics",
        ),
        (
            ("reset-offsets", "g", "--all-topics", *SERVER),
            "give one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by",
        ),
        (
            ("reset-offsets", "g", "--all-topics", "--to-latest", "--shift-by", "0", *SERVER),
            "give one of --to-earliest",
        ),
        (
            ("reset-offsets", "g", "--all-topics", "--to-datetime", "noon", *SERVER),
            "'noon' is no time",
        ),
        (("delete", "g", *SERVER), "nobody answers here: give --yes"),
    ],
)
def test_asking_for_groups_wrongly(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(group, ["groups", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
