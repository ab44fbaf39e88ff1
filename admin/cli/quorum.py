"""`metadata-quorum`: Kafka's command, and the forms of KIP-595; and `metaquorum leader transfer`.

`alter` (KIP-595) sets the whole voter set; `add-controller` and `remove-controller`, as in Kafka's
script, change one voter.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from admin.cli.options import (
    ADDRESSES,
    ID_MAX,
    Exit,
    Parsed,
    Target,
    WholeNumber,
    add_options,
    is_given,
    is_id,
    output_option,
    say,
    show,
    stale_option,
    watchable,
    with_target,
    write,
    write_data,
)
from admin.cli.version import version_option
from quorum.clocks import wall_ms

if TYPE_CHECKING:
    from uuid import UUID

    from admin.client.admin_client import AdminClient
    from controller.quorum_description import LeadTransfer, QuorumDescription
    from quorum.core.vocabulary import ReplicaKey
    from quorum.transport.address import Address

    Voters: TypeAlias = tuple[ReplicaKey, ...]


def _voters(text: str) -> "Voters":
    from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, ReplicaKey

    keys: dict[int, ReplicaKey] = {}
    for part in map(str.strip, text.split(",")):
        number, _, directory = part.partition(":")
        if not is_id(number):
            raise ValueError(f"{part!r} is not an id; write 4,5,6 or 4:DIRECTORY_ID")
        key = ReplicaKey(ReplicaId(int(number)), _uuid(directory) if directory else NO_DIRECTORY)
        if keys.setdefault(key.id, key) is not key:
            raise ValueError(f"{key.id} is given twice")
    return tuple(keys.values())


def _uuid(text: str) -> "UUID":
    from quorum.core.vocabulary import uuid_from_text

    return uuid_from_text(text)


VOTERS: Final = Parsed("id,...", _voters)
DIRECTORY: Final = Parsed("id", _uuid)


_ALONE: Final = frozenset({"-h", "--help", "--version"})
"""Options that need no command."""


class _Group(click.Group):
    """Commands after their options too, as in Kafka's tool, or as options, as in KIP-595."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, the command first."""
        names = {*self.commands, "--describe", "--alter"}
        places = [place for place, word in enumerate(args) if word.partition("=")[0] in names]
        if len(places) > 1:
            raise click.UsageError(
                "give a command (describe, alter, ...) or an option (--describe, --alter), not both"
            )
        if places:
            at = places[0]
            name, *after = _command(args[at], args[at + 1 :])
            # What is given after the command wins over what is given before.
            args = [name, *args[:at], *after]
        elif "--voters" in args:
            raise click.UsageError("--voters goes with --alter")
        elif not args or (args[0].startswith("-") and not _ALONE & {*args}):
            raise click.UsageError(
                "give a command: describe --status, describe --replication, or --describe"
            )
        return super().parse_args(ctx, args)


def _command(word: str, after: list[str]) -> list[str]:
    """The command and its options; `word` may be `--alter`, or `--describe` with what to show."""
    name, _, what = word.partition("=")
    if name != "--describe":
        return [name.removeprefix("--"), *after]
    if not what and after and not after[0].startswith("-"):
        what, *after = after
    if what not in ("", "status", "replication"):
        raise click.UsageError(f"--describe: {what!r} is not one of 'status', 'replication'.")
    return ["describe", f"--{what or 'status'}", *after]


@click.group(cls=_Group)
@version_option
def command() -> None:
    """Describe the metadata quorum, or change its voters.

    As in KIP-595, --describe [status|replication] describes it, and --alter --voters 0,3,4 changes
    its voters.
    """


@command.command("describe")
@click.option("--status", is_flag=True, help="Leader, high watermark, lag, voters.")
@click.option("--replication", is_flag=True, help="Every replica with its lag.")
@click.option("--brokers", is_flag=True, help="The address of every node; needs no leader.")
@with_target
@watchable
@stale_option
@click.option("--human-readable", is_flag=True, help="Readable times (--replication).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["seed", "kafka"]),
    default="seed",
    show_default=True,
    help="The tables of KIP-595, or those of Kafka's current tool.",
)
@output_option
async def describe(
    target: Target,
    status: bool,
    replication: bool,
    brokers: bool,
    stale: bool,
    human_readable: bool,
    form: str,
    output: str,
) -> None:
    """Describe the quorum: --status, --replication or --brokers."""
    if brokers:
        if status or replication:
            raise click.UsageError("give one of --status, --replication and --brokers")
        if form == "kafka" or human_readable or stale:
            raise click.UsageError("--brokers can be combined with --output only")
        async with target.client() as client:
            found = await client.discover_brokers()

        from admin.cli.quorum_text import nodes_data, nodes_table

        show(found, output, nodes_table, nodes_data)
        return
    if status and replication:
        raise click.UsageError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not status and not replication:
        raise click.UsageError(
            "One of --status or --replication must be specified with describe sub-command; "
            "--brokers lists the address of every node"
        )
    if human_readable and not replication:
        raise click.UsageError(
            "The option --human-readable is only supported along with --replication"
        )
    if form == "kafka" and is_given("output"):
        raise click.UsageError("--format kafka is a table; omit --output")
    async with target.client() as client:
        described = await client.describe_quorum(stale=stale, patient=False)

    from admin.capabilities.quorum import quorum_of
    from admin.cli import quorum_text as text

    quorum = quorum_of(described)
    if status:
        table = text.kafka_status if form == "kafka" else text.status
        show(quorum, output, table, text.status_data)
    elif form == "kafka":
        write(text.kafka_replication(quorum, human_readable=human_readable, now_ms=wall_ms()))
    else:
        table = partial(text.replication, human_readable=human_readable)
        show(quorum, output, table, text.replication_data)


@command.command("alter")
@click.option("--voters", type=VOTERS, help="The new voters: 4,5,6, or 4:DIRECTORY_ID,5,6.")
@click.option(
    "--cancel", is_flag=True, help="Cancel a change in progress; keep the present voters."
)
@click.option("--no-wait", is_flag=True, help="Return once the target is recorded.")
@with_target
@output_option
async def alter(
    target: Target, voters: "Voters | None", cancel: bool, no_wait: bool, output: str
) -> Exit:
    """Replace the voters; the leader adds and removes them one at a time.

    Exit code 0: changed, or recorded with --no-wait; 3: not finished before the time-out.
    """
    if (voters is None) != cancel:
        raise click.UsageError("give --voters 4,5,6, or --cancel for a change in progress")
    async with target.client() as client:
        await client.alter_voters(voters)
        if cancel or no_wait:
            found = await client.describe_quorum()
        else:
            found = await _watch(client, target.timeout_ms)

    from admin.capabilities.quorum import quorum_of
    from admin.cli.quorum_text import altered, status_data

    show(quorum_of(found), output, altered, status_data)
    return Exit.NOT_FINISHED if found.target_voters and not no_wait else Exit.DONE


_voter_options: Final = add_options(
    click.option("--controller-id", type=WholeNumber(min=0), required=True),
    click.option(
        "--controller-directory-id", "directory", type=DIRECTORY, help="[default: looked up]"
    ),
)


@command.command("add-controller")
@_voter_options
@click.option(
    "--listener", type=ADDRESSES, help="Its address: host:port. [default: that it has registered]"
)
@with_target
@output_option
async def add_controller(
    target: Target,
    controller_id: int,
    directory: "UUID | None",
    listener: "tuple[Address, ...] | None",
    output: str,
) -> None:
    """Add a voter, which must have caught up (KIP-853)."""
    from quorum.core.vocabulary import uuid_to_text

    if listener is not None and len(listener) != 1:
        raise click.UsageError("--listener: name one address")
    async with target.client() as client:
        quorum = await client.describe_quorum()
        key = _key(quorum, controller_id, directory, votes=False)
        address = listener[0] if listener else await _registered(target, client, controller_id)
        name = _listener_name(quorum)
        await client.add_voter(key, [(name, address)])
    id, endpoint = uuid_to_text(key.directory_id), f"{name}://{address}"
    if output != "table":
        added = {"controller_id": key.id, "directory_id": id, "endpoint": endpoint}
        write_data(added, output)
        return
    write(f"Added controller {key.id} with directory id {id} and endpoints: {endpoint}")


async def _registered(target: Target, client: "AdminClient", controller_id: int) -> "Address":
    """The address that the controller has registered; only controllers tell it."""
    if target.addresses is not target.controllers:
        raise click.UsageError(
            "brokers do not know the address of a controller: give --listener, or ask a "
            "controller with --bootstrap-controller"
        )
    for node in (await client.describe_cluster()).nodes:
        if node.id == controller_id:
            return node.address
    raise click.ClickException(
        f"controller {controller_id} has registered no address; give --listener host:port"
    )


def _listener_name(quorum: "QuorumDescription") -> str:
    """The name of the voters' listener: by it, the others find the address of a voter."""
    names = [name for places in quorum.addresses.values() for name, _ in places]
    return names[0] if names else "CONTROLLER"


@command.command("remove-controller")
@_voter_options
@with_target
@output_option
async def remove_controller(
    target: Target, controller_id: int, directory: "UUID | None", output: str
) -> None:
    """Remove a voter (KIP-853)."""
    from quorum.core.vocabulary import uuid_to_text

    async with target.client() as client:
        key = _key(await client.describe_quorum(), controller_id, directory, votes=True)
        await client.remove_voter(key)
    id = uuid_to_text(key.directory_id)
    if output != "table":
        write_data({"controller_id": key.id, "directory_id": id}, output)
        return
    # Two spaces, as in Kafka's tool.
    write(f"Removed  KRaft controller {key.id} with directory id {id}")


POLL_SECONDS: Final = 0.2


async def _watch(client: "AdminClient", within_ms: int) -> "QuorumDescription":
    """Poll until the change is complete or time is up; show what it waits for."""
    import asyncio

    deadline = asyncio.get_running_loop().time() + within_ms / 1_000
    said = ""
    while True:
        found = await client.describe_quorum()
        if not found.target_voters and found.waits_for is None:
            return found
        target = f", target {sorted(found.target_voters)}" if found.target_voters else ""
        waits = f"; waiting for {found.waits_for}" if found.waits_for else ""
        line = f"voters {sorted(each.id for each in found.voters)}{target}{waits}"
        if line != said:
            say(line)
            said = line
        if asyncio.get_running_loop().time() >= deadline:
            return found
        await asyncio.sleep(POLL_SECONDS)


def _key(
    quorum: "QuorumDescription", controller_id: int, directory: "UUID | None", *, votes: bool
) -> "ReplicaKey":
    """The replica key: with the given directory, or the one that the quorum knows."""
    from quorum.core.vocabulary import ReplicaId, ReplicaKey

    if directory is not None:
        return ReplicaKey(ReplicaId(controller_id), directory)
    candidates: Sequence[Any] = quorum.voters if votes else quorum.observers
    known = [each.directory_id for each in candidates if each.id == controller_id]
    if len(known) == 1:
        return ReplicaKey(ReplicaId(controller_id), known[0])
    why = f"it is not {'a voter' if votes else 'an observer'}"
    if known:
        why = f"{len(known)} directories are known"
    elif controller_id in [each.id for each in quorum.voters]:
        why += " but a voter"
    raise click.ClickException(
        f"controller {controller_id}: {why}; give --controller-directory-id; see "
        "describe --replication"
    )


@click.group()
def leader() -> None:
    """Transfer the leadership of the metadata quorum."""


@leader.command("transfer")
@click.option(
    "--to",
    type=WholeNumber(min=0, max=ID_MAX),
    metavar="ID",
    help="The new leader. [default: the most advanced voter]",
)
@with_target
@output_option
async def transfer(target: Target, to: int | None, output: str) -> Exit:
    """Transfer the leadership to another voter, without an election time-out.

    Meanwhile the leader accepts no records; it commits those it has accepted before it resigns.
    """
    from admin.capabilities.quorum import TransferLead
    from admin.faults import Incompatible, Refused
    from quorum.protocol.errors import ErrorCode
    from statemachine.vocabulary import NO_LEADER

    try:
        found = await target.ask(TransferLead(to=to))
    except (Incompatible, Refused) as error:
        if isinstance(error, Refused) and error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        raise click.ClickException(f"{error}. {_KAFKA_LEADS}") from None
    show(found, output, described)
    if found.leader_id == NO_LEADER:
        return Exit.NOT_FINISHED
    if to is not None and found.leader_id != to:
        say(f"Error: controller {found.leader_id} was elected instead of {to}; ask again")
        return Exit.FAILED
    return Exit.DONE


_KAFKA_LEADS: Final = (
    "A controller of Kafka gives up the lead only when it is stopped or loses its vote: "
    "metadata-quorum remove-controller --controller-id ID, or metaquorum migrate start"
)


def described(found: "LeadTransfer") -> str:
    """One sentence about the leader after the transfer."""
    from statemachine.vocabulary import NO_LEADER

    if found.leader_id == NO_LEADER:
        return f"The leader resigned, and no new leader is known after {found.duration_ms} ms."
    if found.led_already:
        return (
            f"Controller {found.leader_id} leads already, in epoch {found.leader_epoch}: nothing "
            "was changed."
        )
    return (
        f"Controller {found.leader_id} leads in epoch {found.leader_epoch}, "
        f"{found.duration_ms} ms after the request."
    )
