"""`metaquorum upgrade`: whether the next step of a rolling upgrade is safe, and which it is."""

from typing import TYPE_CHECKING, Any

import click

from admin.cli.options import Exit, Target, output_option, show, with_target

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from admin.client.upgrade_rules import UpgradeNode, UpgradeReport
    from quorum.transport.address import Address


@click.group()
def command() -> None:
    """Upgrade a cluster node by node, or go back."""


@command.command("check")
@click.option(
    "--to",
    "wanted",
    metavar="VERSION",
    help="The release that every node is to run, a former one as well. [default: this one]",
)
@with_target
@output_option
async def check(target: Target, wanted: str | None, output: str) -> Exit:
    """Say which node is the next to restart, whether that is safe now, and what stands in the way.

    Every node is asked for its release; nothing is changed. Exit code 0: the next step is safe, or
    nothing is left; 3: something stands in the way.
    """
    from admin.client.upgrade_facts import ASK_MS, upgrade_facts
    from admin.client.upgrade_rules import judge, release

    if wanted is not None and release(wanted) is None:
        raise click.UsageError(f"--to: {wanted!r} is not a version, like 0.1.0")

    def connect(address: "Address", is_controller: bool) -> "AdminClient":
        from admin.client.admin_client import AdminClient

        return AdminClient(
            [address],
            is_controller=is_controller,
            timeout_ms=min(target.timeout_ms, ASK_MS),
            security=target.config.security,
        )

    async with target.client() as client:
        found = judge(await upgrade_facts(client, connect, wanted))
    show(found, output, _as_text, _as_data)
    return Exit.DONE if found.safe else Exit.NOT_FINISHED


def _as_data(found: "UpgradeReport") -> dict[str, Any]:
    from admin.capabilities.schema import json_of

    return json_of(found)


def _as_text(found: "UpgradeReport") -> str:
    from admin.cli.output import columns

    table = columns(
        found.nodes,
        {
            "Node": lambda node: node.name,
            "Address": lambda node: node.address,
            "Version": _version,
            "Status": _status,
        },
    )
    lines = [table, ""]
    for each in found.obstacles:
        lines += [f"In the way: {each.sentence}.", f"  To clear it: {each.command}"]
    lines.append(f"{'Next' if found.safe else 'Then'}: {found.next.sentence}.")
    lines += [f"  {number}. {each}" for number, each in enumerate(found.next.commands, start=1)]
    return "\n".join(lines)


def _version(node: "UpgradeNode") -> str:
    return "of Kafka" if node.of_kafka else node.version or "-"


def _status(node: "UpgradeNode") -> str:
    if node.problem is not None:
        return "no answer"
    if node.role == "broker":
        return "alive" if node.caught_up else "not alive"
    role = "leader" if node.leader else "voter" if node.voter else "observer"
    return f"{role}, {'caught up' if node.caught_up else 'behind'}"
