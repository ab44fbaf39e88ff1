"""Every enum of error codes agrees with Kafka's table."""

from enum import Enum

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from quorum.core.messages import Error as RaftError
from quorum.protocol.errors import ErrorCode, error_name
from statemachine.errors import Error as CommandError


@pytest.mark.parametrize("errors", [ErrorCode, RaftError, CommandError])
def test_the_codes_have_kafkas_numbers(errors: type[Enum]) -> None:
    assert all(KioErrorCode[error.name.lower()].value == error.value for error in errors)


def test_an_unknown_code_is_named_by_its_number() -> None:
    assert error_name(ErrorCode.NOT_CONTROLLER) == str(ErrorCode.NOT_CONTROLLER) == "NOT_CONTROLLER"
    assert error_name(31_000) == "error 31000"
