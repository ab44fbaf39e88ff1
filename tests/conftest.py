"""Fixtures of every test: the transcripts, and the settings of hypothesis.

It never holds fixtures of a single package; those live beside the tests that use them.
"""

import gc
import os
from asyncio import BaseEventLoop
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

# Until all tests are collected: next to nothing of them is ever garbage.
gc.disable()

pytest.register_assert_rewrite("tests.support")

# E402 would be right elsewhere: the assertions of a module are rewritten before its import.
from tests.support.child_environment import hide_hypothesis  # noqa: E402
from tests.support.transcript import Transcripts  # noqa: E402

# A machine that others share makes any deadline fail now and then. What CI refuses, it refuses
# again: there every run draws the same examples, elsewhere each run looks at new ones.
settings.register_profile("house", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.register_profile("quick", settings.get_profile("house"), max_examples=10)
settings.load_profile("house")

# With `PYTHONDEVMODE=1 make quick`, what the tests start still runs as at its users'.
os.environ.pop("PYTHONDEVMODE", None)
# A worker of pytest-xdist has 80 columns, and the commands of the tests would wrap their tables.
os.environ.pop("COLUMNS", None)

ON_SPARK: Final = tuple(
    f"tests/lag/{each}" for each in ("archive/", "reports/", "source/", "twins/", "test_report_of_")
)
"""Where the tests are that use one Spark session."""

ON_KAFKA: Final = "tests/process/test_kafka_"
"""The modules that start brokers or controllers of Kafka."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rewrite`, which `make golden` passes, and the options of other targets."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="run only the tests that compare recorded files, and record those anew",
    )
    parser.addoption(
        "--controller-kills",
        type=int,
        default=4,
        help="how often the active controller is killed while 200 partitions move",
    )
    parser.addoption(
        "--authorizer-requests",
        type=int,
        default=2_000,
        help="how many decisions are compared with those of Kafka's authorizer",
    )


class _ByModule(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A module stays in one worker, and so do all that share a Spark session: a second costs more
    processor time than many of their tests. So do those with clusters of Kafka: on two cores, two
    of them at a time would fence each other's brokers."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ON_SPARK):
            return "spark"
        if nodeid.startswith(ON_KAFKA):
            return "kafka"
        return str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Distribute the tests as `_ByModule` says."""
    return _ByModule(config, log)


def pytest_collection_finish() -> None:
    """Keep collections from looking at thousands of tests each time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest: Spark, Kafka, the modules that start processes, many seeds.

    Under `--rewrite`, leave out every test that records nothing.
    """
    for item in items:
        # A session of Spark is a process of Java, and workers beside it.
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("process")
    marked = {
        name: {item.path for item in items if item.get_closest_marker(name)}
        for name in ("process", "thorough")
    }
    items.sort(
        key=lambda item: (
            not item.nodeid.startswith(ON_SPARK),
            not item.nodeid.startswith(ON_KAFKA),
            *(item.path not in paths for paths in marked.values()),
        )
    )
    if not config.getoption("--rewrite"):
        return
    recording = [item for item in items if "rewrite" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in recording])
    items[:] = recording


@pytest.fixture(scope="session", autouse=True)
def _children_find_what_users_have() -> Iterator[None]:
    # In a fixture, for the workers of xdist are children as well, and run tests.
    with pytest.MonkeyPatch.context() as patch:
        hide_hypothesis(patch)
        yield


def _only_in_its_thread(name: str) -> Any:
    """The method of asyncio's loops, refusing other threads as it would in debug mode alone."""
    method = getattr(BaseEventLoop, name)

    def checked(loop: Any, *args: Any, **keywords: Any) -> Any:
        loop._check_thread()
        return method(loop, *args, **keywords)

    return checked


@pytest.fixture(scope="session", autouse=True)
def _loops_belong_to_threads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("call_soon", "call_at"):
            patch.setattr(BaseEventLoop, name, _only_in_its_thread(name))
        yield


@pytest.fixture(autouse=True)
def _no_certificates_of_other_tests() -> None:
    # Health shows the certificates of its process, and the tests of a worker share one. A fault is
    # planted in the product before its first import, which is why this file does not import it.
    from quorum.transport.security.validity import WARNINGS

    WARNINGS.forget()


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """True if recorded files are to be written instead of compared."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def controller_kills(request: pytest.FixtureRequest) -> int:
    """The number of controller kills during the large move."""
    return int(request.config.getoption("--controller-kills"))


@pytest.fixture
def authorizer_requests(request: pytest.FixtureRequest) -> int:
    """The number of decisions to compare with those of Kafka's authorizer."""
    return int(request.config.getoption("--authorizer-requests"))


@pytest.fixture
def transcripts(rewrite: bool) -> Transcripts:
    """The transcripts of the suite, tests/transcripts/*.txt."""
    return Transcripts(Path(__file__).parent / "transcripts", rewrite=rewrite)
