import logging

import pytest


@pytest.fixture
def no_lines_of_kafka_python(caplog: pytest.LogCaptureFixture) -> None:
    """They would keep its failed sockets for a later test to find."""
    caplog.set_level(logging.CRITICAL, logger="kafka")
