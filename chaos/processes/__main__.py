"""The command of a run: `python -m chaos.processes --rounds 50`, or `make fire ROUNDS=50`."""

import asyncio
import random
import shutil
import tempfile
from pathlib import Path
from typing import Final

import click
import orjson

from chaos.processes.faults import Kind
from chaos.processes.network import (
    NODES_MAX,
    FaultyNetwork,
    Namespaces,
    NetworkFault,
    go_inside,
    is_inside,
)
from chaos.processes.nodes import NodeEnded
from chaos.processes.proxies import Proxies
from chaos.processes.report import Report
from chaos.processes.run import Run, RunFailed, RunSettings

ROUNDS_MAX: Final = 10_000


async def carry_out(wish: RunSettings, folder: Path) -> Report:
    """The run, in the network that this program has; raises what `main` reports."""
    nodes = range(1, wish.nodes + 1)
    network: FaultyNetwork = await Namespaces.open(nodes) if is_inside() else Proxies(nodes)
    try:
        return await Run(wish, folder, network, lambda line: click.echo(line, err=True)).carry_out()
    finally:
        await network.close()


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


@click.command()
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), default=50, show_default=True)
@click.option("--nodes", type=click.IntRange(2, NODES_MAX), default=3, show_default=True)
@click.option("--seed", type=int, help="Decides the faults; drawn and told if not given.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([each.value for each in Kind]),
    multiple=True,
    help="Only such faults; may be given again. All kinds if not given.",
)
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
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
def main(
    rounds: int,
    nodes: int,
    seed: int | None,
    kinds: tuple[str, ...],
    config: Path | None,
    given: tuple[str, ...],
    folder: Path | None,
    keep: bool,
    loopback: bool,
    as_json: bool,
) -> None:
    """Inject faults into a cluster of real controller processes, and check what is left."""
    settings = settings_of(config, given)
    if not loopback and not is_inside():
        go_inside()
    if not loopback and not is_inside():
        click.echo("no network namespaces here: all nodes on loopback, behind proxies", err=True)
    wish = RunSettings(
        seed=random.SystemRandom().randrange(1 << 32) if seed is None else seed,
        rounds=rounds,
        nodes=nodes,
        kinds=tuple(map(Kind, kinds)) or tuple(Kind),
        settings=settings,
    )
    report = _run(wish, Path(tempfile.mkdtemp(prefix="fire-", dir=folder)), keep)
    click.echo(orjson.dumps(report.as_data()).decode() if as_json else report)
    if report.problems:
        raise SystemExit(1)


def _run(wish: RunSettings, folder: Path, keep: bool) -> Report:
    """Carry out the run; keep the folder if asked to, or if something went wrong."""
    click.echo(f"seed {wish.seed}, folder {folder}", err=True)
    try:
        report = asyncio.run(carry_out(wish, folder / "cluster"))
    except* (RunFailed, NodeEnded, NetworkFault) as failures:
        said = "; ".join(map(str, failures.exceptions))
        raise click.ClickException(f"{said} (seed {wish.seed}; the folder is kept)") from None
    if not keep and not report.problems:
        shutil.rmtree(folder)
    return report


if __name__ == "__main__":
    main()
