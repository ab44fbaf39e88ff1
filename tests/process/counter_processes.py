"""The counter of docs/embedding.md as processes, from the lines that stand there.

They run without this project's tree: beside the standard library they see `quorum`, as it is
installed, and the libraries that it names as its own.
"""

import asyncio
import importlib.metadata
import re
import sys
from asyncio.subprocess import DEVNULL, Process
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hatch_build import lay_out
from tests.support.tree import ROOT

PAGE: Final = ROOT / "docs" / "embedding.md"
LISTING: Final = re.compile(r"<!-- counter\.py -->\n```python\n(.*?)```\n", re.DOTALL)
LIBRARIES: Final = ("kio", "crc32c", "msgspec")
"""The requirements of `quorum`; the page lists them."""
HOST: Final = "127.0.0.1"
WITHIN_SECONDS: Final = 30

_START: Final = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
)


def listing() -> str:
    """The lines of the reader's program, as the page has them."""
    (code,) = LISTING.findall(PAGE.read_text(encoding="utf-8"))
    return str(code)


def needed(libraries: tuple[str, ...]) -> set[str]:
    """These distributions, and those that they need at run time."""
    found: set[str] = set()
    for name in libraries:
        wanted = importlib.metadata.requires(name) or []
        named = [re.split(r"[^\w.-]", each)[0] for each in wanted if "extra ==" not in each]
        found |= {name} | needed(tuple(named))
    return found


def bare_environment(folder: Path) -> Path:
    """A folder to import from, with `quorum` and its libraries and nothing else."""
    lay_out(ROOT, ["quorum"], folder)
    for name in sorted(needed(LIBRARIES)):
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or ()}
        for top in tops - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(str(distribution.locate_file(top))))
    return folder


@dataclass
class Counters:
    """Processes 1, 2 and 3, each with a folder, and a door on the port above its own."""

    folder: Path
    ports: tuple[int, ...]
    processes: dict[int, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program = self.folder / "counter.py"
        self.program.write_text(listing(), encoding="utf-8")
        self.environment = bare_environment(self.folder / "site")

    async def start(self, number: int) -> None:
        """Run this one."""
        with (self.folder / f"{number}.log").open("ab") as said:
            self.processes[number] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _START, str(self.environment)),
                *(str(self.program), str(number), str(self.folder / f"node-{number}")),
                *map(str, self.ports),
                stdin=DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    async def kill(self, number: int) -> None:
        """End this one as a loss of power would."""
        process = self.processes.pop(number)
        process.kill()
        await process.wait()

    async def close(self) -> None:
        """End all."""
        for number in tuple(self.processes):
            await self.kill(number)

    def snapshots(self, number: int) -> list[str]:
        """The names of the snapshots in the folder of this one."""
        return [path.name for path in (self.folder / f"node-{number}").rglob("*.checkpoint")]

    def said(self) -> str:
        """The logs of the processes, for a test that fails."""
        texts = [(self.folder / f"{n}.log").read_text(encoding="utf-8") for n in (1, 2, 3)]
        return "\n".join(texts)

    async def ask(self, number: int, line: str) -> str:
        """The answer of this process to the line; empty if it cannot be reached."""
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(HOST, self.ports[number - 1] + 1)
            try:
                writer.write(f"{line}\n".encode())
                return (await reader.readline()).decode().strip()
            finally:
                writer.close()
        return ""

    async def total(self, line: str) -> tuple[int, int]:
        """Ask one after the other until one answers with a total: who it was, and the total."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while True:
                for number in (1, 2, 3):
                    answer = await self.ask(number, line)
                    if answer.isdigit():
                        return number, int(answer)
