"""The common options of the benchmark commands, and the folder for their files."""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from quorum.process import loop_factory

F = TypeVar("F", bound=Callable[..., Any])

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder for the data of the nodes; it determines the disk.",
)
document_option = click.option(
    "--write",
    "document",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Write the figures into this document, between its markers.",
)


def only_option(steps: Iterable[str]) -> Callable[[F], F]:
    """`--only STEP`."""
    return click.option(
        "--only",
        type=click.Choice(list(steps)),
        multiple=True,
        help="Run only this step; repeatable.",
    )


def side_option(sides: Iterable[str]) -> Callable[[F], F]:
    """`--side SIDE`."""
    return click.option(
        "--side",
        "sides",
        type=click.Choice(list(sides)),
        multiple=True,
        help="Run only this side; repeatable.",
    )


@contextmanager
def workplace(folder: Path | None) -> Iterator[tuple[Path, asyncio.Runner]]:
    """A temporary folder in `folder`, and a runner with the event loop of the product."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as temporary,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        yield Path(temporary), runner
