"""The options of `reassign-partitions`: which action, and what goes with it. It asks nobody."""

from pathlib import Path
from typing import Any, Final

import click

from admin.cli.common import output_option, read_text, run, stale_option, target, target_options

ACTIONS: Final = ("execute", "verify", "cancel", "list")


@click.command()
@target_options
@click.option("--execute", is_flag=True, help="Start the moves of the plan.")
@click.option("--verify", is_flag=True, help="Tell how far the plan is. Exit code 3: not yet.")
@click.option("--cancel", is_flag=True, help="Cancel those moves of the plan that are under way.")
@click.option("--list", is_flag=True, help="List all moves that are under way.")
@click.option(
    "--reassignment-json-file",
    "file",
    type=click.Path(path_type=Path),
    help="The plan: {version: 1, partitions: [{topic, partition, replicas}]}.",
)
@click.option("--additional", is_flag=True, help="Execute although other moves are under way.")
@stale_option
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: Path | None,
    additional: bool,
    stale: bool,
    output: str,
    **options: Any,
) -> None:
    """Move partitions between brokers: execute a plan, follow it, cancel it."""
    chosen = [action for action in ACTIONS if options.pop(action)]
    if len(chosen) != 1:
        raise click.UsageError(
            f"Command must include exactly one action: {', '.join(f'--{a}' for a in ACTIONS)}"
        )
    action = chosen[0]
    _check_options(action, file, additional=additional, output=output)
    if stale and action != "list":
        raise click.UsageError(f"--{action} needs what is so now; leave --stale out")
    whom = target(**options)
    if file is None:
        from admin.cli.moves.following import show

        ctx.exit(run(show(whom, output, stale=stale)))
    from admin.cli.moves import changing, following
    from admin.plan_file import PLAN_BYTES_MAX, InvalidPlan, parse_plan

    try:
        plan = parse_plan(read_text(file, PLAN_BYTES_MAX))
    except InvalidPlan as error:
        raise click.ClickException(f"{file}: {error}") from None
    match action:
        case "execute":
            ctx.exit(run(changing.execute(whom, plan, additional=additional)))
        case "verify":
            ctx.exit(run(following.verify(whom, plan, output)))
        case _:
            ctx.exit(run(changing.cancel(whom, plan)))


def _check_options(action: str, file: Path | None, *, additional: bool, output: str) -> None:
    if action == "list" and file is not None:
        raise click.UsageError(
            'Option "--reassignment-json-file" can\'t be used with action "--list"'
        )
    if action != "list" and file is None:
        raise click.UsageError(f"--{action} needs --reassignment-json-file: the plan")
    if additional and action != "execute":
        raise click.UsageError(f'Option "--additional" can\'t be used with action "--{action}"')
    if output != "table" and action in ("execute", "cancel"):
        raise click.UsageError(f"--{action} prints Kafka's sentences; leave --output out")
