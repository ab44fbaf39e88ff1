"""`metadata-quorum`: Kafka's command, and the forms of KIP-595."""

from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

from admin.cli.options import (
    AddressList,
    Target,
    output_option,
    run,
    stale_option,
    target,
    target_options,
    write,
    write_data,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from admin.client.nodes import Whereabouts
    from controller.quorum_description import QuorumDescription

What = Literal["status", "replication"]
Form = Literal["seed", "kafka"]
Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_TARGET: Final = ("bootstrap_server", "bootstrap_controller")


def shape_options(command: Decorated) -> Decorated:
    """Add the options for the output format."""
    options = (
        stale_option,
        click.option("--human-readable", is_flag=True, help="Readable times (--replication)."),
        click.option(
            "--format",
            "form",
            type=click.Choice(["seed", "kafka"]),
            default="seed",
            show_default=True,
            help="The tables of KIP-595, or those of Kafka's current tool.",
        ),
        output_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@target_options
@shape_options
@click.option(
    "--describe",
    "what",
    is_flag=False,
    flag_value="status",
    type=click.Choice(["status", "replication"]),
    help="As in KIP-595: --describe, or --describe replication.",
)
@click.option("--alter", "alters", is_flag=True, help="As in KIP-595: --alter --voters 0,3,4.")
@click.option("--voters", help="With --alter: the new voters.")
@click.pass_context
def command(
    ctx: click.Context, /, what: What | None, alters: bool, voters: str | None, **options: Any
) -> None:
    """Describe the metadata quorum, or change its voters."""
    ctx.obj = options
    if ctx.invoked_subcommand is not None:
        if what is not None or alters or voters is not None:
            raise click.UsageError(
                "give a command (describe, alter, ...) or an option (--describe, --alter), not both"
            )
        return
    if alters:
        if what is not None:
            raise click.UsageError("give --describe or --alter, not both")
        _alter(voters, cancel=False, wait=True, **options)
        return
    if voters is not None:
        raise click.UsageError("--voters goes with --alter")
    if what is None:
        raise click.UsageError(
            "give a command: describe --status, describe --replication, or --describe"
        )
    _describe(what, **options)


@command.command("describe")
@click.option("--status", is_flag=True, help="Leader, high watermark, lag, voters.")
@click.option("--replication", is_flag=True, help="Every replica with its lag.")
@click.option("--brokers", is_flag=True, help="The address of every node; needs no leader.")
@target_options
@shape_options
@click.pass_context
def describe(
    ctx: click.Context, /, status: bool, replication: bool, brokers: bool, **options: Any
) -> None:
    """Describe the quorum: --status, --replication or --brokers."""
    if brokers:
        if status or replication:
            raise click.UsageError("give one of --status, --replication and --brokers")
        _describe_brokers(**_merged(ctx, options))
        return
    if status and replication:
        raise click.UsageError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not status and not replication:
        raise click.UsageError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    _describe("status" if status else "replication", **_merged(ctx, options))


@command.command("alter")
@click.option("--voters", help="The new voters: 4,5,6, or 4:DIRECTORY_ID,5,6.")
@click.option(
    "--cancel", is_flag=True, help="Cancel a change in progress; keep the present voters."
)
@click.option("--no-wait", is_flag=True, help="Return once the target is recorded.")
@target_options
@output_option
@click.pass_context
def alter(
    ctx: click.Context, /, voters: str | None, cancel: bool, no_wait: bool, **options: Any
) -> None:
    """Replace the voters; the leader adds and removes them one at a time."""
    _alter(voters, cancel=cancel, wait=not no_wait, **_merged(ctx, options))


@command.command("add-controller")
@click.option("--controller-id", type=click.IntRange(min=0), required=True)
@click.option("--controller-directory-id", "directory", help="[default: looked up]")
@click.option("--listener", type=AddressList(), required=True, help="Its address: host:port.")
@target_options
@click.pass_context
def add_controller(
    ctx: click.Context, /, controller_id: int, directory: str | None, listener: Any, **options: Any
) -> None:
    """Add a voter, which must have caught up (KIP-853)."""
    from admin.cli import voters

    if len(listener) != 1:
        raise click.UsageError("--listener: name one address")
    voters.add(target(**_merged(ctx, options)), controller_id, directory, listener[0])


@command.command("remove-controller")
@click.option("--controller-id", type=click.IntRange(min=0), required=True)
@click.option("--controller-directory-id", "directory", help="[default: looked up]")
@target_options
@click.pass_context
def remove_controller(
    ctx: click.Context, /, controller_id: int, directory: str | None, **options: Any
) -> None:
    """Remove a voter (KIP-853)."""
    from admin.cli import voters

    voters.remove(target(**_merged(ctx, options)), controller_id, directory)


def _alter(
    voters: str | None,
    *,
    cancel: bool,
    wait: bool,
    output: str,
    bootstrap_server: Any,
    bootstrap_controller: Any,
    timeout_ms: int,
    **_: Any,
) -> None:
    from admin.cli import voters as changing

    whom = target(bootstrap_server, bootstrap_controller, timeout_ms)
    changing.alter(whom, voters, cancel=cancel, wait=wait, output=output)


def _merged(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Merge the options of group and command; those of the command win."""
    outer: dict[str, Any] = ctx.obj
    given = {
        name
        for name in options
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    merged = {name: options[name] if name in given else outer[name] for name in options}
    if given & set(_TARGET):
        # The two address options exclude each other: one given inside replaces the outer one.
        merged.update({name: options[name] if name in given else None for name in _TARGET})
    return merged


def _describe(
    what: What, *, stale: bool, human_readable: bool, form: Form, output: str, **whom: Any
) -> None:
    if human_readable and what != "replication":
        raise click.UsageError(
            "The option --human-readable is only supported along with --replication"
        )
    if form == "kafka" and output != "table":
        raise click.UsageError("--format kafka is a table; omit --output")
    quorum = run(_ask(target(**whom), stale=stale))
    if output == "table":
        write(_table(quorum, what, form, human_readable=human_readable))
        return

    from admin.cli import quorum_text

    data = quorum_text.status_data if what == "status" else quorum_text.replication_data
    write_data(data(quorum), output)


def _describe_brokers(*, form: Form, human_readable: bool, output: str, **whom: Any) -> None:
    if form == "kafka" or human_readable or whom.pop("stale", False):
        raise click.UsageError("--brokers can be combined with --output only")

    from admin.cli import quorum_text

    found = run(_discover(target(**whom)))
    if output == "table":
        write(quorum_text.places_table(found))
    else:
        write_data(quorum_text.places_data(found), output)


async def _discover(whom: Target) -> "Whereabouts":
    async with whom.client() as client:
        return await client.discover_brokers()


async def _ask(whom: Target, *, stale: bool) -> "QuorumDescription":
    async with whom.client() as client:
        return await client.describe_quorum(stale=stale, patient=False)


def _table(quorum: "QuorumDescription", what: What, form: Form, *, human_readable: bool) -> str:
    from admin.cli import quorum_text
    from quorum.clocks import wall_ms

    match what, form:
        case "status", "kafka":
            return quorum_text.kafka_status(quorum)
        case "replication", "kafka":
            return quorum_text.kafka_replication(
                quorum, human_readable=human_readable, now_ms=wall_ms()
            )
        case "status", _:
            return quorum_text.status(quorum)
        case _:
            return quorum_text.replication(quorum, human_readable=human_readable)
