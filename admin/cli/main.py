"""The entry points: `metaquorum`, `metadata-quorum`, `reassign-partitions`.

This module imports little more than click. A command's module is loaded when the command runs; its
one-line help is in the table below, so that `--help` loads none of them.
"""

import importlib
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click
from click.exceptions import NoSuchCommand

from admin.cli.late_imports import nothing_collected
from admin.cli.version import version_option

COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "start": ("nodes:start", "Run one node, a controller or a broker, in the foreground."),
        "local": ("nodes:local", "Run a whole cluster of processes on this machine."),
        "demo": ("nodes:demo", "Run a reassignment during which the controller is killed."),
        "metadata-quorum": ("quorum", "Describe the metadata quorum, change its voters."),
        "leader": ("quorum:leader", "Transfer the leadership of the quorum."),
        "reassign-partitions": ("reassign_partitions", "Move partitions between brokers."),
        "moves": ("moves", "List, pause, cancel and roll back moves."),
        "brokers": ("brokers", "List, cordon and decommission brokers."),
        "topics": ("topics", "Create, describe and delete topics, elect leaders, and more."),
        "configs": ("configs", "Describe and alter configurations of topics, brokers."),
        "quotas": ("quotas", "Describe and alter quotas of users, clients, IP addresses."),
        "groups": ("groups", "List, describe, reset and delete consumer groups."),
        "features": ("configs:features", "Describe and change the levels of features."),
        "produce": ("records:produce", "Write the lines of a file into a topic."),
        "consume": ("records:consume", "Read the records of a topic as lines."),
        "upgrade": ("upgrade", "Say which node to upgrade next, and whether it is safe now."),
        "doctor": ("doctor", "Say what is wrong with a cluster or a node, and what mends it."),
        "support-bundle": ("support_bundle", "Write one archive for a bug report, no secrets."),
        "snapshots": ("snapshots", "List and take snapshots of the metadata log."),
        "backup": ("backup", "Back up the metadata of a running cluster; list, verify backups."),
        "restore": ("restore", "Found a cluster from a backup."),
        "recover": ("recover", "Let a cluster go on whose majority is lost for good."),
        "dump-log": (
            "metadata_logs:dump_log",
            "Print the records of metadata logs and checkpoints.",
        ),
        "lag": ("lag", "Report replication lag from metadata logs (needs Java)."),
        "adopt": ("metadata_logs:adopt", "Take over the metadata of a stopped KRaft cluster."),
        "migrate": ("migrate", "Migrate a running KRaft cluster to our controllers, and back."),
        "users": ("users", "Add, remove and list users that authenticate with SCRAM."),
        "acls": ("acls", "Add, remove and list ACLs."),
        "certs": ("certs", "Create a small authority and certificates for TLS."),
        "http-tokens": ("http_tokens", "Create bearer tokens for the HTTP listener."),
        "chaos": ("chaos", "Break the quorum on purpose, in virtual time, also under your code."),
        "settings": ("nodes:settings", "List every setting of a node."),
        "profile": ("profiles", "Name clusters, and choose the one to connect to."),
        "completion": ("completion", "Print the script that completes commands in a shell."),
    }
)


class LateGroup(click.Group):
    """A group that imports a command when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        return load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the error of an unknown one names those with a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table; the commands are not imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])


def load(name: str) -> click.Command:
    """The command `name` of the table."""
    place, _ = COMMANDS[name]
    module, _, attribute = place.partition(":")
    with nothing_collected():
        imported = importlib.import_module(f"{__package__}.{module}")
    command = getattr(imported, attribute or "command")
    assert isinstance(command, click.Command)
    from admin.cli.examples import attach

    attach(command, name)
    command.context_settings.update(_HELP)
    return command


_EPILOG: Final = """\b
Example:
  metaquorum local --dir /tmp/mq --detach
  export METAQUORUM_BOOTSTRAP_SERVER=127.0.0.1:19101
  metaquorum topics create orders --partitions 6 --replication-factor 3

\b
Addresses and security come from options, else from METAQUORUM_BOOTSTRAP_SERVER,
METAQUORUM_BOOTSTRAP_CONTROLLER, METAQUORUM_COMMAND_CONFIG, else from the profile in
use (`metaquorum profile --help`), else from the file of --command-config.
`metaquorum completion bash|zsh|fish` prints the completion script of a shell.

\b
Exit codes: 0 done, 1 failed (also in part), 2 usage, 3 not finished or not healthy,
130 interrupted.
"""


_HELP: Final = {"help_option_names": ["-h", "--help"]}


@click.command(cls=LateGroup, epilog=_EPILOG, context_settings=_HELP)
@version_option
def group() -> None:
    """A Raft metadata quorum that speaks the Kafka protocol."""


def metaquorum() -> None:
    """Entry point of `metaquorum`."""
    _run(group, "metaquorum")


def metadata_quorum() -> None:
    """Entry point of `metadata-quorum`."""
    _run(load("metadata-quorum"), "metadata-quorum")


def reassign_partitions() -> None:
    """Entry point of `reassign-partitions`."""
    _run(load("reassign-partitions"), "reassign-partitions")


def _run(command: click.Command, program: str) -> None:
    # kio would build a hypothesis strategy for each protocol type if it found the library: with the
    # test dependencies installed, a second of processor time for a node or a command.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    command.main(prog_name=program)


if __name__ == "__main__":
    metaquorum()
