"""Options and argument types that commands share, and the handling of their errors.

An expected error becomes one sentence on stderr and an exit code; any other exception is a bug and
keeps its traceback.
"""

import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from admin.cli.output import as_json, as_yaml
from admin.own_code import PROGRAM
from admin.units import parse_duration_ms, parse_size_bytes, whole_number

if TYPE_CHECKING:
    from admin.capabilities.schema import Request
    from admin.client.admin_client import AdminClient
    from admin.client.command_config import ClientConfig
    from admin.model import PartitionId
    from quorum.core.vocabulary import ReplicaId
    from quorum.transport.address import Address
    from quorum.transport.security.protocols import ClientSecurity


T = TypeVar("T")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PROGRAMS: Final = ("metaquorum", "metadata-quorum", "reassign-partitions")
TIMEOUT_MS: Final = 15_000
ID_MAX: Final = 2**31 - 1
"""The highest id of a broker and the highest number of a partition."""
RATE_MAX: Final = 2**63 - 1


class Exit(IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FINISHED = 3
    INTERRUPTED = 130
    """By Ctrl-C, as shells count it; a command that runs until Ctrl-C is done then."""


class BadInput(click.ClickException):
    """An option names an unusable file or value; exits with the usage code."""

    exit_code = int(Exit.USAGE)


def piped_answer(remedy: str) -> str | None:
    """Return the line that answers a question where there is no terminal; None with a terminal.

    Raises `BadInput` with the `remedy` at the end of the input. No question is printed before.
    """
    if sys.stdin.isatty():
        return None
    line = sys.stdin.readline()
    if not line:
        raise BadInput(f"nobody answers here: {remedy}")
    return line.strip()


class Parsed(click.ParamType[T]):
    """The type of a value that `parse` makes of the text; its `ValueError` is a usage error."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: Any, ctx: Any) -> T:
        """Parse `value`, unless it is a default that needs no parsing."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class WholeNumber(click.IntRange):
    """A whole number in a range; the error of a wrong one says which are right."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not {self._wanted()}", param, ctx)

    def _wanted(self) -> str:
        match self.min, self.max:
            case int(lowest), int(highest):
                return f"a whole number from {lowest} to {highest}"
            case int(lowest), _:
                return f"a whole number of at least {lowest}"
            case _, int(highest):
                return f"a whole number of at most {highest}"
            case _:
                return "a whole number"


def _addresses(text: str) -> "tuple[Address, ...]":
    from quorum.transport.address import parse_addresses

    return parse_addresses(text)


def _addressed_voters(text: str) -> "Mapping[ReplicaId, Address]":
    from admin.setting_kinds import addressed_voters

    return addressed_voters(text)


def is_id(text: str) -> bool:
    """Check whether a text is the id of a node or the number of a partition."""
    return whole_number(text, ID_MAX) is not None


def _broker_ids(text: str) -> tuple[int, ...]:
    words = text.split(",")
    for word in words:
        if not is_id(word):
            raise ValueError(f"{word!r} is not a broker id; write 101,102")
    ids = tuple(map(int, words))
    twice = sorted({id for id in ids if ids.count(id) > 1})
    if twice:
        raise ValueError(f"Broker list contains duplicate entries: {','.join(map(str, twice))}")
    return ids


def _partition(text: str) -> "PartitionId":
    from admin.model import PartitionId

    topic, _, number = text.rpartition("-")
    if not topic or not is_id(number):
        raise ValueError(f"{text!r} is not a partition; write its topic and number: orders-7")
    return PartitionId(topic, int(number))


def _name_and_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ValueError(f"{text!r} is not name=value")
    return name, value


def _duration_ms(text: str) -> int:
    if text.strip().isdecimal():
        raise ValueError(f"{text!r} has no unit: write {text}s for seconds, or {text}ms")
    return parse_duration_ms(text)


def _rate(text: str, *, lowest: int) -> int:
    rate = parse_size_bytes(text)
    if not lowest <= rate <= RATE_MAX:
        raise ValueError(f"{text!r} is not from {lowest} to {RATE_MAX} bytes per second")
    return rate


ADDRESSES: Final = Parsed("host:port,...", _addresses)
ADDRESSED_VOTERS: Final = Parsed("id@host:port,...", _addressed_voters)
BROKERS: Final = Parsed("id,...", _broker_ids)
PARTITION: Final = Parsed("topic-number", _partition)
NAME_VALUE: Final = Parsed("name=value", _name_and_value)
DURATION: Final = Parsed("duration", _duration_ms)
MOVE_ID: Final = WholeNumber(1, 2**63 - 1)
PRIORITY: Final = WholeNumber(-(2**31), 2**31 - 1)
RATE: Final = Parsed("bytes", partial(_rate, lowest=1))
"""Bytes per second."""
RATE_OR_NONE: Final = Parsed("bytes", partial(_rate, lowest=0))
"""As above; 0 is no limit."""


@dataclass(frozen=True, slots=True)
class Target:
    """The nodes to ask, the time limit, and the security of the connections."""

    servers: "tuple[Address, ...] | None"
    controllers: "tuple[Address, ...] | None"
    timeout_ms: int
    command_config: "ClientConfig | None" = None
    """What --command-config names, if it is given."""
    is_silent: bool = False
    """True if nothing is said while no node accepts a connection."""
    wait_ms: int | None = None
    """How long a command waits for the end of what it follows: --timeout of the command line.
    None: as long as it takes, where each request still has the time limit."""

    @property
    def addresses(self) -> "tuple[Address, ...]":
        """The addresses; a usage error unless the options name brokers or else controllers."""
        if self.servers and self.controllers:
            raise click.UsageError("give --bootstrap-server or --bootstrap-controller, not both")
        if not (self.servers or self.controllers):
            raise click.UsageError(
                "give --bootstrap-server or --bootstrap-controller host:port, or choose a profile: "
                "metaquorum profile --help"
            )
        return self.servers or self.controllers or ()

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is removed, unless `yes`; a no ends the command.

        Call it outside of the event loop, in which Ctrl-C would not end the question.
        """
        if self.addresses and not yes:
            piped = piped_answer("give --yes")
            if piped is None:
                is_sure = click.confirm(question, err=True)
            else:
                say(question)
                is_sure = piped.lower() in ("y", "yes")
            if not is_sure:
                raise click.ClickException("nothing was changed")

    def brokers(self, usage: str) -> "tuple[Address, ...]":
        """The addresses of brokers; a usage error with this message if they are controllers."""
        if self.addresses is self.controllers:
            raise click.UsageError(usage)
        return self.addresses

    @property
    def config(self) -> "ClientConfig":
        """The security of the connections: none without --command-config."""
        from admin.client.command_config import NO_CONFIG

        return self.command_config or NO_CONFIG

    def client(self) -> "AdminClient":
        """Return a client for these nodes; use it as an async context."""
        addresses, config = self.addresses, self.command_config
        from admin.client.admin_client import AdminClient
        from quorum.transport.security.protocols import PLAIN_CLIENT

        return AdminClient(
            addresses,
            is_controller=bool(self.controllers),
            timeout_ms=self.timeout_ms,
            # Without a file, what reads it is not imported.
            security=PLAIN_CLIENT if config is None else config.security,
            say=(lambda _: None) if self.is_silent else say,
        )

    async def ask(self, request: "Request[T]", *, stale: bool = False) -> T:
        """Ask for one capability."""
        async with self.client() as client:
            return await client.ask(request, stale=stale)


WATCH_MS_MIN: Final = 100


def watchable(work: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Add --watch to a command that only reads; it stands directly below `with_target`."""

    @click.option(
        "--watch",
        "watch_ms",
        type=DURATION,
        help="Ask again and again with this pause, as 2s, until Ctrl-C.",
    )
    @wraps(work)
    async def command(target: Target, /, watch_ms: int | None, **options: Any) -> Any:
        import asyncio

        if watch_ms is None:
            return await work(target, **options)
        if watch_ms < WATCH_MS_MIN:
            raise click.UsageError(f"--watch takes a pause of at least {WATCH_MS_MIN}ms.")
        with until_interrupted():
            while True:
                if sys.stdout.isatty():
                    click.clear()
                await work(target, **options)
                await asyncio.sleep(watch_ms / 1_000)

    return command


@contextmanager
def until_interrupted() -> Iterator[None]:
    """A block that Ctrl-C ends: the command goes on behind it, and succeeds."""
    from asyncio import CancelledError

    # `asyncio.run` cancels the task of the command.
    with suppress(CancelledError):
        yield


def add_options(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """A decorator that adds several options, which `--help` lists in this order."""

    def add(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return add


OUTPUTS: Final = ("table", "json", "yaml")
_PROFILE: Final = "metaquorum.profile"


class SourcedOption(click.Option):
    """An option that may come from the environment; an error names where its value comes from."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The option, with the variable or the profile if the value is from there."""
        hint = click.Parameter.get_error_hint(self, ctx)
        match ctx and ctx.get_parameter_source(str(self.name)):
            case ParameterSource.ENVIRONMENT:
                return f"{hint} (env var: '{self.envvar}')"
            case ParameterSource.DEFAULT_MAP:
                return f"{hint} (of the profile in use)"
            case _:
                return hint


class ProfileOption(SourcedOption):
    """An option whose default is the value that the profile in use has for it."""

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """The value and its source; a profile counts as a map of defaults."""
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.DEFAULT and not ctx.resilient_parsing:
            option = self.opts[-1].removeprefix("--")
            if (known := _profile(ctx).get(option)) is not None:
                return known, ParameterSource.DEFAULT_MAP
        return value, source


def _profile(ctx: click.Context) -> Mapping[str, str]:
    """The profile that --profile, the environment or `metaquorum profile use` names."""
    found: Mapping[str, str] | None = ctx.meta.get(_PROFILE)
    if found is None:
        from admin.cli.profile_file import BadProfile, in_use

        name = ctx.params.get("profile")
        try:
            found = ctx.meta[_PROFILE] = in_use(name if isinstance(name, str) else None)
        except BadProfile as error:
            raise BadInput(str(error)) from None
    return found


def is_given(name: str) -> bool:
    """Check whether an option of the current command stands on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


_target_options: Final = add_options(
    click.option(
        "--bootstrap-server",
        cls=ProfileOption,
        type=ADDRESSES,
        envvar="METAQUORUM_BOOTSTRAP_SERVER",
        show_envvar=True,
        help="Connect to these brokers.",
    ),
    click.option(
        "--bootstrap-controller",
        cls=ProfileOption,
        type=ADDRESSES,
        envvar="METAQUORUM_BOOTSTRAP_CONTROLLER",
        show_envvar=True,
        help="Connect to these controllers.",
    ),
    click.option(
        "--command-config",
        cls=ProfileOption,
        type=click.Path(path_type=Path),
        envvar="METAQUORUM_COMMAND_CONFIG",
        show_envvar=True,
        help="Kafka's client.properties: TLS, and the credentials of this client.",
    ),
    click.option(
        "--profile",
        cls=SourcedOption,
        is_eager=True,
        envvar="METAQUORUM_PROFILE",
        show_envvar=True,
        help="Take defaults from this profile: see metaquorum profile.",
    ),
    click.option(
        "--timeout",
        "timeout_ms",
        cls=ProfileOption,
        type=DURATION,
        default=TIMEOUT_MS,
        show_default="15s",
        help="Give up after this time, elections included.",
    ),
)


def _of_the_stronger_source(
    ctx: click.Context, servers: T | None, controllers: T | None
) -> tuple[T | None, T | None]:
    """The addresses of brokers and of controllers, without those that a stronger source replaces.

    What a command line names wins over what the environment or a profile names.
    """
    names = ("bootstrap_server", "bootstrap_controller")
    first, second = (ctx.get_parameter_source(name) or ParameterSource.DEFAULT for name in names)
    if servers is None or controllers is None or first == second:
        return servers, controllers
    return (servers, None) if first < second else (None, controllers)


def client_config(path: Path) -> "ClientConfig":
    """The security that the file of --command-config has; an invalid one is a usage error."""
    from admin.client.command_config import load_client_config
    from admin.settings import InvalidSetting
    from quorum.transport.security.tls import TlsUnusable

    try:
        config = load_client_config(path)
        config.security.check()
    except InvalidSetting as error:
        # It names the file, and the line if one is wrong.
        raise BadInput(f"--command-config: {error}") from None
    except TlsUnusable as error:
        raise BadInput(f"--command-config: {path}: {error}") from None
    return config


def security_of(command_config: Path | None) -> "ClientSecurity":
    """The security of the connections: none without --command-config."""
    from quorum.transport.security.protocols import PLAIN_CLIENT

    return PLAIN_CLIENT if command_config is None else client_config(command_config).security


def with_target(work: Callable[..., Any]) -> Callable[..., None]:
    """Add the options for the nodes to ask, and call `work` with the `Target` and the others.

    A coroutine is run. What `work` returns, if anything, is the exit code.
    """

    @_target_options
    @click.pass_context
    @wraps(work)
    def command(
        ctx: click.Context,
        /,
        bootstrap_server: Any,
        bootstrap_controller: Any,
        command_config: Path | None,
        profile: str | None,
        timeout_ms: int,
        **options: Any,
    ) -> None:
        config = None if command_config is None else client_config(command_config)
        servers, controllers = _of_the_stronger_source(ctx, bootstrap_server, bootstrap_controller)
        if not (servers or controllers) and config is not None:
            servers, controllers = config.servers, config.controllers
        wait_ms = timeout_ms if is_given("timeout_ms") else None
        target = Target(servers, controllers, timeout_ms, config, wait_ms=wait_ms)
        code = work(target, **options)
        if isinstance(code, Coroutine):
            code = run(code)
        if code is not None:
            ctx.exit(code)

    return command


command_config_option = click.option(
    "--command-config",
    cls=SourcedOption,
    type=click.Path(path_type=Path),
    envvar="METAQUORUM_COMMAND_CONFIG",
    show_envvar=True,
    help="Kafka's client.properties: TLS, and the credentials of this client.",
)
stale_option = click.option(
    "--stale", is_flag=True, help="Allow a stale answer from any node; needs no leader."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
output_option = click.option(
    "-o",
    "--output",
    cls=ProfileOption,
    type=click.Choice(OUTPUTS),
    default="table",
    show_default=True,
    help="Output format.",
)


throttle_option = click.option(
    "--throttle",
    type=RATE,
    callback=lambda _ctx, _param, rate: rate or 0,
    help="Limit of bytes per second copied to and from each broker: 500000, or 10MiB.",
)
"""The limit of a new move; 0 if none is given."""


def _checked_key(ctx: click.Context, param: click.Parameter, key: str) -> str:
    """Reject an invalid key, also an empty one on the command line: most likely an unset variable
    of a script."""
    if key:
        from controller.move_requests import wrong_key

        if reason := wrong_key(key):
            raise click.UsageError(reason, ctx)
    elif ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
        raise click.BadParameter("it is empty", ctx, param)
    return key


key_option = click.option(
    "--key",
    default="",
    callback=_checked_key,
    help="Idempotency key: repeat the request safely.",
)


def check_dry_run(dry_run: bool, **others: object) -> None:
    """Raise a usage error if --dry-run is combined with an option that changes something."""
    for name, given in others.items():
        if dry_run and given:
            raise click.UsageError(f"--dry-run changes nothing; omit --{name}")


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


STDIN: Final = Path("-")
"""In place of a file: stdin, or stdout for one that is written."""


def read_file(file: Path, bytes_max: int, parse: Callable[[str], T]) -> T:
    """Return what `parse` makes of the text of a file, or of stdin for `-`.

    A file that cannot be read is a usage error. `InvalidPlan`, and what else `parse` raises,
    becomes one sentence that names the file.
    """
    from admin.plan_file import InvalidPlan
    from admin.text_file import read_stream, read_text

    name = "stdin" if file == STDIN else str(file)
    try:
        if file == STDIN:
            return parse(read_stream(sys.stdin.buffer, name, bytes_max))
        return parse(read_text(file, bytes_max))
    except InvalidPlan as error:
        raise BadInput(f"{name}: {error}") from None
    except ValueError as error:
        raise BadInput(str(error)) from None


def command_line() -> str:
    """Return the command line of this program, for commands that the user can copy."""
    from shutil import which

    called = Path(sys.argv[0])
    if called.name not in PROGRAMS:
        return f"{sys.executable} -m {PROGRAM}"
    program = called.with_name(PROGRAMS[0])
    if which(program.name) == str(program):
        return program.name
    if program.is_relative_to(Path.cwd()):
        return str(program.relative_to(Path.cwd()))
    return str(program)


def write(text: str) -> None:
    """Print data to stdout."""
    click.echo(text)


def say(text: str) -> None:
    """Print a message to stderr."""
    click.echo(text, err=True)


def finish(done: str = "", errors: Iterable[str] = ()) -> Exit:
    """Print what was done to stdout, and lines about errors, each a failure, to stderr."""
    if done:
        write(done)
    code = Exit.DONE
    for line in errors:
        say(line)
        code = Exit.FAILED
    return code


def write_data(value: Mapping[str, Any], output: str) -> None:
    """Print an object as `-o json` or `-o yaml` ask for; a list is a member of it, by its name."""
    write(as_yaml(value) if output == "yaml" else as_json(value))


def show(
    found: T,
    output: str,
    table: Callable[[T], str],
    data: Callable[[T], Mapping[str, Any]] | None = None,
    *,
    none: str = "",
) -> None:
    """Print an answer as its table or as data; without `data` it is the answer of a capability.

    An empty table leaves stdout empty, and `none` is said on stderr.
    """
    if output == "table":
        if found and (text := table(found)):
            write(text)
        elif none:
            say(none)
        return
    if data is not None:
        write_data(data(found), output)
        return
    from msgspec import Struct

    from admin.capabilities.schema import json_of

    assert isinstance(found, Struct)
    write_data(json_of(found), output)


def show_done(sentence: str, output: str, **data: Any) -> None:
    """Say what was done, or write it to stdout as an object with these members."""
    if output == "table":
        say(sentence)
    else:
        write_data(data, output)


def run(work: Coroutine[Any, Any, T], *, if_interrupted: str = "interrupted") -> T:
    """Run `work`; an expected error becomes one sentence on stderr and exit code 1."""
    import asyncio

    try:
        return asyncio.run(work)
    except (click.ClickException, BrokenPipeError):
        # Of the latter: the reader of our output has closed the pipe, and click exits quietly.
        raise
    except KeyboardInterrupt:
        say(if_interrupted)
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        from admin.faults import AdminError
        from admin.plan_file import InvalidPlan

        if isinstance(error, AdminError | InvalidPlan | OSError):
            raise click.ClickException(str(error)) from None
        raise
