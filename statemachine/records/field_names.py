"""Records under Kafka's field names, as Kafka's own tools print them.

A field appears if the version of the record has it, and a tagged field only if it is set.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from statemachine.records import kafka_records, own_records
from statemachine.records.codec import KAFKA_RECORDS, plan_of
from statemachine.records.primitives import Field, schema_of

REDACTED: Final = "(redacted)"
"""Stands for a secret, as in the lines that Kafka logs."""


def as_kafka(record: kafka_records.Record, version: int) -> dict[str, Any]:
    """Return the fields in this version of the record, by Kafka's names, in Kafka's order.

    Ids and bytes stay unchanged; tuples become lists, and nested structures dictionaries. Secrets
    are not shown.
    """
    # To Kafka, a record of this project is an empty NoOp.
    fields = () if isinstance(record, own_records.OurRecord) else schema_of(type(record))
    kafkas = [field for field in fields if field.since <= version and not _is_ours(field)]
    return _named(record, kafkas)


def ours(record: kafka_records.Record) -> dict[str, Any]:
    """Return the set fields that this project has added, which Kafka skips.

    A record that Kafka does not have is one field with the name of the record.
    """
    shape = type(record)
    if isinstance(record, kafka_records.Unknown):
        return {}
    if not isinstance(record, own_records.OurRecord):
        return _named(record, [field for field in schema_of(shape) if _is_ours(field)])
    said = _named(
        record, sorted(schema_of(shape), key=lambda field: -1 if field.tag is None else field.tag)
    )
    if isinstance(record, own_records.MovePart):
        said["plan"] = _plain(plan_of(record.plan))
    return {f"{shape.__name__[0].lower()}{shape.__name__[1:]}": said}


def _is_ours(field: Field) -> bool:
    return field.tag is not None and field.tag >= kafka_records.OURS_FROM


def _named(value: Struct, fields: Sequence[Field]) -> dict[str, Any]:
    return {
        field.name: REDACTED if field.is_secret else _plain(content)
        for field in fields
        if (content := getattr(value, field.attribute)) != field.default or field.tag is None
    }


def _plain(content: Any) -> Any:
    match content:
        case tuple():
            return [_plain(item) for item in content]
        case Struct():
            return _named(content, schema_of(type(content)))
        case _:
            return content


def _type_name(shape: type) -> str:
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in shape.__name__)
    return f"{words[1:].upper()}_RECORD"


TYPE_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {api_key: _type_name(shape) for api_key, shape in KAFKA_RECORDS.items()}
)
"""Kafka's names of the known record types, by number."""
