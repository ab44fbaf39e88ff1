"""A report of an archive and of cut logs, compared with that of the logs before they were cut."""

import random
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.output.page import page
from lag.progress import Steps
from lag.request import ReportRequest
from lag.results import Results
from lag.source.invalid_input import InvalidInput
from tests.lag.archive.archiving import archive
from tests.lag.random_quorum import RandomQuorum
from tests.lag.small_quorum import METADATA, Copy

SEED: Final = 11
BATCHES_OF_A_SEGMENT: Final = 60
NODES: Final = (1, 2, 3)
"""The replicas: the time of a report grows with their number."""
GONE: Final = 3
"""The replica of which nothing is left but the archive."""
PATHS: Final = re.compile(r'<p class="soft small">.*?</p>', re.DOTALL)


def write_up_to(copies: list[Copy], share: float, root: Path) -> None:
    """Write the part of each log that was there at some moment, or all of it."""
    for copy in copies:
        whole, count = copy.segments, round(len(copy.batches) * share)
        copy.segments = []
        for segment in whole:
            if count > 0:
                copy.segments.append(segment[:count])
            count -= len(segment)
        copy.write(root)
        copy.segments = whole


def cut(logs: Path, rng: random.Random) -> None:
    """Delete old segments, as after snapshots, of every log another number."""
    for folder in sorted(logs.glob(f"*/{METADATA}")):
        segments = sorted(folder.glob("*.log"))
        for path in segments[: rng.randint(1, max(1, len(segments) - 1))]:
            path.unlink()
            path.with_suffix(".appendtime").unlink(missing_ok=True)
    shutil.rmtree(logs / f"node-{GONE}")


def collected(spark: Any, request: ReportRequest) -> Results:
    from lag.runner import collect, collect_archived

    if request.archive is None:
        return collect(spark, request, Steps(None))
    return collect_archived(spark, request, Steps(None))


def differences(one: Results, other: Results) -> list[str]:
    """The names of tables that differ."""
    assert one.tables.keys() == other.tables.keys()
    return [name for name in one.tables if one.rows(name) != other.rows(name)]


@pytest.fixture(scope="module")
def place(plain: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `logs`, of which the archive was made in three runs while they grew."""
    from lag.source.data_source import QuorumLogSource

    plain.dataSource.register(QuorumLogSource)
    folder = tmp_path_factory.mktemp("archived")
    rng = random.Random(SEED)
    copies = RandomQuorum(SEED).copies(NODES)
    for copy in copies:
        copy.divide(rng, BATCHES_OF_A_SEGMENT)
    for share in (0.4, 0.7, 1):
        write_up_to(copies, share, folder / "logs")
        archive(plain, folder / "logs", folder / "archive")
    return folder


@pytest.fixture(scope="module")
def reports(plain: Any, place: Path) -> tuple[Results, Results]:
    """The report of the whole logs, and that of the cut logs and their archive."""
    paths = (str(place / "logs"),)
    whole = collected(plain, ReportRequest(paths=paths))
    shutil.copytree(place / "logs", place / "whole")
    cut(place / "logs", random.Random(SEED))
    archived = ReportRequest(paths=paths, archive=str(place / "archive"))
    return whole, collected(plain, archived)


@pytest.mark.long
def test_the_report_of_cut_logs_and_their_archive_is_that_of_the_whole_logs(
    reports: tuple[Results, Results],
) -> None:
    whole, archived = reports
    assert differences(archived, whole) == []
    assert (archived.since_ms, archived.until_ms) == (whole.since_ms, whole.until_ms)


@pytest.mark.long
def test_the_page_is_the_same_but_for_the_paths(reports: tuple[Results, Results]) -> None:
    one, other = (PATHS.sub("", page(each)) for each in reports)
    assert one == other


@pytest.mark.long
def test_a_part_of_the_time_is_reported_on_without_naming_the_logs(
    plain: Any, place: Path, reports: tuple[Results, Results]
) -> None:
    since_ms = (reports[0].since_ms + reports[0].until_ms) // 2
    until_ms = since_ms + 60_000
    whole, archived = (
        collected(plain, ReportRequest(since_ms=since_ms, until_ms=until_ms, **more))
        for more in (
            {"paths": (str(place / "whole"),)},
            {"paths": (), "archive": str(place / "archive")},
        )
    )
    # The folders of the other logs are not where those of the archive were.
    assert set(differences(archived, whole)) <= {"replicas", "problems"}
    assert len(archived.rows("problems")) == len(whole.rows("problems"))


def test_logs_of_another_cluster_are_refused(plain: Any, tmp_path: Path) -> None:
    from tests.lag.copied_logs import copy_of

    copy_of(tmp_path / "kafka", 1)
    archive(plain, tmp_path / "kafka", tmp_path / "archive")
    (other,) = RandomQuorum(SEED).copies([1])
    other.segments, other.meta = [other.batches], {"cluster.id": "other"}
    other.write(tmp_path / "logs")
    said = r"of the cluster 4L6g3nShT-eMCtK--X86sw, and the logs .*/logs.* are of the cluster other"
    with pytest.raises(InvalidInput, match=said):
        archive(plain, tmp_path / "logs", tmp_path / "archive")
    logs = (str(tmp_path / "logs"),)
    with pytest.raises(InvalidInput, match=said):
        collected(plain, ReportRequest(paths=logs, archive=str(tmp_path / "archive")))
