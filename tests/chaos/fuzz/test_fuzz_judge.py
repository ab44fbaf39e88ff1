"""The judge of the fuzzer finds each kind of harm, and names the frame."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from chaos.fuzz.attack import Entry, Target, _read_until_closed, frames_of
from chaos.fuzz.cluster import Caller
from chaos.fuzz.frames import Frame, Frames, Kind
from chaos.fuzz.judge import GROWTH_BYTES_MAX, MIB, Culprits, NodeState, Observation, problems
from chaos.fuzz.witness import Probe
from tests.chaos.fuzz.test_fuzz_frames import orders

QUIET = "2026-01-01 00:00:00,000 WARNING kafka: closed the connection from 127.0.0.2:5: bad\n"
TRACE = (
    "2026-01-01 00:00:00,000 ERROR kafka: Vote v1 of 127.0.0.2:41000 failed\n"
    "Traceback (most recent call last):\n"
    "KeyError: 7\n"
)
NODE = NodeState("controller 1", 80 * MIB, 90 * MIB, QUIET)
FINE = Observation(
    caller=Caller.USER,
    nodes=[NODE],
    leader_before=(1, 4),
    leader_after=(1, 4),
    probes=[Probe("commit", 100, 12.0)],
    lost=(),
    written={},
)


@pytest.fixture(scope="module")
def frames() -> Frames:
    """The frames of a run against a controller."""
    return frames_of(orders(Target.CONTROLLER))


@pytest.fixture
def culprits(tmp_path: Path, frames: Frames) -> Culprits:
    """A journal with two connections."""
    journal = tmp_path / "journal"
    entries = [
        Entry("127.0.0.3:41000", (1, 2), was_closed=True),
        Entry("127.0.0.2:41000", (3, 4, 5), was_closed=True),
    ]
    journal.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in entries))
    return Culprits(journal, frames)


def test_a_run_without_harm_passes(culprits: Culprits) -> None:
    assert problems(FINE, culprits) == []


def test_a_stack_trace_is_found_with_the_frame_that_caused_it(
    culprits: Culprits, frames: Frames
) -> None:
    seen = replace(FINE, nodes=[replace(NODE, said=QUIET + TRACE + QUIET)])
    (problem,) = problems(seen, culprits)
    assert problem.startswith("controller 1: 2026-01-01 00:00:00,000 ERROR kafka: Vote v1")
    assert "KeyError: 7" in problem
    assert "frames 3 to 5" in problem
    assert str(frames.frame(5)) in problem


def test_an_error_without_a_trace_is_found(culprits: Culprits) -> None:
    said = "2026-01-01 00:00:00,000 ERROR driver: the disk is on fire\n"
    (problem,) = problems(replace(FINE, nodes=[replace(NODE, said=said)]), culprits)
    assert "on fire" in problem


def test_memory_is_bounded(culprits: Culprits) -> None:
    grown = replace(NODE, rss_after_bytes=NODE.rss_before_bytes + GROWTH_BYTES_MAX + MIB)
    (problem,) = problems(replace(FINE, nodes=[grown]), culprits)
    assert problem == "controller 1 has 65 MiB more than before, at most 64 are allowed"


def test_a_node_that_ended_is_found_with_the_last_frames(
    culprits: Culprits, frames: Frames
) -> None:
    (problem,) = problems(replace(FINE, nodes=[replace(NODE, exit_code=1)]), culprits)
    assert problem.startswith("controller 1 ended with 1; the last frames were")
    assert str(frames.frame(5)) in problem


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"leader_after": (2, 5)}, "leader and epoch were 1 and 4, now they are 2 and 5"),
        ({"lost": ["7 produced records are lost"]}, "7 produced records are lost"),
        ({"written": {"Topic": 2}}, "records were written without a right to it: 2 Topic"),
        ({"probes": [Probe("HTTP", 1, 9.0, ["HTTP: gone"])]}, "1 requests of the witness failed"),
    ],
)
def test_other_harm_is_found(culprits: Culprits, changes: Mapping[str, object], words: str) -> None:
    (problem,) = problems(replace(FINE, **changes), culprits)  # type: ignore[arg-type]
    assert words in problem


def test_a_stranger_may_write_where_there_is_no_authorizer(culprits: Culprits) -> None:
    seen = replace(FINE, caller=Caller.STRANGER, written={"Topic": 2})
    assert problems(seen, culprits) == []


@pytest.mark.parametrize(
    ("kinds", "answered", "read"),
    [
        ([Kind.VALID, Kind.VALID, Kind.RANDOM], 0, 3),
        ([Kind.VALID, Kind.RANDOM, Kind.VALID], 1, 2),
        ([Kind.VALID, Kind.VALID], 0, 1),
        ([Kind.VALID, Kind.VALID], 2, 2),
    ],
)
def test_the_frame_that_closed_a_connection_is_the_first_bad_one_without_an_answer(
    kinds: Sequence[Kind], answered: int, read: int
) -> None:
    batch = [Frame(number, kind, "", b"") for number, kind in enumerate(kinds)]
    assert _read_until_closed(batch, answered) == read
