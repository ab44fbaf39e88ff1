"""A state machine of the user's under simulation: loaded by name, driven, and checked.

Each replica has a machine of its own; one more applies the committed records as the checkers have
counted them. All must be in the same state at the same offset, as their snapshots show it.
"""

import importlib
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from chaos.invariants.disk_format import StoredBatch, records
from chaos.invariants.history import History
from chaos.violation import Violation
from quorum.embedding import RECORD_BYTES_MAX, Machine

METHODS: Final = {
    "apply": "apply(record)",
    "snapshot": "snapshot()",
    "load_snapshot": "load_snapshot(records)",
    "draw": "draw(rng, number)",
}
PAGE: Final = "docs/embedding.md has an example"
SENT_AGAIN: Final = 4
"""One draw in so many is a record of before, as of a client that had no answer."""
REMEMBERED: Final = 8


class OwnMachine(Machine, Protocol):
    """A state machine as `quorum.embedding` takes it, with a workload and invariants of its own.

    `check` is optional.
    """

    def draw(self, rng: random.Random, number: int) -> bytes:
        """Return the next record that a client proposes; `number` counts them from 1.

        Everything random comes from `rng`. A static method will do.
        """
        ...

    def check(self) -> str | None:
        """Return what is wrong with the state, or None; called after each applied record."""
        ...


class NoMachine(ValueError):
    """The named class is not there or is no state machine; the message is one sentence."""


@cache
def machine_class(name: str) -> type[OwnMachine]:
    """The class that `package.module:Class` names, searched from the working directory on.

    Raises `NoMachine`.
    """
    module_name, colon, class_name = name.partition(":")
    if not (module_name and colon and class_name):
        raise NoMachine(f"{name} is not package.module:Class")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name == module_name.partition(".")[0] or missing.name == module_name:
            raise NoMachine(f"there is no module {module_name} in {Path.cwd()}") from None
        raise NoMachine(f"module {module_name} needs {missing.name}, which is not there") from None
    except Exception as error:
        raise NoMachine(f"the import of {module_name} raises {_shown(error)}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [each for each, value in vars(module).items() if isinstance(value, type)]
        has = f"; it has {', '.join(classes)}" if classes else ""
        raise NoMachine(f"module {module_name} has no class {class_name}{has}")
    for method, call in METHODS.items():
        if not callable(getattr(found, method, None)):
            raise NoMachine(f"{class_name} has no method {call}; {PAGE}")
    try:
        found()
    except Exception as error:
        raise NoMachine(f"{class_name}() raises {_shown(error)}; it takes no arguments") from error
    return found


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class State(NamedTuple):
    """The state of a machine, as the records of its snapshot."""

    values: tuple[bytes, ...]

    def __str__(self) -> str:
        return " | ".join(record_text(each) for each in self.values)


def record_text(record: bytes) -> str:
    """A record of the user's, in a line of a story."""
    text = record.decode("utf-8", "backslashreplace") if record else "(empty)"
    return text if len(text) <= 60 else f"{text[:57]}..."


class CheckedMachine:
    """One machine; what it does wrong is a violation. It stands where `Ledger` does."""

    is_open = False

    def __init__(self, name: str) -> None:
        self._own = machine_class(name)()
        self._name = name.rpartition(":")[2]

    @property
    def state(self) -> State:
        """Its state, for the checkers."""
        return State(tuple(each for group in self.snapshot() for each in group))

    def apply(self, record: bytes) -> Any:
        """See `quorum.embedding.Machine`."""
        try:
            result = self._own.apply(record)
            check = getattr(self._own, "check", None)
            wrong = check() if check is not None else None
        except AssertionError as error:
            wrong = str(error) or "an assertion fails"
        except Exception as error:
            raise Violation(
                "M4",
                f"{self._name}.apply raises {_shown(error)} at the record {record_text(record)}",
            ) from error
        if wrong is not None:
            raise Violation("M3", f"{wrong}, after the record {record_text(record)}: {self.state}")
        return result

    def snapshot(self) -> Iterator[Sequence[bytes]]:
        """See `quorum.embedding.Machine`."""
        try:
            for group in self._own.snapshot():
                yield [bytes(each) for each in group]
        except Exception as error:
            raise Violation("M4", f"{self._name}.snapshot raises {_shown(error)}") from error

    def load_snapshot(self, records: Iterable[bytes]) -> None:
        """See `quorum.embedding.Machine`."""
        values = [*records]
        try:
            self._own.load_snapshot(values)
        except Exception as error:
            raise Violation("M4", f"{self._name}.load_snapshot raises {_shown(error)}") from error
        if self.state.values != tuple(values):
            raise Violation(
                "M2", f"a machine restored from {State(tuple(values))} has the state {self.state}"
            )


class OwnMachineHistory(History):
    """The committed log, folded by one more machine."""

    state_rule = "M1"

    def __init__(self, name: str) -> None:
        super().__init__()
        self._machine = CheckedMachine(name)
        self._first = self._machine.state

    def state_at(self, offset: int) -> Any:
        """See `History`."""
        return super().state_at(offset) if offset else self._first

    def contradiction(self, end: int, values: list[bytes]) -> tuple[str, str] | None:
        """See `History`."""
        state = self.state_at(end)
        now = State(tuple(values))
        return None if now == state else ("M1", f"with {now}, not {state}")

    def _state_after(self, batch: StoredBatch) -> State:
        if not batch.is_control:
            for _, value in records(batch.data):
                self._machine.apply(value)
        return self._machine.state


class OwnClient:
    """The clients of a machine: they draw records, and send some again."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self._draw = machine_class(name)().draw
        self._name = name.rpartition(":")[2]
        self._rng = rng
        self._sent: list[bytes] = []
        self._drawn = 0

    def records(self, count: int) -> list[bytes]:
        """So many records to propose."""
        return [self._next() for _ in range(count)]

    def _next(self) -> bytes:
        if self._sent and self._rng.randrange(SENT_AGAIN) == 0:
            return self._sent[self._rng.randrange(len(self._sent))]
        self._drawn += 1
        record = drawn(self._draw, self._name, self._rng, self._drawn)
        self._sent = [*self._sent[1 - REMEMBERED :], record]
        return record


def drawn(draw: Any, name: str, rng: random.Random, number: int) -> bytes:
    """Draw one record; raises `NoMachine` if the method does not give one."""
    try:
        record = draw(rng, number)
    except Exception as error:
        raise NoMachine(f"{name}.draw raises {_shown(error)}") from error
    if not isinstance(record, bytes) or len(record) > RECORD_BYTES_MAX:
        what = type(record).__name__ if not isinstance(record, bytes) else f"{len(record)} bytes"
        raise NoMachine(f"{name}.draw returns {what}; a record is at most {RECORD_BYTES_MAX} bytes")
    return record
