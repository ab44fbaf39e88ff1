"""Random records: every field of Kafka's schemas and ours, as each version allows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from hypothesis import strategies as st
from msgspec import Struct

from statemachine.records import kafka_records
from tests.statemachine.support.kafka_schemas import NESTED, Row

IDS = st.lists(st.integers(-1, 2**31 - 1), max_size=5).map(tuple)
MANY_IDS = st.one_of(IDS, st.lists(st.integers(0, 2**31 - 1), min_size=30, max_size=140).map(tuple))
UUIDS = st.one_of(st.just(UUID(int=0)), st.uuids())
TEXT = st.text(max_size=40)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.one_of(TEXT, st.just("x" * 200)),
    "bytes": st.binary(max_size=200),
    "uuid": UUIDS,
}


def values_of(kafka_type: str) -> st.SearchStrategy[Any]:
    """Values of a field."""
    plain = kafka_type.removesuffix("?")
    item = plain.removeprefix("[]")
    if plain == "[]int32":
        found: st.SearchStrategy[Any] = MANY_IDS
    elif plain == "[]uuid":
        found = st.one_of(
            st.lists(UUIDS, max_size=4).map(tuple),
            st.lists(UUIDS, min_size=31, max_size=40).map(tuple),
        )
    elif item in NESTED:
        found = st.lists(struct_of(*NESTED[item]), max_size=3).map(tuple)
    elif plain.startswith("[]"):
        found = st.lists(VALUES[item], max_size=3).map(tuple)
    else:
        found = VALUES[item]
    return st.one_of(st.none(), found) if kafka_type.endswith("?") else found


def struct_of(
    shape: type[Struct],
    rows: list[Row],
    version: int = 2,
    known: Mapping[str, st.SearchStrategy[Any]] = MappingProxyType({}),
) -> st.SearchStrategy[Any]:
    """Values of a record or nested structure, with what this version can say.

    Fields that are `known` have these values, whatever the rows say of them.
    """
    fields = {}
    for row in rows:
        if row[0] in known or (len(row) > 2 and row[2] > version):
            continue
        fields[row[0]] = values_of(row[1])
    if shape is kafka_records.PartitionChange:
        # Leader -2 and recovery -1 are how the wire says "unchanged".
        fields["leader"] = st.one_of(st.none(), st.integers(-1, 2**31 - 1))
        fields["recovery"] = st.one_of(st.none(), st.integers(0, 127))
    return st.builds(shape, **{**fields, **known})
