"""The progress of a report, drawn in place on a terminal."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LOOK_EVERY_SECONDS: Final = 0.3


class Steps:
    """The steps of one command, in sequence."""

    def __init__(self, bars: "Progress | None") -> None:
        """With `bars` of None nothing is drawn."""
        self._bars = bars
        self._task: TaskID | None = None

    def step(self, title: str) -> None:
        """Finish the current step and begin the next."""
        if self._bars is None:
            return
        if self._task is not None:
            self._bars.update(self._task, total=1, completed=1, work="")
        self._task = self._bars.add_task(title, total=None, work="")

    def work(self, done: int, whole: int) -> None:
        """Show the number of finished Spark tasks, of those known so far."""
        if self._bars is not None and self._task is not None and whole:
            self._bars.update(self._task, work=f"{done} of {whole} tasks")


@contextmanager
def progress(*, live: bool) -> Iterator[Steps]:
    """Display progress while the context lasts, if `live`: if stderr is a terminal."""
    if not live:
        yield Steps(None)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[work]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Steps(bars)


@contextmanager
def watched(steps: Steps, spark: Any) -> Iterator[None]:
    """Report the progress of Spark's active tasks while the context lasts."""
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(steps.work, spark, over), name="lag progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(work: Callable[[int, int], None], spark: Any, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(LOOK_EVERY_SECONDS):
        stages = [tracker.getStageInfo(id_) for id_ in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        work(sum(stage.numCompletedTasks for stage in known), sum(s.numTasks for s in known))
