"""A mutant: one planted fault, put into a program before the product is imported.

It replaces a piece of text in the source of one module while that module is imported. The text
must be there exactly once: a mutant that no longer applies is an error and not a silent success.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Final

TRANSCRIPTS: Final = (
    "tests/quorum/core/test_quorum_transcripts.py::"
    "test_the_quorum_tells_the_story_as_it_is_recorded"
)
STORIES_OF_MOVES: Final = (
    "tests/statemachine/reassignment/test_moves_transcripts.py::"
    "test_a_partition_tells_the_story_as_it_is_recorded"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault to plant."""

    name: str
    """The fault in words."""
    module: str
    old: str
    """A piece of its source that is there exactly once."""
    new: str
    caught_by: tuple[str, ...]
    """The invariants of which one must fail in some seed."""
    directed: str
    """The test that shows it at once: a transcript (of the quorum, or one of moves, whose names say
    so), or a test by path and name."""

    seed: int = 0
    """One that caught it when this was written, to be tried first by those who are in a hurry."""
    log_seed: int = 0
    """The same of random logs that are decided without any process."""
    kind: str = "quorum"
    """Of what the seeds are runs: quorums, or whole clusters."""
    is_checked: bool = False
    """Whether the product would notice by itself: its own checks are then put out of the way."""
    unseen: str = ""
    """Why no seed can catch it, where that is so: then nothing is expected of `caught_by`."""

    def __str__(self) -> str:
        return self.name

    @property
    def test_arguments(self) -> list[str]:
        """The directed test, for pytest."""
        if "/" in self.directed:
            return [self.directed]
        told = STORIES_OF_MOVES if self.directed.startswith("moves_") else TRANSCRIPTS
        return [f"{told}[{self.directed}]"]

    def planted_in(self, source: str) -> str:
        """The source with the fault. Raises `DoesNotApply`."""
        found = source.count(self.old)
        if found != 1:
            raise DoesNotApply(self, found)
        return source.replace(self.old, self.new)


class DoesNotApply(Exception):
    """The text that a mutant replaces is not, or not only, where it was."""

    def __init__(self, mutant: Mutant, found: int) -> None:
        super().__init__(
            f'the mutant "{mutant}" does not apply: its text is {found} times in {mutant.module}, '
            f"and must be there once. Say in chaos/mutants what is to be replaced:\n{mutant.old}"
        )


class _Loader(SourceFileLoader):
    """Compiles one module from its source with the fault, past every cache."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path).decode("utf-8")
        return compile(self._mutant.planted_in(source), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the one module, and leaves all others to those who come after."""

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
    """Let this process run the product with the fault; nothing of that module is imported yet."""
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    sys.meta_path.insert(0, _Finder(mutant))


def disable_product_checks() -> None:
    """Disable the product's own assertions about decisions, so that the checkers must notice."""
    # Not at the top: a fault is planted before anything of the product is imported.
    from statemachine.partitions import change_builder
    from statemachine.pending_decision import PendingDecision

    setattr(change_builder, "check_invariants", lambda *_, **__: None)  # noqa: B010
    setattr(PendingDecision, "check_epoch", lambda _: None)  # noqa: B010
