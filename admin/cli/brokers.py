"""`metaquorum brokers`: list, cordon, decommission and unregister brokers, and their disks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
    watchable,
    with_target,
)
from admin.cli.output import Columns, and_more, columns, ids, named, refused_parts
from admin.units import show_duration, show_size

if TYPE_CHECKING:
    from admin.capabilities.brokers import Broker, BrokersAltered, Safety
    from admin.capabilities.quorum import Endpoint
    from admin.capabilities.schema import Request
    from admin.client.log_dirs import LogDir, LogOfReplica
    from statemachine.brokers.safety import UnsafePartition

    LogDirsById: TypeAlias = Mapping[int, Sequence[LogDir]]


brokers_option = click.option("--brokers", type=BROKERS, required=True, help="Broker ids: 101,102.")


@click.group()
def command() -> None:
    """List, cordon, decommission and unregister brokers."""


@command.command("list")
@with_target
@watchable
@stale_option
@output_option
async def list_(target: Target, stale: bool, output: str) -> None:
    """List all registered brokers with their state and replicas."""
    from admin.capabilities.brokers import ListBrokers
    from admin.capabilities.paging import PAGE_SIZE_MAX, every_page

    asked = ListBrokers(page_size=PAGE_SIZE_MAX)
    found = await every_page(lambda page: target.ask(page, stale=stale), asked)
    none = "No brokers are registered."
    show(found, output, lambda found: listed(found.brokers), none=none)


@command.command()
@brokers_option
@with_target
@output_option
async def cordon(target: Target, brokers: tuple[int, ...], output: str) -> Exit:
    """Assign no new replicas to brokers; existing replicas stay."""
    from admin.capabilities.brokers import CordonBrokers

    return await _alter(target, CordonBrokers(broker_ids=brokers), "Cordoned", output)


@command.command()
@brokers_option
@with_target
@output_option
async def uncordon(target: Target, brokers: tuple[int, ...], output: str) -> Exit:
    """Undo a cordon: assign new replicas to brokers again."""
    from admin.capabilities.brokers import UncordonBrokers

    return await _alter(target, UncordonBrokers(broker_ids=brokers), "Uncordoned", output)


@command.command()
@brokers_option
@with_target
@output_option
async def unregister(target: Target, brokers: tuple[int, ...], output: str) -> Exit:
    """Unregister brokers that are stopped and have no replicas; see `decommission`.

    Exit code 1 if the controller refuses any of them; the others are unregistered.
    """
    from admin.capabilities.brokers import UnregisterBrokers

    return await _alter(target, UnregisterBrokers(broker_ids=brokers), "Unregistered", output)


@command.command("safe-to-stop")
@brokers_option
@with_target
@stale_option
@output_option
async def safe_to_stop(target: Target, brokers: tuple[int, ...], stale: bool, output: str) -> Exit:
    """Check whether brokers can stop together.

    If not, the exit code is 1 and the affected partitions are listed. A broker that has not sent a
    heartbeat for half of broker.session.timeout.ms (4.5 s by default) does not count as alive, nor
    one that a new leader has not heard yet. One that died since its last heartbeat does, and with
    --stale every broker that is not fenced.
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
@output_option
async def recommission(
    target: Target, brokers: tuple[int, ...], dry_run: bool, key: str, output: str
) -> Exit:
    """Undo a decommission: cancel its moves and uncordon the brokers."""
    check_dry_run(dry_run, key=key)
    from admin.capabilities.decommission import RecommissionBrokers
    from admin.cli.plans import recommission as work

    request = RecommissionBrokers(broker_ids=brokers, dry_run=dry_run, key=key)
    return await work(target, request, output)


@command.command("log-dirs")
@click.option("--brokers", type=BROKERS, help="Ask these brokers only: 101,102.")
@click.option("--topic", "topics", multiple=True, help="Show each replica of this topic.")
@with_target
@output_option
async def log_dirs(
    target: Target, brokers: tuple[int, ...] | None, topics: Sequence[str], output: str
) -> Exit:
    """Show the log directories of brokers: partitions, bytes, and the space that is left.

    With --topic, the sizes and lags of the replicas of these topics.
    """
    from admin.client.log_dirs import describe_log_dirs

    async with target.client() as client:
        wanted = {each.address: each.id for each in await client.brokers()}
        if brokers is not None:
            missing = sorted({*brokers} - {*wanted.values()})
            if missing:
                alive = ids(sorted(wanted.values())) or "none"
                raise click.ClickException(f"{named(missing)}: not among those alive: {alive}")
            wanted = {where: each for where, each in wanted.items() if each in brokers}
        partitions = None
        if topics:
            described = await client.describe_topics(topics)
            if unknown := sorted({*topics} - described.keys()):
                raise click.ClickException(f"there is no topic {', '.join(unknown)}")
            partitions = {
                name: [each.partition for each in topic.partitions]
                for name, topic in described.items()
            }
        found = await describe_log_dirs([*wanted], partitions, client.security)
    directories = {wanted[where]: each for where, each in found.of_brokers.items()}
    table = replicas_shown if topics else directories_shown
    none = "" if found.silent else "No brokers are alive."
    show(directories, output, table, directories_data, none=none)
    return finish(errors=[f"Error: {each}" for each in found.silent.values()])


_BROKERS: Final["Columns[Broker]"] = {
    "Broker": lambda broker: broker.broker_id,
    "Address": lambda broker: ",".join(map(_address, broker.endpoints)) or "-",
    "State": lambda broker: broker.state,
    "Cordoned": lambda broker: _cordons(broker),
    "Rack": lambda broker: "-" if broker.rack is None else broker.rack,
    "Implementation": lambda broker: broker.implementation or "-",
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


def _cordons(broker: "Broker") -> str:
    """The operator's cordon, and the log directories that the broker's own setting cordons."""
    cordoned = sum(each.cordoned for each in broker.log_dirs)
    if not cordoned:
        return "yes" if broker.cordoned else "no"
    dirs = f"{cordoned} of {len(broker.log_dirs)} log dirs"
    return f"yes, and {dirs}" if broker.cordoned else dirs


def _address(endpoint: "Endpoint") -> str:
    from quorum.transport.address import Address

    return str(Address(endpoint.host, endpoint.port))


_DIRECTORIES: Final["Columns[tuple[int, LogDir]]"] = {
    "Broker": lambda row: row[0],
    "LogDir": lambda row: row[1].path,
    "Partitions": lambda row: len(row[1].logs),
    "Size": lambda row: show_size(sum(each.size_bytes for each in row[1].logs)),
    "Free": lambda row: "-" if row[1].usable_bytes is None else show_size(row[1].usable_bytes),
    "Cordoned": lambda row: "yes" if row[1].cordoned else "no",
    "Error": lambda row: row[1].error or "-",
}
_REPLICAS: Final["Columns[tuple[int, LogDir, LogOfReplica]]"] = {
    "Broker": lambda row: row[0],
    "LogDir": lambda row: row[1].path,
    "Partition": lambda row: f"{row[2].topic}-{row[2].partition}",
    "Size": lambda row: show_size(row[2].size_bytes),
    "OffsetLag": lambda row: row[2].offset_lag,
    "Future": lambda row: "yes" if row[2].is_future else "no",
}


def directories_shown(found: "LogDirsById") -> str:
    """The output of `log-dirs`."""
    return columns([(id, each) for id, several in found.items() for each in several], _DIRECTORIES)


def replicas_shown(found: "LogDirsById") -> str:
    """The output of `log-dirs --topic`."""
    rows = [
        (id, directory, log)
        for id, directories in found.items()
        for directory in directories
        for log in directory.logs
    ]
    ordered = sorted(rows, key=lambda row: (row[2].topic, row[2].partition, row[0]))
    return columns(ordered, _REPLICAS)


def directories_data(found: "LogDirsById") -> dict[str, Any]:
    """The log directories as plain values."""
    return {
        "brokers": [
            {
                "broker_id": id,
                "log_dirs": [
                    {
                        "log_dir": each.path,
                        "error": each.error,
                        "total_bytes": each.total_bytes,
                        "usable_bytes": each.usable_bytes,
                        "cordoned": each.cordoned,
                        "partitions": [log._asdict() for log in each.logs],
                    }
                    for each in directories
                ],
            }
            for id, directories in found.items()
        ]
    }


def listed(brokers: "Sequence[Broker]") -> str:
    """The output of `list`."""
    return columns(brokers, _BROKERS) if brokers else ""


async def _alter(
    target: Target, request: "Request[BrokersAltered]", done: str, output: str
) -> Exit:
    """Ask for a change, and print which brokers were changed and which were refused."""
    found = await target.ask(request)
    changed = [each.broker_id for each in found.brokers if not each.kafka_error_code]
    show(found, output, lambda _: f"{done}: {ids(changed)}." if changed else "")
    return finish(errors=refused_parts(found.brokers))


def judged(brokers: Sequence[int], found: "Safety") -> str:
    """The output of `safe-to-stop`."""
    total = found.partitions_looked_at
    if found.safe:
        none = "none would lose its leader or fall below min ISR"
        oldest_ms = found.oldest_heartbeat_ms
        heard = "Heartbeats are unknown: a broker that has just died may count as alive."
        if oldest_ms is not None:
            heard = f"The brokers that stay were heard from within {show_duration(oldest_ms)}."
        return f"{named(brokers)} may stop: of {total} partition(s) {none}. {heard}"
    silent = [
        f"{named((each,))} has missed heartbeats and may be dead: it is not counted."
        for each in found.silent
    ]
    return "\n".join(
        [
            f"{named(brokers)} must not stop: {found.partitions_hurt} of {total} partition(s) would"
            " be hurt.",
            columns(found.hurt, _HURT),
            *and_more(found.partitions_hurt - len(found.hurt)),
            *silent,
        ]
    )
