"""`metaquorum start`, `settings`, `local` and `demo`: nodes as processes on this machine."""

import os
import random
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.late_imports import nothing_collected
from admin.cli.options import (
    DURATION,
    BadInput,
    Exit,
    WholeNumber,
    command_line,
    is_given,
    say,
    write,
)

if TYPE_CHECKING:
    from admin.tools.local_cluster import LocalCluster
    from admin.tools.local_control import LocalControl


@click.command()
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="A .toml or .properties file."
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that wins over the environment (METAQUORUM_NODE_ID=1) and the file.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="The form of the log on stderr; it wins over the setting log.format.",
)
@click.pass_context
def start(
    ctx: click.Context, file: Path | None, overrides: Sequence[str], log_format: str | None
) -> None:
    """Run one node, a controller or a broker, until SIGTERM.

    `metaquorum settings` lists all settings.
    """
    from admin.config import Config, load
    from admin.settings import InvalidSetting

    if log_format is not None:
        overrides = [*overrides, f"log.format={log_format}"]
    try:
        config = load(file, os.environ, overrides)
    except InvalidSetting as error:
        raise BadInput(str(error)) from None
    if isinstance(config, Config):
        with nothing_collected():
            from admin.daemon import main as run_controller

        ctx.exit(run_controller(config))
    with nothing_collected():
        from admin.broker_daemon import main as run_broker

    ctx.exit(run_broker(config))


@click.command()
def settings() -> None:
    """List every setting of a node, as Markdown."""
    from admin.settings import as_markdown

    write(as_markdown().rstrip("\n"))


_NEWEST: Final = "newest"
"""The value of a `--kafka` that names no release."""


def _kafka_release(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return the release that is meant, which the command checks."""
    if value != _NEWEST:
        return value
    from admin.tools.kafka_runtime import RELEASES

    return [*RELEASES][-1]


_secure_option = click.option(
    "--secure",
    "is_secure",
    is_flag=True,
    help="Make certificates and users: TLS and SASL on every listener, and client.properties.",
)


@click.group(invoke_without_command=True)
@click.option("--controllers", type=WholeNumber(1, 9), help="How many. [default: 3]")
@click.option("--brokers", type=WholeNumber(0, 50), help="How many. [default: 4]")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the cluster: new, empty, or that of a cluster before.  [required]",
)
@click.option(
    "--base-port",
    type=WholeNumber(0, 65_000),
    help="Node n listens at this plus n, its HTTP at this plus 50 plus n; 0 takes free ports. "
    "[default: 19000]",
)
@click.option(
    "--kafka",
    metavar="[VERSION]",
    is_flag=False,
    flag_value=_NEWEST,
    callback=_kafka_release,
    help="Brokers of this release of Apache Kafka (3.9.1, 4.2.0 or 4.3.1; alone: the last one) "
    "instead of the embedded ones; needs Java 17 and Maven.",
)
@_secure_option
@click.option(
    "--detach",
    "is_detached",
    is_flag=True,
    help="Return once the cluster is up, and leave it running until `metaquorum local stop`.",
)
@click.pass_context
def local(
    ctx: click.Context,
    /,
    folder: Path | None,
    kafka: str | None,
    is_secure: bool,
    is_detached: bool,
    **numbers: int | None,
) -> None:
    """Run a cluster of processes on this machine until Ctrl-C or SIGTERM, or detached.

    What runs where is in DIR/cluster.json as soon as all nodes answer. Started again on the same
    folder, the cluster comes back as it was. The commands below are for a cluster that runs.
    """
    if ctx.invoked_subcommand is not None:
        for each in ctx.command.params:
            if each.name != "folder" and is_given(str(each.name)):
                raise click.UsageError(
                    f"{each.opts[0]} starts a cluster: {ctx.invoked_subcommand} takes --dir only"
                )
        return
    if folder is None:
        raise click.UsageError(_NO_FOLDER)
    detach = _in_background(folder) if is_detached else _stay_in_foreground
    import asyncio

    from admin.tools.kafka_runtime import Unavailable
    from admin.tools.local_cluster import prepare
    from admin.tools.local_plan import LocalError, Wanted

    try:
        wanted = Wanted(kafka=kafka, is_secure=is_secure, **numbers)
        cluster = prepare(folder, wanted, random.SystemRandom(), say)
        ctx.exit(asyncio.run(_run(cluster, detach)))
    except (LocalError, Unavailable) as error:
        raise click.ClickException(str(error)) from None


_NO_FOLDER = "Missing option '--dir'."
_MESSAGES_FILE = "local.log"


def _in_background(folder: Path) -> Callable[[], None]:
    """Go on in a child process, and end this one when the child detaches itself or ends.

    Returns the function with which the child does so. Before that, both are in the foreground:
    messages reach the terminal, and Ctrl-C reaches the child, which stops its nodes.
    """
    ready, detached = os.pipe()
    child = os.fork()
    if child:
        os.close(detached)
        sys.exit(_once_detached(ready, child))
    os.close(ready)

    def detach() -> None:
        os.setsid()
        with (folder / _MESSAGES_FILE).open("ab") as file, open(os.devnull, "rb") as nothing:
            for stream, instead in enumerate((nothing, file, file)):
                os.dup2(instead.fileno(), stream)
        os.write(detached, b"\n")
        os.close(detached)

    return detach


def _once_detached(ready: int, child: int) -> int:
    """Wait for a byte at `ready`, or for the end of the child; the exit code."""
    while True:
        try:
            if os.read(ready, 1):
                return Exit.DONE
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            # A child that is done and has not detached itself was interrupted.
            return Exit.FAILED if code < 0 else code or Exit.INTERRUPTED
        except KeyboardInterrupt:
            continue


def _stay_in_foreground() -> None:
    """Not detached: the terminal keeps the cluster."""


def _of_running(command: Callable[..., str]) -> Callable[..., None]:
    """Give `command` the folder of --dir, and ask the cluster there for the action it returns."""

    @click.option(
        "--dir",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        help="The folder of the cluster.  [required]",
    )
    @click.pass_context
    @wraps(command)
    def ask_cluster(ctx: click.Context, /, folder: Path | None, **options: Any) -> None:
        from admin.tools.local_control import Action, ask
        from admin.tools.local_plan import LocalError

        folder = folder or (None if ctx.parent is None else ctx.parent.params.get("folder"))
        if folder is None:
            raise click.UsageError(_NO_FOLDER)
        try:
            say(ask(folder, Action(command(**options)), options["node"]))
        except LocalError as error:
            raise click.ClickException(str(error)) from None

    return ask_cluster


@local.command("restart")
@click.argument("node")
@_of_running
def restart_node(node: str) -> str:
    """Start NODE, as 102 or broker-102, again; one that runs is stopped first."""
    return "restart"


@local.command("kill")
@click.argument("node")
@_of_running
def kill_node(node: str) -> str:
    """Kill NODE as a power loss would (SIGKILL)."""
    return "kill"


@local.command("stop")
@click.argument("node", required=False)
@_of_running
def stop_nodes(node: str | None) -> str:
    """Stop NODE cleanly, or without it the whole cluster."""
    return "stop"


async def _run(cluster: "LocalCluster", detach: Callable[[], None]) -> Exit:
    """Start the cluster and stay until interrupted; then stop it."""
    from admin.tools.local_cluster import until_interrupted
    from admin.tools.local_control import LocalControl

    control = LocalControl(cluster, say)
    try:
        await until_interrupted(_stay(cluster, control, detach))
    finally:
        try:
            await control.give_up()
            await _stop(cluster)
        finally:
            await control.close()
    return Exit.DONE


async def _stay(
    cluster: "LocalCluster", control: "LocalControl", detach: Callable[[], None]
) -> None:
    """Start the cluster, and report each node that ends by itself."""
    await cluster.start()
    await control.listen()
    _announce(cluster)
    detach()
    again = f"{command_line()} local restart --dir {cluster.folder}"
    while True:
        ended = await cluster.ended.get()
        say(f"{ended}. The others go on; to start it again: {again} {ended.node.name}")


async def _stop(cluster: "LocalCluster") -> None:
    """Stop every node, even if the terminal is closed and nothing can be printed."""
    try:
        if cluster.is_running:
            say("stopping all nodes")
    finally:
        killed = await cluster.stop()
    for name in killed:
        say(f"{name} did not stop in time and was killed")


def _announce(cluster: "LocalCluster") -> None:
    from admin.tools.local_plan import CLUSTER_FILE

    for node in cluster.plan.nodes:
        say(f"{node.name:13} {node.kafka}, process {cluster.pid(node.name)}")
    say(f"All are up; {cluster.folder / CLUSTER_FILE} says the same.")
    role, nodes = (
        ("SERVER", cluster.brokers) if cluster.brokers else ("CONTROLLER", cluster.controllers)
    )
    asked = f"METAQUORUM_BOOTSTRAP_{role}={','.join(map(str, nodes[:ASKED_MAX]))}"
    web = cluster.plan.controllers[0].http
    security = cluster.security
    if security is not None:
        asked += f" METAQUORUM_COMMAND_CONFIG={security.client_file}"
    say(f"Look:  export {asked}")
    say(f"       {command_line()} metadata-quorum describe --status")
    say(f"       {f'http://{web}/' if security is None else security.curl(web)}")
    say(f"Stop:  {command_line()} local stop --dir {cluster.folder}")
    say("       single nodes: local kill | stop | restart NODE")


ASKED_MAX = 3
"""How many nodes a user who copies the line asks, one after the other."""
DEADLINE_MS = 60_000


@click.command()
@click.option("--once", is_flag=True, help="Stop everything at the end, also in a terminal.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new or empty folder to keep; without it, one that is removed at the end.",
)
@click.option(
    "--base-port",
    type=WholeNumber(0, 65_000),
    default=0,
    help="As in `metaquorum local`.  [default: free ports]",
)
@click.option(
    "--seconds",
    "deadline_ms",
    type=DURATION,
    default=f"{DEADLINE_MS}ms",
    show_default="60s",
    help="Fail if the story has not ended by then.",
)
@click.option(
    "--kafka",
    metavar="[VERSION]",
    is_flag=False,
    flag_value=_NEWEST,
    callback=_kafka_release,
    help="Use brokers of this release of Apache Kafka (3.9.1, 4.2.0 or 4.3.1; alone: the last "
    "one); needs Java 17 and Maven.",
)
@_secure_option
@click.option(
    "--seed",
    type=WholeNumber(),
    help="Repeat the random choices of a run: the same moment of the kill.",
)
@click.pass_context
def demo(ctx: click.Context, /, once: bool, seed: int | None, **options: Any) -> None:
    """Start a cluster, move partitions, kill the controller meanwhile, and show nothing is lost.

    Where Spark can run (Java 17 and the extra `metaquorum[spark]`), it ends with a lag report. In a
    terminal the cluster stays up at the end, to look around, until Ctrl-C.
    """
    import asyncio

    from admin.tools.demo.run import DemoOptions, run

    terminal = sys.stdout.isatty()
    run_options = DemoOptions(
        live=terminal,
        stay=terminal and not once,
        rng=random.Random(seed) if seed is not None else random.SystemRandom(),
        **options,
    )
    ctx.exit(asyncio.run(run(run_options)))
