"""`metaquorum groups`: consumer groups of Kafka's brokers, as in kafka-consumer-groups.sh.

The embedded brokers keep no groups: every command says so there.
"""

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    Exit,
    Parsed,
    Target,
    WholeNumber,
    finish,
    output_option,
    say,
    show,
    show_done,
    with_target,
    yes_option,
)
from admin.cli.output import Columns, columns
from admin.units import parse_time_ms

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from admin.client.routed_admin import DescribedGroup, Group, GroupMember, RoutedAdmin
    from admin.model import PartitionId

TIME: Final = Parsed("time", parse_time_ms)
OFFSET: Final = WholeNumber(0, 2**63 - 1)
WAYS: Final = ("to_earliest", "to_latest", "to_offset", "to_datetime", "shift_by")
SHIFT: Final = WholeNumber(-(2**63), 2**63 - 1)


@click.group()
def command() -> None:
    """List, describe, reset and delete consumer groups (at Kafka's brokers)."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """The clients of a command."""

    client: "AdminClient"
    admin: "RoutedAdmin"

    async def group(self, name: str) -> "DescribedGroup":
        """Describe a group; an error if it does not exist."""
        from admin.client.routed_admin import Failed

        found = (await self.admin.describe_groups([name]))[name]
        if found is None:
            raise click.ClickException(f"there is no group {name}")
        if isinstance(found, Failed):
            raise click.ClickException(f"group {name} cannot be described: {found.reason}")
        return found


@asynccontextmanager
async def _asking(target: Target) -> AsyncIterator[_Asking]:
    """Clients for brokers that keep groups; an error at others."""
    servers = target.brokers("groups are kept by brokers: give --bootstrap-server")
    from admin.client.kafka_only import KafkaOnly, check_offered
    from admin.client.routed_admin import RoutedAdmin

    async with target.client() as client:
        await check_offered(client.carry_out, KafkaOnly.JOIN_GROUP)
        admin = RoutedAdmin(servers, timeout_ms=target.timeout_ms, config=target.config)
        yield _Asking(client, admin)


@command.command("list")
@with_target
@output_option
async def list_(target: Target, output: str) -> Exit:
    """List all groups with their states."""
    async with _asking(target) as asking:
        groups, errors = await asking.admin.list_groups()
    data = {"groups": [each._asdict() for each in groups]}
    none = "" if errors else "There are no groups."
    show(groups, output, lambda found: columns(found, _GROUPS), lambda _: data, none=none)
    return finish(errors=[f"Error: {each.reason}" for each in errors])


_GROUPS: Final["Columns[Group]"] = {
    "Group": lambda each: each.group,
    "State": lambda each: each.state,
    "Type": lambda each: each.type,
}


@command.command("describe")
@click.argument("group")
@with_target
@output_option
async def describe(target: Target, group: str, output: str) -> None:
    """Describe GROUP: its state and its members with their partitions."""
    async with _asking(target) as asking:
        found = await asking.group(group)
    show(found, output, described, _described_data)


_MEMBERS: Final["Columns[GroupMember]"] = {
    "Member": lambda each: each.member_id,
    "Client": lambda each: each.client_id,
    "Host": lambda each: each.host,
    "Partitions": lambda each: ",".join(map(str, each.partitions)) or "-",
}


def described(found: "DescribedGroup") -> str:
    """The output of `describe`."""
    lines = [
        f"Group {found.group}: {found.state}, {len(found.members)} member(s),"
        f" assignor {found.assignor or '-'}, coordinator {found.coordinator}."
    ]
    if found.members:
        lines.append(columns(found.members, _MEMBERS))
    return "\n".join(lines)


def _described_data(found: "DescribedGroup") -> dict[str, Any]:
    return {
        "group": found.group,
        "state": found.state,
        "assignor": found.assignor,
        "coordinator_id": found.coordinator,
        "members": [
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "host": each.host,
                "partitions": [partition._asdict() for partition in each.partitions],
            }
            for each in found.members
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """The position of a group in a partition."""

    id: "PartitionId"
    committed: int | None
    """None: the group has committed no offset."""
    end: int | None
    """None: the leader of the partition does not answer."""
    member: "GroupMember | None"

    @property
    def lag(self) -> int | None:
        """The records that the group has not committed."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@command.command("offsets")
@click.argument("group")
@with_target
@output_option
async def offsets(target: Target, group: str, output: str) -> None:
    """Show the offsets and the lag of GROUP in each partition that it reads or has committed."""
    from admin.client.routed_admin import LATEST, Failed

    async with _asking(target) as asking:
        found = await asking.group(group)
        committed = await asking.admin.committed(group)
        readers = {id: each for each in found.members for id in each.partitions}
        partitions = sorted({*committed, *readers})
        ends = await asking.admin.list_offsets(partitions, LATEST)
    rows = []
    for id in partitions:
        end = ends[id]
        rows.append(
            GroupOffset(
                id=id,
                committed=committed.get(id),
                end=None if isinstance(end, Failed) else end,
                member=readers.get(id),
            )
        )
    none = f"Group {group} reads no partitions, and has committed no offsets."
    show(rows, output, _offsets_table, lambda rows: _rows_data(group, rows), none=none)


def _or_dash(value: object) -> object:
    return "-" if value is None else value


_OFFSETS: Final["Columns[GroupOffset]"] = {
    "Topic": lambda row: row.id.topic,
    "Partition": lambda row: row.id.partition,
    "CurrentOffset": lambda row: _or_dash(row.committed),
    "LogEndOffset": lambda row: _or_dash(row.end),
    "Lag": lambda row: _or_dash(row.lag),
    "Member": lambda row: "-" if row.member is None else row.member.member_id,
    "Host": lambda row: "-" if row.member is None else row.member.host,
}


def _offsets_table(rows: Sequence[GroupOffset]) -> str:
    return columns(rows, _OFFSETS)


def _rows_data(group: str, rows: Sequence[GroupOffset]) -> dict[str, Any]:
    return {
        "group": group,
        "partitions": [
            {
                **row.id._asdict(),
                "current_offset": row.committed,
                "log_end_offset": row.end,
                "lag": row.lag,
                "member_id": None if row.member is None else row.member.member_id,
            }
            for row in rows
        ],
    }


@command.command("reset-offsets")
@click.argument("group")
@click.option("--topic", "topics", multiple=True, help="Reset all partitions of this topic.")
@click.option("--all-topics", is_flag=True, help="Reset what the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the oldest record.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-offset", type=OFFSET, help="To this offset in each partition.")
@click.option(
    "--to-datetime",
    type=TIME,
    help="To the first record of this time or later: 2026-01-01T00:00:00Z.",
)
@click.option("--shift-by", type=SHIFT, help="By so many records, backwards if negative.")
@click.option("--execute", is_flag=True, help="Do it; without this option it is only shown.")
@with_target
@output_option
async def reset_offsets(
    target: Target,
    group: str,
    topics: Sequence[str],
    all_topics: bool,
    execute: bool,
    output: str,
    **to: Any,
) -> Exit:
    """Show the offsets that GROUP would be reset to, or with --execute reset them.

    The group must have no members. An offset outside of a partition becomes the nearest one inside.
    """
    if bool(topics) == all_topics:
        raise click.UsageError("give --topic or --all-topics")
    chosen = [way for way in WAYS if to[way] is not None and to[way] is not False]
    if len(chosen) != 1:
        options = ", ".join(f"--{way.replace('_', '-')}" for way in WAYS)
        raise click.UsageError(f"give one of {options}")
    async with _asking(target) as asking:
        committed = await _resettable(asking, group, execute=execute)
        partitions = sorted(committed)
        if topics:
            partitions = await _partitions_of(asking.client, topics)
        new = await _new_offsets(asking.admin, partitions, committed, chosen[0], to[chosen[0]])
        errors = await asking.admin.commit(group, new) if execute and new else {}
    rows = [(id, offset) for id, offset in new.items() if id not in errors]
    data = {
        "group": group,
        "dry_run": not execute,
        "partitions": [{**id._asdict(), "new_offset": offset} for id, offset in rows],
    }
    show(rows, output, lambda rows: columns(rows, _NEW_OFFSETS), lambda _: data)
    if not execute:
        say("Nothing was changed: add --execute to reset these offsets.")
    return finish(errors=[f"Error: {id}: {each.reason}" for id, each in errors.items()])


_NEW_OFFSETS: Final["Columns[tuple[PartitionId, int]]"] = {
    "Topic": lambda row: row[0].topic,
    "Partition": lambda row: row[0].partition,
    "NewOffset": lambda row: row[1],
}


async def _resettable(asking: _Asking, group: str, *, execute: bool) -> "Mapping[PartitionId, int]":
    """The committed offsets of a group, which need not exist yet; an error if it has members."""
    from admin.client.routed_admin import DescribedGroup

    found = (await asking.admin.describe_groups([group]))[group]
    if execute and isinstance(found, DescribedGroup) and not found.is_idle:
        raise click.ClickException(
            f"group {group} is {found.state}: its offsets can be reset once its members have left"
        )
    return await asking.admin.committed(group)


async def _partitions_of(client: "AdminClient", topics: Sequence[str]) -> "list[PartitionId]":
    from admin.cli.topic_patterns import check_found, find_topics
    from admin.model import PartitionId

    found = (await find_topics(client, topics)).value
    check_found(found, topics)
    return [
        PartitionId(name, each.partition)
        for name, topic in found.items()
        for each in topic.partitions
    ]


async def _new_offsets(
    admin: "RoutedAdmin",
    partitions: "Sequence[PartitionId]",
    committed: "Mapping[PartitionId, int]",
    way: str,
    value: int,
) -> "dict[PartitionId, int]":
    """The offset that each partition is reset to; an error if a leader does not answer."""
    from admin.client.routed_admin import EARLIEST, LATEST

    first = await _offsets_at(admin, partitions, EARLIEST)
    last = await _offsets_at(admin, partitions, LATEST)
    at = await _offsets_at(admin, partitions, value) if way == "to_datetime" else {}
    return {
        id: new_offset(
            way, value, first[id] or 0, last[id] or 0, at=at.get(id), committed=committed.get(id)
        )
        for id in partitions
    }


async def _offsets_at(
    admin: "RoutedAdmin", partitions: "Sequence[PartitionId]", time_ms: int
) -> "dict[PartitionId, int | None]":
    from admin.client.routed_admin import Failed

    found = {}
    for id, each in (await admin.list_offsets(partitions, time_ms)).items():
        if isinstance(each, Failed):
            raise click.ClickException(f"the offsets of {id} are unknown: {each.reason}")
        found[id] = each
    return found


def new_offset(
    way: str, value: int, first: int, last: int, *, at: int | None, committed: int | None
) -> int:
    """The offset that a partition with records from `first` up to `last` is reset to.

    `at` is the one of the time that is asked for. What was never committed is shifted from `first`.
    """
    wanted = {
        "to_earliest": first,
        "to_latest": last,
        "to_datetime": last if at is None else at,
        "shift_by": (first if committed is None else committed) + value,
        "to_offset": value,
    }[way]
    return min(max(first, wanted), last)


@command.command("delete")
@click.argument("groups", nargs=-1, required=True)
@yes_option
@with_target
@output_option
def delete(
    target: Target, groups: Sequence[str], yes: bool, output: str
) -> Coroutine[Any, Any, Exit]:
    """Delete GROUPS, which must have no members, with their committed offsets."""
    target.brokers("groups are kept by brokers: give --bootstrap-server")
    names = list(dict.fromkeys(groups))
    target.confirm(f"Delete the offsets of {', '.join(names)}?", yes=yes)
    return _delete(target, names, output)


async def _delete(target: Target, names: Sequence[str], output: str) -> Exit:
    async with _asking(target) as asking:
        failed = await asking.admin.delete_groups(names)
    deleted = [name for name in names if failed[name] is None]
    if deleted or output != "table":
        sentence = "\n".join(f"Deleted group {name}." for name in deleted)
        show_done(sentence, output, deleted=deleted)
    reasons = {name: each.reason for name, each in failed.items() if each is not None}
    return finish(errors=[f"Error: group {name}: {why}" for name, why in reasons.items()])
