"""Options and argument types that commands share, and the handling of their errors.

An expected error becomes one sentence on stderr and an exit code; any other exception is a bug and
keeps its traceback.
"""

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import IntEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from admin.addresses import Address
    from admin.capabilities.schema import Answer
    from admin.cli.output import Json
    from admin.client.admin_client import AdminClient
    from admin.model import PartitionId


T = TypeVar("T")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

TIMEOUT_MS: Final = 15_000
BROKER_ID_MAX: Final = 2**31 - 1


class Exit(IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FINISHED = 3


class BadInput(click.ClickException):
    """An option names an unusable file or value; exits with the usage code."""

    exit_code = int(Exit.USAGE)


class AddressList(click.ParamType["tuple[Address, ...]"]):
    """`host:port,host:port`."""

    name = "host:port,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> "tuple[Address, ...]":
        """Parse the addresses; a usage error if one is invalid."""
        from admin.addresses import parse_addresses

        if isinstance(value, tuple):
            return value
        try:
            return parse_addresses(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class BrokerList(click.ParamType["tuple[int, ...]"]):
    """`101,102`: broker ids without duplicates."""

    name = "id,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Parse the ids; a usage error if one is invalid."""
        if isinstance(value, tuple):
            return value
        for word in value.split(","):
            is_number = word.isascii() and word.isdecimal()
            # A long string of digits is not an id either.
            is_number = is_number and len(word) <= len(str(BROKER_ID_MAX))
            if not is_number or int(word) > BROKER_ID_MAX:
                self.fail(f"{word!r} is not a broker id; write 101,102", param, ctx)
        ids = tuple(map(int, value.split(",")))
        twice = sorted({id for id in ids if ids.count(id) > 1})
        if twice:
            names = ",".join(map(str, twice))
            self.fail(f"Broker list contains duplicate entries: {names}", param, ctx)
        return ids


class Duration(click.ParamType[int]):
    """`5s`, `500ms`; converted to milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Parse into milliseconds; a usage error for anything else."""
        from admin.units import parse_duration_ms

        if isinstance(value, int):
            return value
        try:
            return parse_duration_ms(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


stale_option = click.option(
    "--stale", is_flag=True, help="Allow a stale answer from any node; needs no leader."
)


@dataclass(frozen=True, slots=True)
class Target:
    """The nodes to ask, and the time limit."""

    addresses: "tuple[Address, ...]"
    is_controller: bool
    timeout_ms: int

    def client(self) -> "AdminClient":
        """Return a client for these nodes; use it as an async context."""
        from admin.client.admin_client import AdminClient

        return AdminClient(
            self.addresses, is_controller=self.is_controller, timeout_ms=self.timeout_ms
        )


def target_options(command: Decorated) -> Decorated:
    """Add `--bootstrap-server`, `--bootstrap-controller` and `--timeout`; see `target`."""
    options = (
        click.option(
            "--bootstrap-server",
            type=AddressList(),
            envvar="METAQUORUM_BOOTSTRAP_SERVER",
            help="Connect to these brokers.",
        ),
        click.option(
            "--bootstrap-controller",
            type=AddressList(),
            envvar="METAQUORUM_BOOTSTRAP_CONTROLLER",
            help="Connect to these controllers.",
        ),
        click.option(
            "--timeout",
            "timeout_ms",
            type=Duration(),
            default=TIMEOUT_MS,
            show_default="15s",
            help="Give up after this time, elections included.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def target(
    bootstrap_server: "tuple[Address, ...] | None",
    bootstrap_controller: "tuple[Address, ...] | None",
    timeout_ms: int,
) -> Target:
    """Return the target; a usage error unless the options name brokers or else controllers."""
    if bootstrap_server and bootstrap_controller:
        raise click.UsageError("give --bootstrap-server or --bootstrap-controller, not both")
    addresses = bootstrap_server or bootstrap_controller
    if not addresses:
        raise click.UsageError("give --bootstrap-server or --bootstrap-controller")
    return Target(addresses, bool(bootstrap_controller), timeout_ms)


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format.",
)


def command_line() -> str:
    """Return the command line of this program, for commands that the user can copy."""
    called = Path(sys.argv[0])
    if called.name != "metaquorum":
        return f"{sys.executable} -m admin.cli.main"
    if called.is_relative_to(Path.cwd()):
        return str(called.relative_to(Path.cwd()))
    return str(called)


def write(text: str) -> None:
    """Print data to stdout."""
    click.echo(text)


def say(text: str) -> None:
    """Print a message to stderr."""
    click.echo(text, err=True)


def write_data(value: "Json", output: str) -> None:
    """Print plain values as `-o json` or `-o yaml` ask for."""
    from admin.cli.output import as_json, as_yaml

    write(as_yaml(value) if output == "yaml" else as_json(value))


def write_answer(answer: "Answer", output: str) -> None:
    """Print the answer of a capability as `-o json` or `-o yaml` ask for."""
    from admin.capabilities.schema import json_of

    write_data(json_of(answer), output)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; an expected error becomes one sentence on stderr and exit code 1."""
    import asyncio

    from admin.client.admin_client import AdminError
    from admin.plan_file import InvalidPlan

    try:
        return asyncio.run(work)
    except (AdminError, InvalidPlan) as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:
        # The reader of our output has closed the pipe; click exits quietly.
        raise
    except OSError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)


def read_text(path: Path, bytes_max: int) -> str:
    """Return the text of a file named by an option; raises `BadInput` if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > bytes_max:
        raise BadInput(f"{path} is larger than {bytes_max} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text: byte {error.start} is wrong") from None


def topic_name(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the parameter `topic`, as an argument or as --topic (Kafka's scripts)."""

    @click.argument("topic", required=False)
    @click.option("--topic", "named", metavar="TOPIC", help="The topic, in place of the argument.")
    @wraps(command)
    def with_topic(*args: Any, topic: str | None, named: str | None, **kwargs: Any) -> None:
        if topic is not None and named is not None:
            raise click.UsageError(f"the topic is given twice: {topic}, and --topic {named}")
        chosen = topic if named is None else named
        if not chosen:
            raise click.UsageError("name the topic: TOPIC, or --topic TOPIC")
        command(*args, topic=chosen, **kwargs)

    return with_topic


MOVE_ID: Final = click.IntRange(1, 2**63 - 1)
PRIORITY: Final = click.IntRange(-(2**31), 2**31 - 1)
RATE: Final = click.IntRange(1, 2**63 - 1)
"""Bytes per second."""
RATE_OR_NONE: Final = click.IntRange(0, 2**63 - 1)
"""As above; 0 is no limit."""
PARTITION_MAX: Final = 2**31 - 1


def _limits(_ctx: click.Context, _param: click.Parameter, rate: int | None) -> dict[str, int]:
    return {} if rate is None else {"throttle_bytes_per_s": rate}


throttle_option = click.option(
    "--throttle",
    type=RATE,
    callback=_limits,
    help="Limit of bytes per second copied to and from each broker.",
)
"""The limits of a new move as fields of its request; empty if none is given."""


def _given_key(ctx: click.Context, param: click.Parameter, key: str) -> str:
    """Reject an empty key on the command line: most likely an unset variable of a script."""
    is_given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if not key and is_given:
        raise click.BadParameter("it is empty", ctx, param)
    return key


key_option = click.option(
    "--key",
    default="",
    callback=_given_key,
    help="Idempotency key: repeat the request safely.",
)


def check_key(key: str, *, dry_run: bool = False) -> None:
    """Raise a usage error for an invalid key, or one given with --dry-run."""
    if not key:
        return
    if dry_run:
        raise click.UsageError("--dry-run changes nothing; omit --key")
    from controller.move_requests import wrong_key

    reason = wrong_key(key)
    if reason is not None:
        raise click.UsageError(reason)


class PartitionName(click.ParamType["PartitionId"]):
    """`orders-7`: partition 7 of topic orders."""

    name = "topic-number"

    def convert(self, value: Any, param: Any, ctx: Any) -> "PartitionId":
        """Parse the partition; a usage error for anything else."""
        from admin.model import PartitionId

        if isinstance(value, PartitionId):
            return value
        topic, _, number = value.rpartition("-")
        is_number = number.isascii() and number.isdecimal()
        # A long string of digits is not an id either.
        is_number = is_number and len(number) <= len(str(PARTITION_MAX))
        if not topic or not is_number or int(number) > PARTITION_MAX:
            right = "write its topic and number: orders-7"
            self.fail(f"{value!r} is not a partition; {right}", param, ctx)
        return PartitionId(topic, int(number))
