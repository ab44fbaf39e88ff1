"""A reader's state machine under simulation: the counter of docs/embedding.md, sound and broken.

Each mistake of a reader is one clear sentence.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from chaos.cli import main
from chaos.outcome import Failure, run
from chaos.simulation.own_machine import machine_class
from chaos.simulation.profile import Profile
from quorum.snapshotting import SnapshotLimits
from tests.process.counter_processes import PAGE, listing

TESTED: Final = re.compile(r"<!-- counter_chaos\.py -->\n```python\n(.*?)```\n", re.DOTALL)
SEEDS: Final = 10
ONCE: Final = "if int(number) > self.last.get(client, 0):"

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the reader's two files, with changes, into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    machine_class.cache_clear()
    for name in ("counter", "counter_chaos"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def written(old: str = "", new: str = "", *, chaos: tuple[str, str] = ("", "")) -> str:
        (tested,) = TESTED.findall(PAGE.read_text(encoding="utf-8"))
        # In the tree the package is top-level.
        counter = listing().replace("from metaquorum.quorum", "from quorum")
        assert old in counter
        assert chaos[0] in tested
        (tmp_path / "counter.py").write_text(counter.replace(old, new), encoding="utf-8")
        (tmp_path / "counter_chaos.py").write_text(tested.replace(*chaos), encoding="utf-8")
        return "counter_chaos:TestedCounter"

    return written


def first_failure(machine: str) -> Failure:
    """The first failure of seeds that take a snapshot every few records, and load it in the end."""
    for seed in range(SEEDS):
        drawn = Profile.drawn(seed)
        profile = replace(drawn, machine=machine, snapshots=SnapshotLimits(bytes_between=200))
        failure = run(profile, recorded=True).failure
        if failure is not None and failure.rule != "harness":
            return failure
    raise AssertionError(f"no seed below {SEEDS} fails")


def sim(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sim", "--jobs", "1", *arguments])


def test_the_reader_writes_thirty_lines_at_most(write: Write) -> None:
    write()
    lines = Path("counter_chaos.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) <= 30


def test_the_counter_of_the_page_withstands_faults(write: Write) -> None:
    told = sim("--machine", write(), "--seeds", "2")
    assert told.exit_code == 0, told.output
    assert "0 failed" in told.output


def test_a_counter_that_counts_twice_breaks_its_own_invariant(write: Write) -> None:
    failure = first_failure(write(ONCE, "if True:"))
    assert failure.rule == "M3"
    assert "were counted, but" in failure.text
    assert "after the record client-" in failure.text


def test_a_snapshot_that_forgets_makes_replicas_differ(write: Write) -> None:
    lossy = write('*(b"%s %d" % each for each in self.last.items())', "")
    failure = first_failure(lossy)
    assert failure.rule in ("M1", "M3")
    assert failure.story is not None
    assert "loads the snapshot" in str(failure.story)


def test_a_snapshot_that_is_read_wrongly_is_found_at_once(write: Write) -> None:
    failure = first_failure(write("= int(total), {", "= int(total) + 1, {"))
    assert failure.rule == "M2"
    assert "restored from" in failure.text


def test_an_apply_that_raises_is_told_with_the_record(write: Write) -> None:
    raising = write("return self.total\n", "return 1 // (self.total % 7)\n")
    failure = first_failure(raising)
    assert failure.rule == "M4"
    assert "apply raises ZeroDivisionError" in failure.text


def test_a_machine_that_reads_the_clock_is_not_deterministic(write: Write) -> None:
    clocked = write("int(amount)\n", "time.time_ns() // 100 % 2\n")
    path = Path("counter.py")
    path.write_text(f"import time\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    told = sim("--machine", clocked, "--seeds", "1")
    assert told.exit_code == 2
    assert "TestedCounter is not deterministic: two processes" in told.output


def test_the_order_of_a_set_is_no_order(write: Write) -> None:
    told = sim("--machine", write("in self.last.items())]", "in {*self.last.items()})]"))
    assert told.exit_code == 2
    assert "not deterministic" in told.output


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("counter", "counter is not package.module:Class"),
        ("no_such_module:Counter", "there is no module no_such_module in "),
        ("counter:Countr", "module counter has no class Countr; it has Path, Counter"),
        ("counter:Counter", "Counter has no method draw(rng, number); docs/embedding.md"),
        ("counter:Path", "Path has no method apply(record)"),
    ],
)
def test_a_wrong_name_is_one_sentence(write: Write, name: str, why: str) -> None:
    write()
    told = sim("--machine", name)
    assert told.exit_code == 2
    assert f"Error: --machine: {why}" in told.output


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (("def check", "raise KeyError(5)\n    def check"), "the import of counter_chaos raises"),
        (('return b"', 'return "'), "TestedCounter.draw returns str; a record is"),
        (("def draw(rng, number)", "def draw(rng)"), "TestedCounter.draw raises TypeError"),
        (
            ("    @staticmethod", "    def __init__(self, size): pass\n    @staticmethod"),
            "TestedCounter() raises TypeError",
        ),
    ],
)
def test_a_machine_that_cannot_be_used_is_one_sentence(
    write: Write, broken: tuple[str, str], why: str
) -> None:
    told = sim("--machine", write(chaos=broken))
    assert told.exit_code == 2
    assert why in told.output
