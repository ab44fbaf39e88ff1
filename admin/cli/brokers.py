"""`metaquorum brokers`: list them, let them get no new replicas, ask whether they may stop."""

from typing import TYPE_CHECKING, Any

import click

from admin.cli.common import (
    BrokerList,
    Exit,
    Target,
    output_option,
    run,
    say,
    stale_option,
    target,
    target_options,
    write,
    write_answer,
)
from admin.cli.moves.types import RATE, check_key, key_option

if TYPE_CHECKING:
    from admin.capabilities.brokers import CordonBrokers, UncordonBrokers, UnregisterBrokers

brokers_option = click.option(
    "--brokers", type=BrokerList(), required=True, help="The brokers, by id: 101,102."
)


@click.group()
def command() -> None:
    """Care for brokers: who is there, who gets new replicas, who may stop."""


@command.command("list")
@target_options
@stale_option
@output_option
def show(stale: bool, output: str, **whom: Any) -> None:
    """List all registered brokers, alive or not, with what they have."""
    run(_show(target(**whom), output, stale=stale))


@command.command()
@brokers_option
@target_options
@click.pass_context
def cordon(ctx: click.Context, /, brokers: tuple[int, ...], **whom: Any) -> None:
    """Let brokers get no new replicas; what they have stays."""
    from admin.capabilities.brokers import CordonBrokers

    ctx.exit(run(_alter(target(**whom), CordonBrokers(broker_ids=brokers))))


@command.command()
@brokers_option
@target_options
@click.pass_context
def uncordon(ctx: click.Context, /, brokers: tuple[int, ...], **whom: Any) -> None:
    """Let brokers get new replicas again."""
    from admin.capabilities.brokers import UncordonBrokers

    ctx.exit(run(_alter(target(**whom), UncordonBrokers(broker_ids=brokers))))


@command.command()
@brokers_option
@target_options
@click.pass_context
def unregister(ctx: click.Context, /, brokers: tuple[int, ...], **whom: Any) -> None:
    """Forget brokers that have stopped and have no replicas; `decommission` takes those away.

    Exit code 1 if any could not be forgotten; the others are.
    """
    from admin.capabilities.brokers import UnregisterBrokers

    ctx.exit(run(_alter(target(**whom), UnregisterBrokers(broker_ids=brokers))))


@command.command("safe-to-stop")
@brokers_option
@target_options
@stale_option
@output_option
@click.pass_context
def safe_to_stop(
    ctx: click.Context, /, brokers: tuple[int, ...], stale: bool, output: str, **whom: Any
) -> None:
    """Tell whether brokers may stop together; exit code 1 and the partitions that say no."""
    ctx.exit(run(_safe(target(**whom), brokers, output, stale=stale)))


@command.command()
@brokers_option
@click.option("--dry-run", is_flag=True, help="Tell what would be moved; change nothing.")
@click.option(
    "--unregister", is_flag=True, help="Once they have nothing and are stopped, forget them."
)
@click.option(
    "--throttle",
    type=RATE,
    help="Bytes a second that are copied at most to each broker, and from each, meanwhile.",
)
@click.option("--wait", is_flag=True, help="Come back when nothing is left on them.")
@key_option
@target_options
@output_option
@click.pass_context
def decommission(
    ctx: click.Context,
    /,
    brokers: tuple[int, ...],
    dry_run: bool,
    unregister: bool,
    throttle: int | None,
    wait: bool,
    key: str,
    output: str,
    **whom: Any,
) -> None:
    """Empty brokers, dead ones too: cordon them and move away what they have.

    It goes on in the cluster when this command has ended. Ask again to hear how far it is. Exit
    code 0: nothing is left on them; 3: not yet.
    """
    if dry_run and unregister:
        raise click.UsageError("--dry-run changes nothing; leave --unregister out")
    if dry_run and wait:
        raise click.UsageError("--dry-run begins nothing to wait for; leave --wait out")
    check_key(key, dry_run=dry_run)
    from admin.cli.decommissioning import decommission as work
    from admin.plans import Operation, PlanRequest

    asked = PlanRequest(
        operation=Operation.DRAIN,
        brokers=brokers,
        dry_run=dry_run,
        unregister=unregister,
        throttle_bytes_per_s=throttle or 0,
        key=key,
    )
    ctx.exit(run(work(target(**whom), asked, output, wait=wait)))


@command.command()
@brokers_option
@click.option("--dry-run", is_flag=True, help="Tell what would be cancelled; change nothing.")
@key_option
@target_options
@click.pass_context
def recommission(
    ctx: click.Context, /, brokers: tuple[int, ...], dry_run: bool, key: str, **whom: Any
) -> None:
    """Undo a decommission: cancel the moves that empty brokers, and end the cordon."""
    check_key(key, dry_run=dry_run)
    from admin.cli.decommissioning import recommission as work
    from admin.plans import Operation, PlanRequest

    asked = PlanRequest(operation=Operation.UNDRAIN, brokers=brokers, dry_run=dry_run, key=key)
    ctx.exit(run(work(target(**whom), asked)))


async def _show(whom: Target, output: str, *, stale: bool) -> None:
    from admin.capabilities.brokers import ListBrokers
    from admin.cli import brokers_text as text

    async with whom.client() as client:
        found = await client.ask(ListBrokers(), stale=stale)
    if output == "table":
        write(text.listed(found.brokers))
    else:
        write_answer(found, output)


async def _alter(
    whom: Target, request: "CordonBrokers | UncordonBrokers | UnregisterBrokers"
) -> Exit:
    from admin.cli import brokers_text as text

    async with whom.client() as client:
        results = (await client.ask(request)).brokers
    done = [each.broker_id for each in results if not each.kafka_error_code]
    refused = [each for each in results if each.kafka_error_code]
    if done:
        write(text.altered(done, type(request)))
    if refused:
        say(text.not_altered(refused))
    return Exit.FAILED if refused else Exit.DONE


async def _safe(whom: Target, brokers: tuple[int, ...], output: str, *, stale: bool) -> Exit:
    from admin.capabilities.brokers import SafeToStop
    from admin.cli import brokers_text as text

    async with whom.client() as client:
        found = await client.ask(SafeToStop(broker_ids=brokers), stale=stale)
    if output == "table":
        write(text.judged(brokers, found))
    else:
        write_answer(found, output)
    return Exit.DONE if found.safe else Exit.FAILED
