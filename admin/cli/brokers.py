"""`metaquorum brokers`: list, cordon, decommission and unregister brokers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from admin.cli.options import (
    BROKERS,
    Exit,
    Target,
    check_dry_run,
    finish,
    key_option,
    output_option,
    show,
    stale_option,
    throttle_option,
    with_target,
)
from admin.cli.output import Columns, and_more, columns, ids, named, refused_parts

if TYPE_CHECKING:
    from admin.capabilities.brokers import Broker, BrokersAltered, Safety
    from admin.capabilities.schema import Request
    from statemachine.brokers.safety import UnsafePartition


brokers_option = click.option("--brokers", type=BROKERS, required=True, help="Broker ids: 101,102.")


@click.group()
def command() -> None:
    """List, cordon, decommission and unregister brokers."""


@command.command("list")
@with_target
@stale_option
@output_option
async def list_(target: Target, stale: bool, output: str) -> None:
    """List all registered brokers with their state and replicas."""
    from admin.capabilities.brokers import ListBrokers

    found = await target.ask(ListBrokers(), stale=stale)
    show(found, output, lambda found: listed(found.brokers))


@command.command()
@brokers_option
@with_target
async def cordon(target: Target, brokers: tuple[int, ...]) -> Exit:
    """Assign no new replicas to brokers; existing replicas stay."""
    from admin.capabilities.brokers import CordonBrokers

    return await _alter(target, CordonBrokers(broker_ids=brokers), "Cordoned")


@command.command()
@brokers_option
@with_target
async def uncordon(target: Target, brokers: tuple[int, ...]) -> Exit:
    """Undo a cordon: assign new replicas to brokers again."""
    from admin.capabilities.brokers import UncordonBrokers

    return await _alter(target, UncordonBrokers(broker_ids=brokers), "Uncordoned")


@command.command()
@brokers_option
@with_target
async def unregister(target: Target, brokers: tuple[int, ...]) -> Exit:
    """Unregister brokers that are stopped and have no replicas; see `decommission`.

    Exit code 1 if the controller refuses any of them; the others are unregistered.
    """
    from admin.capabilities.brokers import UnregisterBrokers

    return await _alter(target, UnregisterBrokers(broker_ids=brokers), "Unregistered")


@command.command("safe-to-stop")
@brokers_option
@with_target
@stale_option
@output_option
async def safe_to_stop(target: Target, brokers: tuple[int, ...], stale: bool, output: str) -> Exit:
    """Check whether brokers can stop together.

    If not, the exit code is 1 and the affected partitions are listed.
    """
    from admin.capabilities.brokers import SafeToStop

    found = await target.ask(SafeToStop(broker_ids=brokers), stale=stale)
    show(found, output, lambda found: judged(brokers, found))
    return Exit.DONE if found.safe else Exit.FAILED


@command.command()
@brokers_option
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@click.option(
    "--unregister", is_flag=True, help="Unregister the brokers once they are empty and stopped."
)
@throttle_option
@click.option("--wait", is_flag=True, help="Wait until no replica is left on the brokers.")
@key_option
@with_target
@output_option
async def decommission(
    target: Target,
    brokers: tuple[int, ...],
    dry_run: bool,
    unregister: bool,
    throttle: int,
    wait: bool,
    key: str,
    output: str,
) -> Exit:
    """Cordon brokers, alive or dead, and move all their replicas to other brokers.

    The moves continue in the cluster after this command has returned. Repeat the command to see
    the progress. Exit code 0: no replica is left on the brokers; 3: not finished.
    """
    check_dry_run(dry_run, unregister=unregister, wait=wait, key=key)
    from admin.capabilities.decommission import DecommissionBrokers
    from admin.cli.plans import decommission as work

    request = DecommissionBrokers(
        broker_ids=brokers,
        dry_run=dry_run,
        unregister=unregister,
        key=key,
        throttle_bytes_per_s=throttle,
    )
    return await work(target, request, output, wait=wait)


@command.command()
@brokers_option
@click.option(
    "--dry-run", is_flag=True, help="Show which moves would be cancelled; change nothing."
)
@key_option
@with_target
async def recommission(target: Target, brokers: tuple[int, ...], dry_run: bool, key: str) -> Exit:
    """Undo a decommission: cancel its moves and uncordon the brokers."""
    check_dry_run(dry_run, key=key)
    from admin.capabilities.decommission import RecommissionBrokers
    from admin.cli.plans import recommission as work

    return await work(target, RecommissionBrokers(broker_ids=brokers, dry_run=dry_run, key=key))


_BROKERS: Final["Columns[Broker]"] = {
    "Broker": lambda broker: broker.broker_id,
    "State": lambda broker: broker.state,
    "Cordoned": lambda broker: "yes" if broker.cordoned else "no",
    "Rack": lambda broker: "-" if broker.rack is None else broker.rack,
    "Replicas": lambda broker: broker.replicas,
    "InSync": lambda broker: broker.in_sync,
    "Leaders": lambda broker: broker.leaders,
    "Then": lambda broker: (
        "unregistered once empty and stopped" if broker.to_be_unregistered else "-"
    ),
}
_HURT: Final["Columns[UnsafePartition]"] = {
    "Partition": lambda each: f"{each.topic}-{each.partition}",
    "Harm": lambda each: each.harm,
    "InSync": lambda each: ids(each.in_sync),
    "MinISR": lambda each: each.min_isr,
}


def listed(brokers: "Sequence[Broker]") -> str:
    """The output of `list`."""
    return columns(brokers, _BROKERS) if brokers else "No brokers are registered."


async def _alter(target: Target, request: "Request[BrokersAltered]", done: str) -> Exit:
    """Ask for a change, and print which brokers were changed and which were refused."""
    found = await target.ask(request)
    changed = [each.broker_id for each in found.brokers if not each.kafka_error_code]
    return finish(f"{done}: {ids(changed)}." if changed else "", refused_parts(found.brokers))


def judged(brokers: Sequence[int], found: "Safety") -> str:
    """The output of `safe-to-stop`."""
    total = found.partitions_looked_at
    if found.safe:
        return f"{named(brokers)} may stop: {total} partition(s) would not be hurt."
    return "\n".join(
        [
            f"{named(brokers)} must not stop: {found.partitions_hurt} of {total} partition(s) would"
            " be hurt.",
            columns(found.hurt, _HURT),
            *and_more(found.partitions_hurt - len(found.hurt)),
        ]
    )
