"""An archive in the session of the tests: made as the command makes it, and read row by row."""

import threading
from pathlib import Path
from typing import Any, Final

from tests.lag.handmade_logs import BEGIN_MS

NOW_MS: Final = BEGIN_MS + 3_600_000


def archive(
    spark: Any, logs: Path, place: Path, *, now_ms: int = NOW_MS, keep_days: int | None = None
) -> None:
    """Archive what is in the logs now."""
    from lag.archive.stream import ArchiveRequest, Writer
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    asked = ArchiveRequest(
        paths=(str(logs),), archive=str(place), every_ms=100, is_once=True, keep_days=keep_days
    )
    Writer(spark, asked, lambda: now_ms).run(is_once=True, over=threading.Event())


def restored(spark: Any, place: Path, root: Path, *logs: Path) -> dict[str, bytes]:
    """The files that are made of an archive and these logs, by path."""
    from lag.archive.restoring import restore

    root.mkdir()
    named = [str(each) for each in logs]
    made = restore(spark, str(place), named, root, cluster=None, bytes_max=1 << 40)
    return files(root, made.root)


def files(folder: Path, root: Path | str = "") -> dict[str, bytes]:
    """The content of the files of logs below a folder, by path."""
    kinds = (".log", ".appendtime", ".checkpoint", ".properties")
    return {
        str(path).removeprefix(str(root)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in kinds
    }


def rows(spark: Any, place: Path) -> list[dict[str, Any]]:
    """The rows of an archive, without their bytes."""
    from lag.archive.merging import read_parts
    from lag.archive.place import Archive, current

    archived = Archive(spark, str(place))
    found = read_parts(spark, archived, current(archived.parts())).drop("data", "index")
    return [row.asDict() for row in found.orderBy("replica", "path", "position").collect()]
