"""`metaquorum lag`: reports on replication lag from the logs on disk."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from admin.cli.options import DURATION, BadInput, Exit, Parsed, say, write
from admin.tools.kafka_runtime import Unavailable, find_java
from admin.units import parse_size_bytes
from quorum.clocks import wall_ms

FORMATS = ("html", "parquet", "csv", "json")


def _time_ms(text: str) -> int:
    from lag.source.moments import parse_time_ms

    return parse_time_ms(text)


TIME = Parsed("time", _time_ms)


@click.group()
def command() -> None:
    """Report on replication lag from the logs of any replicas, running or dead, ours or Kafka's.

    Spark reads the logs; it needs Java 17 and the extra `metaquorum[spark]`.
    """


def require_spark() -> None:
    """Raise `NoSpark` unless Spark, its Python packages and a Java for it are installed."""
    from lag.session import NoSpark, check

    check()
    try:
        find_java()
    except Unavailable as error:
        raise NoSpark(f"Spark cannot be started: {error.lacks}") from None


def _scratch_bytes_max() -> int:
    """The limit of Spark's scratch folder, from the environment."""
    from lag.session import SCRATCH_BYTES_MAX, SCRATCH_VARIABLE

    value = os.environ.get(SCRATCH_VARIABLE)
    if value is None:
        return SCRATCH_BYTES_MAX
    try:
        return parse_size_bytes(value)
    except ValueError as error:
        raise BadInput(f"{SCRATCH_VARIABLE} is not a valid limit: {error}") from None


master_option = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="Spark master: this machine, or a cluster such as spark://host:7077.",
)
cluster_option = click.option(
    "--cluster", metavar="ID", help="Read the logs of this cluster only, by its id."
)
logs_argument = click.argument("logs", nargs=-1, required=True, metavar="LOGDIR...")


def _archive_path(text: str) -> str:
    """A path for Spark: with the scheme of a file system, or absolute."""
    if not text:
        raise ValueError("the path of an archive is empty")
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text) else os.path.abspath(text)


ARCHIVE = Parsed("path", _archive_path)


@contextmanager
def _expected_errors(*, if_interrupted: int) -> Iterator[None]:
    """Turn errors of the input and of Spark, and Ctrl-C, into exit codes."""
    from lag.runner import NothingToRead
    from lag.session import NoSpark, SparkFailed
    from lag.source.invalid_input import InvalidInput

    try:
        yield
    except (InvalidInput, NothingToRead, NoSpark) as error:
        raise BadInput(str(error)) from None
    except SparkFailed as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        if if_interrupted:
            say("interrupted")
        raise click.exceptions.Exit(if_interrupted) from None


@command.command()
@click.argument("logs", nargs=-1, metavar="[LOGDIR]...")
@click.option(
    "--archive",
    type=ARCHIVE,
    help="Read what is no longer in the logs from this archive; without LOGDIR, its own logs.",
)
@click.option("--since", "since_ms", type=TIME, help="Start of the report, by append time.")
@click.option("--until", "until_ms", type=TIME, help="End of the report, by append time.")
@click.option(
    "--window",
    "window_ms",
    type=DURATION,
    help="Length of the time windows, 10ms at least.  [default: a round length for up to 60 "
    "windows]",
)
@cluster_option
@master_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("lag-report"),
    show_default=True,
    help="Output folder.",
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(FORMATS),
    multiple=True,
    default=("html",),
    show_default=True,
    help="Output format; may be repeated.",
)
@click.option("--check", is_flag=True, help="Exit with 3 unless all replicas are OK.")
@click.pass_context
def report(
    ctx: click.Context,
    /,
    logs: Sequence[str],
    archive: str | None,
    since_ms: int | None,
    until_ms: int | None,
    window_ms: int | None,
    cluster: str | None,
    master: str,
    out: Path,
    formats: Sequence[str],
    check: bool,
) -> None:
    """Report which replicas lagged, when and why, and how moves went against their plan.

    LOGDIR is the folder of a log (__cluster_metadata-0), of a node, or of several nodes; here, at
    s3://bucket/folder, or at hdfs://host:port/folder. With --archive and without LOGDIR, the
    folders are those of which the archive was made.

    Exit codes: 0 success, 2 invalid input or nothing to read, 3 something could not be read (the
    report says what) or, with --check, a replica is not OK or nothing is known of it.
    """
    from lag.request import ReportRequest
    from lag.runner import make
    from lag.source.folders import folders

    if not logs and archive is None:
        raise click.UsageError("Name a LOGDIR, or an --archive.")
    with _expected_errors(if_interrupted=Exit.INTERRUPTED):
        request = ReportRequest(
            paths=folders(logs),
            archive=archive,
            cluster=cluster,
            since_ms=since_ms,
            until_ms=until_ms,
            window_ms=window_ms,
        )
        _check_writable(out)
        require_spark()
        results = make(
            request, master, live=sys.stderr.isatty(), scratch_bytes_max=_scratch_bytes_max()
        )
    from lag.output.files import write as write_files
    from lag.output.summary import not_ok, problems, summary

    try:
        written = write_files(results, out, formats)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror}; name another --out") from None
    write(summary(results))
    write(f"Written: {written[0]}" + (f" and {len(written) - 1} more" if written[1:] else ""))
    for line in (*problems(results), *(not_ok(results) if check else ())):
        say(line)
    is_bad = bool(results.faults) or (check and bool(results.not_ok))
    ctx.exit(Exit.NOT_FINISHED if is_bad else Exit.DONE)


def _check_writable(out: Path) -> None:
    """Refuse an output folder that cannot be made: a report may take long."""
    there = next(each for each in (out.absolute(), *out.absolute().parents) if each.exists())
    if not there.is_dir():
        raise BadInput(f"{out} cannot be written: {there} is a file; name another --out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise BadInput(f"{out} cannot be written: no right to write into {there}")


EVERY_MS = 500


@command.command()
@logs_argument
@click.option(
    "--every",
    "every_ms",
    type=DURATION,
    default=f"{EVERY_MS}ms",
    show_default=True,
    help="Interval between two looks at the logs.",
)
@click.option(
    "--for",
    "for_ms",
    type=DURATION,
    help="Stop this long after the first table.  [default: Ctrl-C]",
)
@cluster_option
@master_option
def watch(
    logs: Sequence[str],
    every_ms: int,
    for_ms: int | None,
    cluster: str | None,
    master: str,
) -> None:
    """Follow the logs and show the position of every replica, until Ctrl-C.

    On a terminal the table is drawn in place; elsewhere it is printed when it changes.
    """
    if not every_ms:
        raise BadInput("--every 0ms is too short: use 100ms or more")
    from lag.source.folders import folders
    from lag.watch.display import Table
    from lag.watch.stream import WatchRequest, check_watch
    from lag.watch.stream import watch as follow

    with _expected_errors(if_interrupted=Exit.DONE):
        watched = WatchRequest(
            paths=folders(logs), every_ms=every_ms, for_ms=for_ms, cluster=cluster
        )
        require_spark()
        check_watch(watched)
        with Table(live=sys.stdout.isatty()) as table:
            follow(
                watched,
                master,
                table.show,
                table.ready,
                now_ms=wall_ms,
                scratch_bytes_max=_scratch_bytes_max(),
            )


ARCHIVE_EVERY_MS = 1_000
DAY_MS = 86_400_000


@command.command()
@logs_argument
@click.option("--archive", type=ARCHIVE, required=True, help="The folder of the archive.")
@click.option(
    "--every",
    "every_ms",
    type=DURATION,
    default=f"{ARCHIVE_EVERY_MS}ms",
    show_default=True,
    help="Interval between two looks at the logs.",
)
@click.option("--once", is_flag=True, help="End with what is in the logs now.")
@click.option(
    "--keep",
    "keep_ms",
    type=DURATION,
    help="Remove days that are older, such as 90d.  [default: keep all]",
)
@cluster_option
@master_option
def archive(
    logs: Sequence[str],
    archive: str,
    every_ms: int,
    once: bool,
    keep_ms: int | None,
    cluster: str | None,
    master: str,
) -> None:
    """Keep the logs in an archive while they grow, until Ctrl-C.

    It can be stopped or killed at any time: started again, it goes on where it was. The archive is
    a folder of Parquet files, in any file system that Spark writes to.
    """
    if not every_ms:
        raise BadInput("--every 0ms is too short: use 100ms or more")
    if keep_ms is not None and keep_ms < DAY_MS:
        raise BadInput("--keep is too short: use 1d or more, because whole days are removed")
    from lag.archive.stream import ArchiveRequest
    from lag.archive.stream import archive as follow
    from lag.source.folders import folders

    def ready() -> None:
        write(f"{archive} has the logs up to their ends" + ("" if once else ", and follows them"))
        sys.stdout.flush()

    with _expected_errors(if_interrupted=Exit.DONE):
        asked = ArchiveRequest(
            paths=folders(logs),
            archive=archive,
            every_ms=every_ms,
            is_once=once,
            keep_days=None if keep_ms is None else -(-keep_ms // DAY_MS),
            cluster=cluster,
        )
        require_spark()
        follow(asked, master, ready, now_ms=wall_ms, scratch_bytes_max=_scratch_bytes_max())
