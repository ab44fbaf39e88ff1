"""Many records as columns: each thing that is said is decoded once, however often it is said.

A million changes of partitions say the same few things of other partitions. What follows the number
and the topic of the partition is looked up among what was decoded before; the columns are then
taken from what is different, and the numbers and topics are read all at once.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lag.source.record_fields import Typed, json_of, typed_control, typed_data
from lag.tables import ARROW_TYPES, Table
from quorum.core.vocabulary import uuid_to_text
from statemachine.records.codec import CHANGE_FRAMES, CHANGE_HEAD_BYTES, TOPIC_ID_BYTES
from statemachine.records.primitives import uuid_of
from statemachine.records.shapes import PARTITION_FRAMES

_FRAMES: Final = frozenset((*CHANGE_FRAMES, *PARTITION_FRAMES))
_FRAME_BYTES: Final = 3
_NUMBER_END: Final = CHANGE_HEAD_BYTES - TOPIC_ID_BYTES
_NOWHERE: Final = -1


class RecordColumns:
    """What records say, gathered one after the other, and then taken as columns."""

    def __init__(self, json: str) -> None:
        """`json` is `true`, `few` or `false`, as the option."""
        self._json = json
        self._codes: list[int] = []
        """Of each record, its place in `_different`."""
        self._different: list[Typed] = []
        self._code_of: dict[bytes, int] = {}
        """By whole values,"""
        self._code_of_partition: dict[bytes, int] = {}
        """and of records about a partition by what stands around its number and topic."""
        self._heads: list[bytes] = []
        """The number of the partition of those records that are about one,"""
        self._topics: list[bytes] = []
        """and its topic."""
        self._places: list[int] = []
        """Which records these are."""
        self._whole: list[bytes | None] = []
        """Values, where each is to be shown as JSON."""

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, values: list[bytes]) -> None:
        """Take in the values of data records.

        This runs once a record, of which there are millions.
        """
        codes, of_partition, of_others = self._codes, self._code_of_partition, self._code_of
        if self._json == "true":
            self._whole += values
        for value in values:
            frame = value[:_FRAME_BYTES]
            if frame in _FRAMES and len(value) > CHANGE_HEAD_BYTES:
                said = frame + value[CHANGE_HEAD_BYTES:]
                code = of_partition.get(said)
                if code is None:
                    code = of_partition[said] = self._new(typed_data(value, with_json=False))
                self._places.append(len(codes))
                self._heads.append(value[_FRAME_BYTES:_NUMBER_END])
                self._topics.append(value[_NUMBER_END:CHANGE_HEAD_BYTES])
            else:
                code = of_others.get(value)
                if code is None:
                    typed = typed_data(value, with_json=self._json != "false")
                    code = of_others[value] = self._new(typed)
            codes.append(code)

    def add_other(self, key: bytes | None, value: bytes | None, *, control: bool) -> None:
        """Take in a record that is not as a controller writes data."""
        if not control and value is not None:
            self.add([value])
            return
        with_json = self._json != "false"
        if control:
            typed = typed_control(key, value, with_json=with_json)
        else:
            typed = typed_data(None, with_json=with_json)
        if self._json == "true":
            self._whole.append(None)
        self._codes.append(self._new(typed))

    def _new(self, typed: Typed) -> int:
        self._different.append(typed)
        return len(self._different) - 1

    def problems(self) -> list[tuple[int, str]]:
        """Which records are not understood, and why."""
        wrong = {code: each.problem for code, each in enumerate(self._different) if each.problem}
        if not wrong:
            return []
        return [(at, wrong[code]) for at, code in enumerate(self._codes) if code in wrong]

    def said(self) -> tuple[Any, list[dict[str, Any]]]:
        """Of each record its place (`numpy.ndarray`) in what is said, each thing once."""
        return np.array(self._codes, np.int64), [typed.columns for typed in self._different]

    def columns(self, table: Table) -> dict[str, Callable[[], Any]]:
        """How to make each column of what the records say."""
        codes = pa.array(np.array(self._codes, np.int64))

        def taken(name: str, type_: str) -> Callable[[], Any]:
            def make() -> Any:
                found = [typed.columns.get(name) for typed in self._different]
                return pa.array(found, ARROW_TYPES[type_]).take(codes)

            return make

        made = {name: taken(name, type_) for name, type_, _ in table.columns}
        made["partition"] = self._partitions
        plain_topic, plain_json = taken("topic_id", "STRING"), taken("json", "STRING")
        made["topic_id"] = lambda: self._topic_ids(plain_topic())
        if self._json == "true":
            made["json"] = lambda: self._all_json(plain_json())
        return made

    def _partitions(self) -> Any:
        numbers = np.zeros(len(self), np.int32)
        unknown = np.ones(len(self), np.bool_)
        numbers[self._places] = np.frombuffer(b"".join(self._heads), ">i4")
        unknown[self._places] = False
        return pa.array(numbers, pa.int32(), mask=unknown)

    def _topic_ids(self, others: Any) -> Any:
        """The ids of topics: those of partitions from their heads, `others` elsewhere."""
        if not self._places:
            return others
        names: dict[bytes, int] = {}
        places = [names.setdefault(raw, len(names)) for raw in self._topics]
        texts = pa.array([uuid_to_text(uuid_of(raw)) for raw in names], pa.string())
        if len(places) == len(self):
            return texts.take(pa.array(places))
        where = np.full(len(self), _NOWHERE, np.int64)
        where[self._places] = places
        found = texts.take(pa.array(where, mask=where == _NOWHERE))
        return pc.coalesce(found, others)

    def _all_json(self, few: Any) -> Any:
        whole = self._whole
        shown = few.to_pylist()
        for at in self._places:
            value = whole[at]
            if value is not None and self._different[self._codes[at]].problem is None:
                shown[at] = json_of(value)
        return pa.array(shown, pa.string())
