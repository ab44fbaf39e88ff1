"""The files that each release has left on disk are read by this one.

`tests/data/formats/X` has the folders of a controller and of a broker that metaquorum X wrote: a
topic `orders` of three partitions and a topic `later`, a user `ann`, a snapshot in between. A
release adds its own, and the older ones stay as long as docs/upgrading.md promises to read them.
"""

import json
import random
import shutil
from pathlib import Path

import pytest

from admin.cli.profile_file import Profiles
from admin.http import tokens
from admin.tools.adopt.source import read_history, refusals, take
from admin.tools.local_plan import Wanted, settle
from broker.storage.log_dir import read_topic_id, take_clean_shutdown
from broker.storage.partition_log import open_log
from quorum.log.append_times import append_times
from quorum.log.meta_properties import next_boot
from quorum.log.quorum_state import QuorumStateFile
from statemachine.image.image import Image
from tests.support.tree import ROOT

RELEASES = sorted((ROOT / "tests" / "data" / "formats").iterdir())


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what a release has left."""
    return Path(shutil.copytree(request.param, tmp_path / "release"))


def test_the_log_of_a_controller_is_read(release: Path) -> None:
    folder = release / "controller"
    source = take(folder, release / "copy")
    history = read_history(source.log_folder, source.checkpoint)
    image: Image = history.image
    assert {each.name: len(each.partitions) for each in image.topics.values()} == {
        "orders": 3,
        "later": 1,
    }
    assert [name for name, _ in image.scram_credentials] == ["ann"]
    assert refusals(history) == []
    log = folder / "__cluster_metadata-0"
    assert QuorumStateFile(log).read().epoch > 0
    (index,) = log.glob("*.appendtime")
    assert all(each.time_ms for each in append_times(index))
    assert next_boot(folder, 1) > 1_000_000_000_000


def test_the_files_of_a_broker_are_read(release: Path) -> None:
    folder = release / "broker"
    assert take_clean_shutdown(folder) > 0
    (partition,) = folder.glob("orders-*")
    assert read_topic_id(partition) is not None
    assert open_log(partition, segment_bytes_max=1 << 20).log.end.offset == 2


def test_the_small_files_are_read(release: Path) -> None:
    plan = settle(release, Wanted(), random.Random(1))
    assert [each.name for each in plan.nodes][:1] == ["controller-1"]
    assert Profiles(release / "profiles.toml").get("prod")["output"] == "json"
    found, invalid = tokens.read(release / "tokens")
    assert [each.name for each in found] == ["ci"]
    assert not invalid
    assert json.loads((release / "local.json").read_text())["format"] == 1
