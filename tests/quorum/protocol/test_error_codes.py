"""One table of error codes: the packages that may not import it agree with it."""

from enum import Enum

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from quorum.core.messages import Error as RaftError
from quorum.protocol.errors import ErrorCode, error_name
from statemachine.errors import Error as CommandError


def test_the_table_is_that_of_kafka() -> None:
    assert {e.name: e.value for e in ErrorCode} == {e.name.upper(): e.value for e in KioErrorCode}


@pytest.mark.parametrize("errors", [RaftError, CommandError])
def test_an_enum_of_a_package_that_may_not_import_the_table_agrees_with_it(
    errors: type[Enum],
) -> None:
    assert all(ErrorCode[error.name].value == error.value for error in errors)


def test_an_unknown_code_is_named_by_its_number() -> None:
    assert error_name(ErrorCode.NOT_CONTROLLER) == str(ErrorCode.NOT_CONTROLLER) == "NOT_CONTROLLER"
    assert error_name(31_000) == "error 31000"
