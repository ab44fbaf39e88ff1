"""`metaquorum demo`: partitions move, their controller is killed, and nothing is lost."""

import random
import sys
from pathlib import Path

import click

from admin.cli.options import DURATION

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
    type=click.IntRange(0, 65_000),
    default=0,
    help="As in `metaquorum local`.  [default: free ports]",
)
@click.option(
    "--seconds",
    "deadline_ms",
    type=DURATION,
    default=f"{DEADLINE_MS}ms",
    show_default="60s",
    help="Give up, as failed, when the story has not ended by then.",
)
@click.option(
    "--kafka",
    metavar="VERSION",
    help="Play it with brokers of this release of Apache Kafka (3.9.1 or 4.2.0); needs Java 17 "
    "and Maven.",
)
@click.option("--seed", type=int, help="Kill the controller at the same moment again.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    once: bool,
    folder: Path | None,
    base_port: int,
    deadline_ms: int,
    kafka: str | None,
    seed: int | None,
) -> None:
    """Start a cluster, move partitions, kill the controller meanwhile, and show nothing is lost.

    Where Spark can run (Java 17 and the extra `metaquorum[spark]`), it ends with a lag report. In a
    terminal the cluster stays up at the end, to look around, until Ctrl-C.
    """
    import asyncio

    from admin.tools.demo.run import Telling, run

    terminal = sys.stdout.isatty()
    telling = Telling(
        folder=folder,
        base_port=base_port,
        deadline_ms=deadline_ms,
        kafka=kafka,
        live=terminal,
        stay=terminal and not once,
        rng=random.Random(seed) if seed is not None else random.SystemRandom(),
    )
    ctx.exit(asyncio.run(run(telling)))
