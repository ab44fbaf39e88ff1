"""`metaquorum brokers`: list, cordon, decommission and unregister brokers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    BrokerList,
    Exit,
    Target,
    check_key,
    key_option,
    output_option,
    run,
    say,
    stale_option,
    target,
    target_options,
    throttle_option,
    write,
    write_answer,
)
from admin.cli.output import columns

if TYPE_CHECKING:
    from admin.capabilities.brokers import (
        Broker,
        BrokerResult,
        CordonBrokers,
        Safety,
        UncordonBrokers,
        UnregisterBrokers,
    )


brokers_option = click.option(
    "--brokers", type=BrokerList(), required=True, help="Broker ids: 101,102."
)


@click.group()
def command() -> None:
    """List, cordon, decommission and unregister brokers."""


@command.command("list")
@target_options
@stale_option
@output_option
def show(stale: bool, output: str, **whom: Any) -> None:
    """List all registered brokers with their state and replicas."""
    run(_show(target(**whom), output, stale=stale))


@command.command()
@brokers_option
@target_options
@click.pass_context
def cordon(ctx: click.Context, /, brokers: tuple[int, ...], **whom: Any) -> None:
    """Assign no new replicas to brokers; existing replicas stay."""
    from admin.capabilities.brokers import CordonBrokers

    ctx.exit(run(_alter(target(**whom), CordonBrokers(broker_ids=brokers), "get no new replicas")))


@command.command()
@brokers_option
@target_options
@click.pass_context
def uncordon(ctx: click.Context, /, brokers: tuple[int, ...], **whom: Any) -> None:
    """Undo a cordon: assign new replicas to brokers again."""
    from admin.capabilities.brokers import UncordonBrokers

    ctx.exit(
        run(_alter(target(**whom), UncordonBrokers(broker_ids=brokers), "get new replicas again"))
    )


@command.command()
@brokers_option
@target_options
@click.pass_context
def unregister(ctx: click.Context, /, brokers: tuple[int, ...], **whom: Any) -> None:
    """Unregister brokers that are stopped and have no replicas; see `decommission`.

    Exit code 1 if the controller refuses any of them; the others are unregistered.
    """
    from admin.capabilities.brokers import UnregisterBrokers

    ctx.exit(
        run(
            _alter(
                target(**whom), UnregisterBrokers(broker_ids=brokers), "are not registered any more"
            )
        )
    )


@command.command("safe-to-stop")
@brokers_option
@target_options
@stale_option
@output_option
@click.pass_context
def safe_to_stop(
    ctx: click.Context, /, brokers: tuple[int, ...], stale: bool, output: str, **whom: Any
) -> None:
    """Check whether brokers can stop together.

    If not, the exit code is 1 and the affected partitions are listed.
    """
    ctx.exit(run(_safe(target(**whom), brokers, output, stale=stale)))


@command.command()
@brokers_option
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@click.option(
    "--unregister", is_flag=True, help="Unregister the brokers once they are empty and stopped."
)
@throttle_option
@click.option("--wait", is_flag=True, help="Wait until no replica is left on the brokers.")
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
    throttle: Mapping[str, Any],
    wait: bool,
    key: str,
    output: str,
    **whom: Any,
) -> None:
    """Cordon brokers, alive or dead, and move all their replicas to other brokers.

    The moves continue in the cluster after this command has returned. Repeat the command to see
    the progress. Exit code 0: no replica is left on the brokers; 3: not finished.
    """
    if dry_run and unregister:
        raise click.UsageError("--dry-run changes nothing; omit --unregister")
    if dry_run and wait:
        raise click.UsageError("--dry-run changes nothing; omit --wait")
    check_key(key, dry_run=dry_run)
    from admin.capabilities.decommission import DecommissionBrokers
    from admin.cli.plans import decommission as work

    asked = DecommissionBrokers(
        broker_ids=brokers,
        dry_run=dry_run,
        unregister=unregister,
        key=key,
        **throttle,
    )
    ctx.exit(run(work(target(**whom), asked, output, wait=wait)))


@command.command()
@brokers_option
@click.option(
    "--dry-run", is_flag=True, help="Show which moves would be cancelled; change nothing."
)
@key_option
@target_options
@click.pass_context
def recommission(
    ctx: click.Context, /, brokers: tuple[int, ...], dry_run: bool, key: str, **whom: Any
) -> None:
    """Undo a decommission: cancel its moves and uncordon the brokers."""
    check_key(key, dry_run=dry_run)
    from admin.capabilities.decommission import RecommissionBrokers
    from admin.cli.plans import recommission as work

    asked = RecommissionBrokers(broker_ids=brokers, dry_run=dry_run, key=key)
    ctx.exit(run(work(target(**whom), asked)))


async def _show(whom: Target, output: str, *, stale: bool) -> None:
    from admin.capabilities.brokers import ListBrokers

    async with whom.client() as client:
        found = await client.ask(ListBrokers(), stale=stale)
    if output == "table":
        write(listed(found.brokers))
    else:
        write_answer(found, output)


async def _alter(
    whom: Target, request: "CordonBrokers | UncordonBrokers | UnregisterBrokers", what: str
) -> Exit:

    async with whom.client() as client:
        results = (await client.ask(request)).brokers
    done = [each.broker_id for each in results if not each.kafka_error_code]
    refused = [each for each in results if each.kafka_error_code]
    if done:
        write(altered(done, what))
    if refused:
        say(not_altered(refused))
    return Exit.FAILED if refused else Exit.DONE


async def _safe(whom: Target, brokers: tuple[int, ...], output: str, *, stale: bool) -> Exit:
    from admin.capabilities.brokers import SafeToStop

    async with whom.client() as client:
        found = await client.ask(SafeToStop(broker_ids=brokers), stale=stale)
    if output == "table":
        write(judged(brokers, found))
    else:
        write_answer(found, output)
    return Exit.DONE if found.safe else Exit.FAILED


_TITLES: Final = ("Broker", "State", "Cordoned", "Rack", "Replicas", "InSync", "Leaders", "Then")


def listed(brokers: "Sequence[Broker]") -> str:
    """The output of `list`."""
    if not brokers:
        return "No brokers are registered."
    rows = [
        (
            each.broker_id,
            each.state,
            "yes" if each.cordoned else "no",
            "-" if each.rack is None else each.rack,
            each.replicas,
            each.in_sync,
            each.leaders,
            "unregistered once empty and stopped" if each.to_be_unregistered else "-",
        )
        for each in brokers
    ]
    return columns(_TITLES, rows)


def altered(done: Sequence[int], what: str) -> str:
    """The output of `cordon`, `uncordon` and `unregister`."""
    if len(done) == 1:
        what = what.replace("get", "gets", 1).replace("are", "is", 1)
    return f"{_brokers(done)} {what}."


def not_altered(refused: "Sequence[BrokerResult]") -> str:
    """The errors of these commands."""
    return "\n".join(f"Error: {each.message or each.kafka_error}" for each in refused)


def judged(brokers: Sequence[int], found: "Safety") -> str:
    """The output of `safe-to-stop`."""
    if found.safe:
        looked_at = found.partitions_looked_at
        return f"{_brokers(brokers)} may stop: {looked_at} partition(s) would not be hurt."
    rows = [
        (
            f"{each.topic}-{each.partition}",
            each.harm,
            ",".join(map(str, each.in_sync)) or "-",
            each.min_isr,
        )
        for each in found.hurt
    ]
    more = found.partitions_hurt - len(found.hurt)
    return "\n".join(
        [
            f"{_brokers(brokers)} must not stop: {found.partitions_hurt} of"
            f" {found.partitions_looked_at} partition(s) would be hurt.",
            columns(("Partition", "Harm", "InSync", "MinISR"), rows),
            *([f"and {more} more"] if more else []),
        ]
    )


def _brokers(ids: Sequence[int]) -> str:
    several = "Brokers" if len(ids) > 1 else "Broker"
    return f"{several} {', '.join(map(str, ids))}"
