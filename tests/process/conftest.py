import logging
import os
from collections.abc import Iterator

import pytest

from tests.process.local_process import no_more_commands
from tests.support.kafka_tools import keep_classes_in


@pytest.fixture(scope="session", autouse=True)
def _one_copy_of_kafkas_classes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """For all processes of this run: those that xdist starts have their folders in one."""
    base = tmp_path_factory.getbasetemp()
    keep_classes_in((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kafka")


@pytest.fixture
def no_lines_of_kafka_python(caplog: pytest.LogCaptureFixture) -> None:
    """They would keep its failed sockets for a later test to find."""
    caplog.set_level(logging.CRITICAL, logger="kafka")


@pytest.fixture(scope="session", autouse=True)
def _commands_end_with_the_run() -> Iterator[None]:
    yield
    no_more_commands()
