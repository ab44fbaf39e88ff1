"""An archiving process that kills itself, and its Java, at the moment that a test asks for."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

from tests.lag.archive.archiving import NOW_MS
from tests.lag.parquet_streams import FOR_EVER_MS, LOOK_SECONDS, LOOKS_MAX, run_until_killed

UNDERWAY: Final = "underway"
"""While a part is being written."""
WRITTEN: Final = "written"
"""After a part is whole, and before Spark knows."""


def killed(logs: Path, place: Path, moment: str, part: int) -> None:
    """Archive in a process of its own, until it is killed with the part of this number."""
    run_until_killed(__name__, logs, place, moment, str(part))


def _kill() -> None:
    os.killpg(0, signal.SIGKILL)


def main(logs: str, place: str, moment: str, part: str) -> None:
    """The process that is killed."""
    from lag.archive import stream
    from lag.archive.merging import Parts
    from lag.session import spark_session

    # Of every log a micro-batch takes one stretch.
    stream.BYTES_AT_ONCE_MAX = stream.BYTES_OF_A_LOG_MIN = 1  # type: ignore[misc]
    over = threading.Event()
    if moment == UNDERWAY:
        stream.SETTLE_MS = int(FOR_EVER_MS)  # type: ignore[misc]
        threading.Thread(target=_look, args=(Path(place), int(part), over), daemon=True).start()
    else:
        write = Parts.write

        def written(self: Parts, rows: Any, number: int, now_ms: int) -> None:
            write(self, rows, number, now_ms)
            if number == int(part):
                _kill()

        Parts.write = written  # type: ignore[method-assign]
    with spark_session("local[2]") as spark:
        asked = stream.ArchiveRequest(paths=(logs,), archive=place, every_ms=100)
        stream.Writer(spark, asked, lambda: NOW_MS).run(is_once=False, over=over)


def _look(place: Path, number: int, over: threading.Event) -> None:
    """Kill once rows of the part are there; it cannot end, because times are awaited."""
    from lag.archive.place import SUCCESS, Part

    part = place / "parts" / Part(0, number, number).name
    for _ in range(LOOKS_MAX):
        if any(part.rglob("*.parquet")):
            assert not (part / SUCCESS).exists()
            _kill()
        over.wait(LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
