"""Differences between the rows of a report and those of its twin, by column."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Rows = Iterable[Mapping[str, Any]]


def differences(report: Rows, twin: Rows, *key: str, without: Sequence[str] = ()) -> list[str]:
    """A line for each row that only one of them has, and for each column that differs.

    The names of holes are not compared.
    """
    told = {tuple(row[name] for name in key): row for row in report}
    known = {tuple(row[name] for name in key): row for row in twin}
    found = [f"{key} of {each}: only the report has it" for each in told if each not in known]
    found += [f"{key} of {each}: only the twin has it" for each in known if each not in told]
    for each in told.keys() & known.keys():
        names = (told[each].keys() | known[each].keys()) - {*without, "hole"}
        found += [
            f"{key} of {each}: {name} is {told[each].get(name)!r}, and {known[each].get(name)!r}"
            " to the twin"
            for name in sorted(names)
            if (name in told[each], told[each].get(name))
            != (name in known[each], known[each].get(name))
        ]
    return found
