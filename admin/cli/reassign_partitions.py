"""`reassign-partitions`: the options of `kafka-reassign-partitions.sh`, and ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from admin.cli.options import (
    PRIORITY,
    BrokerList,
    Exit,
    Target,
    key_option,
    output_option,
    read_text,
    run,
    stale_option,
    target,
    target_options,
    throttle_option,
)

if TYPE_CHECKING:
    from admin.capabilities.reassignments import BeginMove
    from admin.model import Assignment

T = TypeVar("T")

ACTIONS: Final = ("generate", "execute", "verify", "cancel", "cancel-all", "list")
WITH_PLAN: Final = ("execute", "verify", "cancel")


@click.command()
@target_options
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
    "file",
    type=click.Path(path_type=Path),
    help="The plan: {version: 1, partitions: [{topic, partition, replicas}]}.",
)
@click.option(
    "--topics-to-move-json-file",
    "topics_file",
    type=click.Path(path_type=Path),
    help="The topics of a generated plan: {version: 1, topics: [{topic}]}.",
)
@click.option(
    "--broker-list",
    type=BrokerList(),
    help="The brokers of a generated plan, which get all replicas: 101,102.",
)
@click.option("--disable-rack-aware", is_flag=True, help="Ignore racks when generating a plan.")
@click.option("--additional", is_flag=True, help="Execute while other reassignments are running.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="With --execute: show the effects and the steps; change nothing.",
)
@click.option("--name", default="", help="The name of the new move.")
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
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Move partitions between brokers: generate, execute, verify and cancel plans."""
    asked = _asked(options)
    whom = target(
        options["bootstrap_server"], options["bootstrap_controller"], options["timeout_ms"]
    )
    if asked.action == "generate":
        ctx.exit(_generate(whom, asked))
    if asked.action == "cancel-all":
        from admin.cli.reassign_actions import cancel_all

        ctx.exit(run(cancel_all(whom)))
    if asked.file is None:
        from admin.cli.reassign_actions import show

        ctx.exit(run(show(whom, asked.output, stale=asked.stale)))
    ctx.exit(_carry_out(whom, asked, asked.file))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignOptions:
    """The validated options."""

    action: str
    file: Path | None
    topics_file: Path | None
    broker_list: tuple[int, ...] | None
    disable_rack_aware: bool
    additional: bool
    dry_run: bool
    name: str
    priority: int
    throttle: Mapping[str, Any]
    key: str
    wait: bool
    stale: bool
    output: str


def _asked(options: dict[str, Any]) -> ReassignOptions:
    chosen = [action for action in ACTIONS if options[action.replace("-", "_")]]
    if len(chosen) != 1:
        raise click.UsageError(
            f"Command must include exactly one action: {', '.join(f'--{a}' for a in ACTIONS)}"
        )
    others = {
        field.name: options[field.name]
        for field in fields(ReassignOptions)
        if field.name != "action"
    }
    asked = ReassignOptions(action=chosen[0], **others)
    _check_files(asked)
    _check_switches(asked)
    return asked


def _check_files(asked: ReassignOptions) -> None:
    is_generating, has_plan = asked.action == "generate", asked.action in WITH_PLAN
    for name, given, is_wanted, what in (
        ("reassignment-json-file", asked.file, has_plan, "the plan"),
        ("topics-to-move-json-file", asked.topics_file, is_generating, "what to plan for"),
        ("broker-list", asked.broker_list, is_generating, "where it may go"),
    ):
        if given is not None and not is_wanted:
            raise click.UsageError(
                f'Option "--{name}" can\'t be used with action "--{asked.action}"'
            )
        if given is None and is_wanted:
            raise click.UsageError(f"--{asked.action} needs --{name}: {what}")


def _check_switches(asked: ReassignOptions) -> None:
    for name, given, action in (
        ("additional", asked.additional, "execute"),
        ("dry-run", asked.dry_run, "execute"),
        ("name", asked.name, "execute"),
        ("priority", asked.priority, "execute"),
        ("throttle", asked.throttle, "execute"),
        ("key", asked.key, "execute"),
        ("wait", asked.wait, "execute"),
        ("disable-rack-aware", asked.disable_rack_aware, "generate"),
    ):
        if given and asked.action != action:
            raise click.UsageError(
                f'Option "--{name}" can\'t be used with action "--{asked.action}"'
            )
    if asked.dry_run and (asked.wait or asked.key):
        raise click.UsageError("--dry-run changes nothing; omit --wait and --key")
    if asked.output != "table" and asked.action not in ("verify", "list"):
        raise click.UsageError(f"--{asked.action} has the output of Kafka's script; omit --output")
    if asked.stale and asked.action != "list":
        raise click.UsageError(f"--{asked.action} needs an answer that is up to date; omit --stale")


def _generate(whom: Target, asked: ReassignOptions) -> Exit:
    from admin.cli.reassign_plan import generate
    from admin.plan_file import parse_topics

    assert asked.topics_file is not None
    assert asked.broker_list is not None
    topics = _read(asked.topics_file, parse_topics)
    aware = not asked.disable_rack_aware
    return run(generate(whom, topics, asked.broker_list, rack_aware=aware))


def _carry_out(whom: Target, asked: ReassignOptions, file: Path) -> Exit:
    from admin.cli import reassign_actions, reassign_plan
    from admin.plan_file import parse_plan

    plan = _read(file, parse_plan)
    match asked.action:
        case "execute" if asked.dry_run:
            return run(reassign_plan.foresee(whom, plan))
        case "execute":
            wish = _new_move(asked, plan)
            return run(
                reassign_actions.execute(whom, wish, additional=asked.additional, wait=asked.wait)
            )
        case "verify":
            return run(reassign_actions.verify(whom, plan, asked.output))
        case _:
            return run(reassign_actions.cancel(whom, plan))


def _new_move(asked: ReassignOptions, plan: "Sequence[Assignment]") -> "BeginMove":
    from admin.capabilities.reassignments import BeginMove
    from controller.move_requests import refusal_of

    refusal = refusal_of(asked.name, asked.key)
    if refusal is not None:
        raise click.UsageError(refusal.message)
    return BeginMove(
        assignments=plan,
        name=asked.name,
        priority=asked.priority,
        key=asked.key,
        **asked.throttle,
    )


def _read(file: Path, parse: Callable[[str], T]) -> T:
    from admin.plan_file import PLAN_BYTES_MAX, InvalidPlan

    try:
        return parse(read_text(file, PLAN_BYTES_MAX))
    except InvalidPlan as error:
        raise click.ClickException(f"{file}: {error}") from None
