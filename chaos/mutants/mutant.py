"""A mutant: one fault, planted in the product during its import.

It replaces a piece of the source of one module while Python imports that module. The text must
occur exactly once: a mutant that no longer applies is an error and not a silent success.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Final

QUORUM_TRANSCRIPTS: Final = (
    "tests/quorum/core/test_quorum_transcripts.py::test_the_quorum_behaves_as_recorded"
)
MOVE_TRANSCRIPTS: Final = (
    "tests/statemachine/reassignment/test_moves_transcripts.py::test_partitions_move_as_recorded"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault to plant."""

    name: str
    """A description of the fault."""
    module: str
    old: str
    """A text that occurs exactly once in the source of the module."""
    new: str
    caught_by: tuple[str, ...]
    """The expected invariants: some seed must violate one of them."""
    directed: str
    """The test that detects the fault directly: the name of a transcript (`quorum_…` or `moves_…`),
    or the path and name of a test."""

    seed: int = 0
    """A seed that caught the fault before; quick runs try it first."""
    log_seed: int = 0
    """The same for random logs, which are decided without any process."""
    kind: str = "quorum"
    """The kind of run of the seeds, as in `chaos.simulation.named_profiles.drawn`."""
    is_checked: bool = False
    """True if the product detects the fault itself: the run then disables the product's checks."""
    unseen: str = ""
    """The reason why no seed can catch the fault; `caught_by` is then empty."""

    def __str__(self) -> str:
        return self.name

    @property
    def test_arguments(self) -> list[str]:
        """The directed test, for pytest."""
        if "/" in self.directed:
            return [self.directed]
        transcript_test = (
            MOVE_TRANSCRIPTS if self.directed.startswith("moves_") else QUORUM_TRANSCRIPTS
        )
        return [f"{transcript_test}[{self.directed}]"]

    def planted_in(self, source: str) -> str:
        """The source with the fault. Raises `DoesNotApply`."""
        found = source.count(self.old)
        if found != 1:
            raise DoesNotApply(self, found)
        return source.replace(self.old, self.new)


class DoesNotApply(Exception):
    """The text that a mutant replaces does not occur exactly once."""

    def __init__(self, mutant: Mutant, found: int) -> None:
        super().__init__(
            f'the mutant "{mutant}" does not apply: its text occurs {found} times in '
            f"{mutant.module}, and must occur once. Adapt `old` in chaos/mutants:\n{mutant.old}"
        )


class _Loader(SourceFileLoader):
    """Compile one module from its source with the fault; bypass every cache."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path).decode("utf-8")
        return compile(self._mutant.planted_in(source), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Find the module of the mutant, and leave all others to the next finders."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


def plant(mutant: Mutant) -> None:
    """Plant the fault in this process. The module must not be imported yet."""
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    sys.meta_path.insert(0, _Finder(mutant))


def disable_product_checks() -> None:
    """Disable the product's own assertions about decisions, so that the checkers must notice."""
    # Not at the top: the fault must be planted before the first import of the product.
    from statemachine.partitions import change_builder
    from statemachine.pending_decision import PendingDecision

    setattr(change_builder, "check_invariants", lambda *_, **__: None)  # noqa: B010
    setattr(PendingDecision, "check_epoch", lambda _: None)  # noqa: B010
