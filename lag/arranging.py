"""The rows of a result in the order that people expect, whoever made them."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def in_order(rows: "pa.Table", columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows, sorted by these columns: nothing before something, and numbers in names by their
    value, 2 before 10.

    There may be a million rows, and few names among them: each is looked at once.
    """
    import numpy as np

    # Of several keys numpy takes the last for the first.
    ranks = [_ranks(rows[column].combine_chunks()) for column in reversed(columns)]
    found: list[dict[str, Any]] = rows.take(np.lexsort(ranks)).to_pylist()
    return found


def _ranks(values: Any) -> Any:
    """Of each value a number that rises as they do."""
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_string(values.type):
        places = np.unique(values.fill_null(0).to_numpy(), return_inverse=True)[1]
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), places, -1)
    coded = values.dictionary_encode()
    names = coded.dictionary.to_pylist()
    rank_of = np.empty(len(names) + 1, np.int64)
    rank_of[sorted(range(len(names)), key=lambda at: _by_numbers(names[at]))] = range(len(names))
    rank_of[len(names)] = -1
    return rank_of[coded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]


def _by_numbers(name: str) -> tuple[Any, ...]:
    pieces = re.split(r"([0-9]+)", name)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pieces if p], name
