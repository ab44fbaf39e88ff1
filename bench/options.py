"""The common part of the commands that measure: options, and the folder to run in."""

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
    help="Where the folders of the nodes are made, that is, on which disk.",
)
document_option = click.option(
    "--write",
    "document",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Put the figures into this document, between its markers.",
)


def only_option(steps: Iterable[str]) -> Callable[[F], F]:
    """`--only STEP`."""
    return click.option(
        "--only",
        type=click.Choice(list(steps)),
        multiple=True,
        help="This step alone; may be given again.",
    )


def side_option(sides: Iterable[str]) -> Callable[[F], F]:
    """`--side SIDE`."""
    return click.option(
        "--side",
        "sides",
        type=click.Choice(list(sides)),
        multiple=True,
        help="This side alone; may be given again.",
    )


@contextmanager
def workplace(folder: Path | None) -> Iterator[tuple[Path, asyncio.Runner]]:
    """A folder in `folder` that is thrown away, and the loop that is measured."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as temporary,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        yield Path(temporary), runner
