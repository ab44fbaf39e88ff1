"""Parameters of a test of which `make quick` runs only a few; `make test` runs all."""

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet


def few_in_quick(values: Iterable[object], *, every: int) -> list[ParameterSet]:
    """All `values`; those between every n-th one are marked as thorough."""
    return [
        pytest.param(value, marks=() if place % every == 0 else pytest.mark.thorough)
        for place, value in enumerate(values)
    ]
