"""Parameters and examples of a test of which `make quick` runs only a few; `make test` runs all."""

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings


def few_in_quick(values: Iterable[object], *, every: int) -> list[ParameterSet]:
    """All `values`; those between every n-th one are marked as thorough."""
    return [
        pytest.param(value, marks=() if place % every == 0 else pytest.mark.thorough)
        for place, value in enumerate(values)
    ]


def at_most_in_quick(examples: int) -> int:
    """The number of examples of a test; in the profile of `make quick` at most the profile's own.

    A number that a test sets itself would hold in every profile.
    """
    if settings.get_current_profile_name() == "quick":
        return min(examples, settings().max_examples)
    return examples
