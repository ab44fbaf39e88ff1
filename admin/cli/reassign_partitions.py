"""`reassign-partitions`: the options of `kafka-reassign-partitions.sh`, and ours."""

from pathlib import Path
from typing import Any, Final

import click

from admin.cli.options import (
    BROKERS,
    PRIORITY,
    STDIN,
    BadInput,
    Exit,
    Target,
    is_given,
    key_option,
    output_option,
    read_file,
    stale_option,
    throttle_option,
    with_target,
)
from admin.cli.version import version_option

ACTIONS: Final = ("generate", "execute", "verify", "cancel", "cancel_all", "list")
FILE: Final = click.Path(path_type=Path)


def _checked_name(ctx: click.Context, param: click.Parameter, name: str) -> str:
    if name:
        from controller.move_requests import wrong_name

        if reason := wrong_name(name):
            raise click.UsageError(reason, ctx)
    return name


@click.command()
@version_option
@with_target
@click.option("--generate", is_flag=True, help="Generate a plan and print it.")
@click.option("--execute", is_flag=True, help="Execute the plan.")
@click.option(
    "--verify", is_flag=True, help="Show the progress of the plan. Exit code 3: not finished."
)
@click.option("--cancel", is_flag=True, help="Cancel the running reassignments of the plan.")
@click.option("--cancel-all", is_flag=True, help="Cancel all running reassignments.")
@click.option("--list", is_flag=True, help="List all running reassignments.")
@click.option(
    "--reassignment-json-file",
    type=FILE,
    help="The plan: {version: 1, partitions: [{topic, partition, replicas}]}; - for stdin.",
)
@click.option(
    "--topics-to-move-json-file",
    type=FILE,
    help="The topics of a generated plan: {version: 1, topics: [{topic}]}; - for stdin.  "
    "[default: all]",
)
@click.option(
    "--broker-list",
    type=BROKERS,
    help="The brokers of a generated plan, which get all replicas: 101,102.  "
    "[default: all that are alive]",
)
@click.option(
    "--plan-file",
    type=FILE,
    help="With --generate: write the plan to this new file, for --reassignment-json-file; - for "
    "stdout.",
)
@click.option("--disable-rack-aware", is_flag=True, help="Ignore racks when generating a plan.")
@click.option("--additional", is_flag=True, help="Execute while other reassignments are running.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="With --execute: show the effects and the steps; change nothing.",
)
@click.option("--name", default="", callback=_checked_name, help="The name of the new move.")
@click.option(
    "--priority",
    type=PRIORITY,
    default=0,
    help="The priority of the new move; higher priorities go first.",
)
@throttle_option
@key_option
@click.option("--wait", is_flag=True, help="Wait for the move to finish and show its progress.")
@stale_option
@output_option
async def command(target: Target, **options: Any) -> Exit:
    """Move partitions between brokers: generate, execute, verify and cancel plans."""
    action = _action(options)
    _check_options(action, options)

    from admin.capabilities.reassignments import BeginMove
    from admin.cli import reassign_actions as actions
    from admin.http.limits import PLAN_BYTES_MAX
    from admin.plan_file import parse_plan, parse_topics

    if action == "generate":
        file = options["topics_to_move_json_file"]
        return await actions.generate(
            target,
            None if file is None else read_file(file, PLAN_BYTES_MAX, parse_topics),
            options["broker_list"],
            rack_aware=not options["disable_rack_aware"],
            plan_file=options["plan_file"],
        )
    if action == "list":
        return await actions.list_active(target, options["output"], stale=options["stale"])
    if action == "cancel_all":
        return await actions.cancel_all(target)
    plan = read_file(options["reassignment_json_file"], PLAN_BYTES_MAX, parse_plan)
    if action == "cancel":
        return await actions.cancel(target, plan)
    if action == "verify":
        return await actions.verify(target, plan, options["output"])
    if options["dry_run"]:
        return await actions.foresee(target, plan)
    request = BeginMove(
        assignments=plan,
        name=options["name"],
        priority=options["priority"],
        key=options["key"],
        throttle_bytes_per_s=options["throttle"],
    )
    additional, wait = options["additional"], options["wait"]
    return await actions.execute(target, request, additional=additional, wait=wait)


def _action(options: dict[str, Any]) -> str:
    chosen = [action for action in ACTIONS if options[action]]
    if len(chosen) != 1:
        actions = ", ".join(_flag(action) for action in ACTIONS)
        raise click.UsageError(f"Command must include exactly one action: {actions}")
    return chosen[0]


WITH_PLAN: Final = ("execute", "verify", "cancel")
OPTIONAL: Final = {
    **dict.fromkeys(
        ("additional", "dry_run", "name", "priority", "throttle", "key", "wait"), "execute"
    ),
    **dict.fromkeys(
        ("topics_to_move_json_file", "broker_list", "disable_rack_aware", "plan_file"), "generate"
    ),
}
"""The action that an option belongs to."""


def _check_options(action: str, options: dict[str, Any]) -> None:
    """Raise a usage error if an option is missing or does not go with the action."""
    plan = "reassignment_json_file"
    if options[plan] is not None and action not in WITH_PLAN:
        raise _not_with(plan, action)
    if options[plan] is None and action in WITH_PLAN:
        raise click.UsageError(f"{_flag(action)} needs {_flag(plan)}: the plan")
    for name, owner in OPTIONAL.items():
        if options[name] and action != owner:
            raise _not_with(name, action)
    file = options["plan_file"]
    if file is not None and file != STDIN and file.exists():
        # Said before the plan is made, which may take a while.
        raise BadInput(f"--plan-file: {file} exists already; name a new file")
    if options["dry_run"] and (options["wait"] or options["key"]):
        raise click.UsageError("--dry-run changes nothing; omit --wait and --key")
    if is_given("output") and action not in ("verify", "list"):
        raise click.UsageError(f"{_flag(action)} has the output of Kafka's script; omit --output")
    if options["stale"] and action != "list":
        raise click.UsageError(f"{_flag(action)} needs an answer that is up to date; omit --stale")


def _not_with(name: str, action: str) -> click.UsageError:
    return click.UsageError(f'Option "{_flag(name)}" can\'t be used with action "{_flag(action)}"')


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
