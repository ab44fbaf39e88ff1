"""`moves wait` and `--wait`: show the progress of a move until it has ended.

Progress goes to stderr: on a terminal one line that is overwritten, elsewhere a line for every
tenth. A new reason why the move is stuck is shown at once.
"""

import asyncio
import sys
from typing import Final

import click

from admin.capabilities.moves import DescribedMove, DescribeMove
from admin.cli import moves_text as text
from admin.cli.options import Exit, say, write
from admin.client.admin_client import AdminClient, Unreachable

LOOK_SECONDS: Final = 0.5
"""The polling interval."""


async def wait_for(client: AdminClient, move_id: int) -> Exit:
    """Show the progress of the move until it has ended, elections included."""
    screen = _Screen(is_terminal=sys.stderr.isatty())
    while True:
        try:
            move = await client.ask(DescribeMove(move_id=move_id))
        except Unreachable as error:
            screen.say(str(error))
        else:
            if move.ended:
                screen.end()
                write(text.ended(move))
                return Exit.DONE if move.state == "completed" else Exit.FAILED
            screen.show(move)
        await asyncio.sleep(LOOK_SECONDS)


class _Screen:
    """The progress display; it repeats nothing."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._progress = ""
        self._tenth = -1
        self._said = ""
        self._is_open = False

    def show(self, move: DescribedMove) -> None:
        """Show what is new about the move."""
        self.say(text.hindered(move))
        progress = text.progress(move)
        tenth = 10 * (move.partitions_total - move.waiting - move.stepping) // move.partitions_total
        if self._is_terminal and progress != self._progress:
            click.echo(f"\r\x1b[K{progress}", err=True, nl=False)
            self._is_open = True
        elif not self._is_terminal and tenth != self._tenth:
            say(progress)
        self._progress, self._tenth = progress, tenth

    def say(self, words: str) -> None:
        """Print a line, unless it repeats the last one."""
        if words and words != self._said:
            self.end()
            say(words)
        self._said = words

    def end(self) -> None:
        """End the line that is being overwritten."""
        if self._is_open:
            say("")
        self._is_open = False
        self._progress = ""
