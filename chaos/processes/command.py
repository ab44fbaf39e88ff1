"""The command of a run of faults on real processes, and the one that writes pages of reports."""

import asyncio
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import orjson

from chaos.processes.faults import Kind, planned
from chaos.processes.given import Commands, GivenNodes
from chaos.processes.kill_points import FILE, PROGRAM, compiled_points
from chaos.processes.kraft import VERSIONS, KraftNodes, Runtime, Unavailable, find_runtime
from chaos.processes.network import (
    NODES_MAX,
    FaultyNetwork,
    Namespaces,
    NetworkFault,
    go_inside,
    has_netem,
    is_inside,
)
from chaos.processes.nodes import PROGRAM as NODE_PROGRAM
from chaos.processes.nodes import NodeEnded, Nodes
from chaos.processes.page import PageUnavailable, write_page
from chaos.processes.preload import Preload, PreloadUnavailable, can_compile
from chaos.processes.proxies import Proxies
from chaos.processes.report import Report
from chaos.processes.run import Run, RunFailed, RunSettings, Stage, schedule_rng
from quorum.transport.address import Address
from quorum.version import VERSION

ROUNDS_MAX: Final = 10_000
OURS: Final = "metaquorum"
KRAFT: Final = "kraft"
GIVEN: Final = "given"
NODES_MIN: Final = 2
_NAMES: Final = {OURS: OURS, KRAFT: "Apache Kafka", GIVEN: "a given cluster"}
_CONTROLLER: Final = re.compile(r"([0-9]+)=(.+):([0-9]+)")
_ARGUMENTS: Final = "chaos.processes.arguments"
_VOTERS_MIN: Final = 3
"""With fewer, a voter that leaves takes the majority with it."""


class _Command(click.Command):
    """A command that remembers its arguments, to start this program again with them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


@click.command("run", cls=_Command)
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), default=50, show_default=True)
@click.option("--nodes", type=click.IntRange(NODES_MIN, NODES_MAX), default=3, show_default=True)
@click.option("--seed", type=int, help="Decides the faults; drawn and told if not given.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([each.value for each in Kind]),
    multiple=True,
    help="Only such faults; may be given again. All kinds if not given.",
)
@click.option(
    "--target",
    type=click.Choice([OURS, KRAFT, GIVEN]),
    default=OURS,
    show_default=True,
    help="Break our controllers, Apache Kafka's own (Java 17 and Maven), or a cluster that runs.",
)
@click.option(
    "--kafka",
    "release",
    type=click.Choice(VERSIONS),
    default=VERSIONS[-1],
    show_default=True,
    help="The release of Kafka, with --target kraft.",
)
@click.option(
    "--controller",
    "controllers",
    multiple=True,
    metavar="ID=HOST:PORT",
    help="With --target given: each controller of the cluster, ours or Kafka's.",
)
@click.option("--start-command", help="With --target given: starts node {node}.")
@click.option("--kill-command", help="With --target given: kills node {node} (SIGKILL).")
@click.option("--stop-command", help="With --target given: stops node {node} in order.")
@click.option("--pause-command", help="With --target given: pauses node {node} (SIGSTOP).")
@click.option("--resume-command", help="With --target given: resumes node {node} (SIGCONT).")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Settings of every node, as in a file of `metaquorum start`.",
)
@click.option("--setting", "given", multiple=True, help="One more: name=value.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where the folder of the run is made, that is, on which disk.",
)
@click.option("--keep", is_flag=True, help="Keep that folder, and say where it is.")
@click.option("--loopback", is_flag=True, help="All nodes on loopback, behind proxies.")
@click.option("--dry-run", is_flag=True, help="Show the faults of the seed, and start nothing.")
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the report as one HTML page to this file.",
)
@click.option(
    "--compare",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    multiple=True,
    help="Put the report of an earlier run (a file of --json) beside it in the page.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def command(
    context: click.Context,
    rounds: int,
    nodes: int,
    seed: int | None,
    kinds: tuple[str, ...],
    target: str,
    release: str,
    controllers: tuple[str, ...],
    start_command: str | None,
    kill_command: str | None,
    stop_command: str | None,
    pause_command: str | None,
    resume_command: str | None,
    config: Path | None,
    given: tuple[str, ...],
    folder: Path | None,
    keep: bool,
    loopback: bool,
    dry_run: bool,
    page: Path | None,
    compare: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Inject faults into a cluster of real controller processes, and check what is left.

    Ctrl-C ends the run in order: every fault is healed, and what was done so far is judged.
    """
    settings = settings_of(config, given)
    arguments: Sequence[str] = context.meta[_ARGUMENTS]
    asked = tuple(map(Kind, kinds))
    cluster = None
    if target == GIVEN:
        if start_command is None or kill_command is None or not controllers:
            raise click.UsageError(
                "--target given needs --controller, --start-command and --kill-command"
            )
        commands = Commands(
            start=start_command,
            kill=kill_command,
            stop=stop_command,
            pause=pause_command,
            resume=resume_command,
        )
        cluster = GivenNodes(_addresses(controllers), commands)
        nodes = len(cluster.ids)
    if not (loopback or is_inside() or target == GIVEN):
        go_inside(arguments)
        click.echo("no network namespaces here: all nodes on loopback, behind proxies", err=True)
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    maker = _Maker(
        nodes=nodes, target=target, release=release, seed=seed, settings=settings, given=cluster
    )
    able, left_out = maker.possible(asked or tuple(Kind), loopback=loopback)
    if asked and left_out:
        raise click.ClickException("; ".join(left_out))
    for reason in left_out:
        click.echo(f"left out: {reason}", err=True)
    if dry_run:
        coming = planned(able, maker.ids, rounds, schedule_rng(seed))
        for number, each in enumerate(coming, start=1):
            click.echo(f"{number:4}  {each!s:40} at least {each.hold_ms} ms")
        return
    wish = RunSettings(
        seed=seed,
        rounds=rounds,
        nodes=nodes,
        kinds=able,
        settings=settings,
        target=_NAMES[target],
        version={KRAFT: release, OURS: VERSION}.get(target, ""),
        tag=f"fire-{os.urandom(4).hex()}" if target == GIVEN else "fire",
        left_out=left_out,
        command=_shown(context.command_path, arguments, seed),
    )
    report = _run(maker, wish, Path(tempfile.mkdtemp(prefix="fire-", dir=folder)), keep)
    click.echo(orjson.dumps(report.as_data()).decode() if as_json else report)
    if page is not None:
        _write(page, [report.as_data(), *(orjson.loads(each.read_bytes()) for each in compare)])
    if report.problems:
        raise SystemExit(1)


class _Maker:
    """Makes the cluster of a run, and knows which faults it can have."""

    def __init__(
        self,
        *,
        nodes: int,
        target: str,
        release: str,
        seed: int,
        settings: dict[str, str],
        given: GivenNodes | None,
    ) -> None:
        self.ids = range(1, nodes + 1) if given is None else given.ids
        self._given = given
        self._target = target
        self._release = release
        self._seed = seed
        self._settings = settings

    def possible(
        self, kinds: Sequence[Kind], *, loopback: bool
    ) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
        """The kinds that this machine and target can have, and the reasons against the others."""
        able, left_out = [], []
        can_impair = loopback or not is_inside() or has_netem()
        for kind in kinds:
            reason = self._reason_against(kind, can_impair)
            if reason is None:
                able.append(kind)
            else:
                left_out.append(f"{kind}: {reason}")
        if not able:
            raise click.ClickException("; ".join(left_out))
        return tuple(able), tuple(left_out)

    def _reason_against(self, kind: Kind, can_impair: bool) -> str | None:
        if self._given is not None:
            return None if self._given.can(kind) else "no command of the cluster does it"
        if kind.impairs and not can_impair:
            return "this kernel has no netem (with --loopback, the proxies do it)"
        if kind.needs_preload and not can_compile():
            return "there is no C compiler for the library that damages disk and clock"
        if kind is Kind.KILL_AT_POINT:
            if self._target == KRAFT:
                return "the points are in our code"
            if compiled_points():
                return "the nodes are compiled, and have no points"
        if kind.changes_voters and len(self.ids) < _VOTERS_MIN:
            return f"it needs {_VOTERS_MIN} nodes"
        return None

    async def stage(self, folder: Path, kinds: Sequence[Kind]) -> Stage:
        """The network and the files of the cluster, in a new folder."""
        controls = folder / "controls"
        controls.mkdir(parents=True)
        needs_preload = any(kind.needs_preload for kind in kinds)
        preload = Preload.compiled(controls) if needs_preload else Preload(controls)
        network: FaultyNetwork
        if self._given is not None:
            network = self._given.network
            return Stage(nodes=self._given, network=network, preload=preload, points=controls)
        network = await Namespaces.open(self.ids) if is_inside() else Proxies(self.ids)
        try:
            nodes = self._nodes(folder / "cluster", network, preload, controls, kinds)
        except BaseException:
            await network.close()
            raise
        return Stage(nodes=nodes, network=network, preload=preload, points=controls)

    def _nodes(
        self,
        folder: Path,
        network: FaultyNetwork,
        preload: Preload,
        points: Path,
        kinds: Sequence[Kind],
    ) -> Nodes:
        def environment(id: int) -> dict[str, str]:
            data = folder / f"node-{id}" / "data"
            return {FILE: str(points / f"point-{id}"), **preload.environment(id, data)}

        rng = random.Random(self._seed)
        if self._target == KRAFT:
            return KraftNodes(
                *(folder, self.ids, network, self._settings, rng),
                runtime=self.runtime(),
                environment_of=environment,
            )
        has_points = Kind.KILL_AT_POINT in kinds
        return Nodes(
            *(folder, self.ids, network, self._settings, rng),
            program=PROGRAM if has_points else NODE_PROGRAM,
            environment_of=environment,
        )

    def runtime(self) -> Runtime:
        """Kafka's jars and a Java; raises `click.ClickException`."""
        try:
            return find_runtime(self._release, lambda line: click.echo(line, err=True))
        except Unavailable as error:
            raise click.ClickException(f"Kafka is not available: {error.lacks}") from None


def _addresses(controllers: Sequence[str]) -> dict[int, Address]:
    """The addresses of `ID=HOST:PORT`; raises `click.UsageError`."""
    found = {}
    for each in controllers:
        match = _CONTROLLER.fullmatch(each)
        if match is None:
            raise click.UsageError(f"{each!r} is no controller: write ID=HOST:PORT")
        found[int(match[1])] = Address(match[2], int(match[3]))
    if len(found) < NODES_MIN:
        raise click.UsageError(f"a run needs {NODES_MIN} controllers with different ids")
    return found


def settings_of(file: Path | None, given: tuple[str, ...]) -> dict[str, str]:
    """The settings of a file, then those of the command line; raises `click.UsageError`."""
    lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
    settings = {}
    for line in [*(each for each in lines if each.strip() and each[0] != "#"), *given]:
        name, equals, value = line.partition("=")
        if not equals:
            raise click.UsageError(f"{line!r} is no setting: write name=value")
        settings[name.strip()] = value.strip()
    return settings


async def carry_out(maker: _Maker, wish: RunSettings, folder: Path) -> Report:
    """The run, in the network that this program has; a first SIGINT or SIGTERM ends it in order, a
    second one at once."""
    loop = asyncio.get_running_loop()
    ends, task = asyncio.Event(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        if ends.is_set():
            task.cancel()
        ends.set()

    stage = await maker.stage(folder, wish.kinds)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        say = lambda line: click.echo(line, err=True)  # noqa: E731
        return await Run(wish, stage, say, ends).carry_out()
    finally:
        await stage.network.close()


def _run(maker: _Maker, wish: RunSettings, folder: Path, keep: bool) -> Report:
    """Carry out the run; keep the folder if asked to, or if something went wrong."""
    click.echo(f"seed {wish.seed}, folder {folder}", err=True)
    failed: list[BaseException] = []
    try:
        report = asyncio.run(carry_out(maker, wish, folder))
    except* (RunFailed, NodeEnded, NetworkFault, PreloadUnavailable) as failures:
        failed = _leaves(failures)
    except* asyncio.CancelledError:
        shutil.rmtree(folder)
    if not folder.exists():
        raise click.ClickException("ended at once, without a verdict")
    if failed:
        said = "; ".join(dict.fromkeys(map(str, failed)))
        raise click.ClickException(f"{said} (seed {wish.seed}; the folder is kept)")
    if not keep and not report.problems:
        shutil.rmtree(folder)
    return report


def _leaves(failures: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for each in failures.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found


def _shown(program: str, arguments: Sequence[str], seed: int) -> str:
    """The command that repeats a run."""
    words = list(arguments)
    if not any(each.split("=")[0] == "--seed" for each in words):
        words += ["--seed", str(seed)]
    return " ".join([program, *words])


def _write(page: Path, reports: Sequence[dict[str, Any]]) -> None:
    try:
        write_page(page, reports)
    except PageUnavailable as error:
        raise click.ClickException(str(error)) from None


@click.command("report")
@click.argument(
    "reports",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    required=True,
    help="The file of the page.",
)
def report_command(reports: tuple[Path, ...], page: Path) -> None:
    """Write one HTML page from the reports of one or more runs (files of --json)."""
    _write(page, [orjson.loads(each.read_bytes()) for each in reports])
