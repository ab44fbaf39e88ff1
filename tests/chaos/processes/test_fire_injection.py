"""The faults of a run inside a node: damaged files, a faulty disk and clock, points of the code."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.processes.injector import damage
from chaos.processes.kill_points import POINTS, wrap
from chaos.processes.preload import DiskMode, NodeFaults, Preload, can_compile
from tests.support.tree import ROOT


def test_damage_changes_one_bit_of_one_file(tmp_path: Path) -> None:
    contents = {"a": b"12345", "b/c": b"6789", "empty": b""}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    said = damage(tmp_path, random.Random(1))
    bits = 0
    for name, content in contents.items():
        found = (tmp_path / name).read_bytes()
        assert len(found) == len(content)
        bits += sum((a ^ b).bit_count() for a, b in zip(found, content, strict=True))
    assert bits == 1
    assert said.startswith("byte ")


@pytest.mark.parametrize("name", POINTS)
def test_every_point_of_the_code_exists(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that is renamed must be renamed in the table as well."""
    owner, method, _ = POINTS[name]
    # It is put back after the test.
    monkeypatch.setattr(owner, method, vars(owner)[method])
    wrap(name, tmp_path / "armed")
    assert vars(owner)[method].__wrapped__ is not None


SURVIVES_UNTIL_ARMED = """
from pathlib import Path
from chaos.processes import kill_points

class Product:
    def act(self):
        print("acted", flush=True)

kill_points.POINTS["test"] = kill_points.Point(Product, "act", True)

armed = Path({armed!r})
kill_points.wrap("test", armed)
Product().act()
armed.write_text("another")
Product().act()
armed.write_text("test")
Product().act()
print("survived", flush=True)
"""


def test_a_process_dies_at_its_point_once_that_is_armed(tmp_path: Path) -> None:
    code = SURVIVES_UNTIL_ARMED.format(armed=str(tmp_path / "armed"))
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == -9, ran.stderr
    assert ran.stdout == "acted\nacted\nacted\n"


FAULTY = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
def attempt(act):
    try:
        act()
    except OSError as error:
        return error.strerror
    return "done"
for line in sys.stdin:
    began = time.monotonic()
    said = [attempt(lambda: os.write(fd, b"a")), attempt(lambda: os.fdatasync(fd))]
    print(*said, time.monotonic() - began > 0.25, round(time.time()), sep=",", flush=True)
"""


@pytest.mark.skipif(not can_compile(), reason="there is no C compiler")
def test_a_preloaded_library_makes_the_disk_and_the_clock_of_a_process_faulty(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    preload = Preload.compiled(tmp_path)
    environment = {**os.environ, **preload.environment(1, data)}
    with subprocess.Popen(
        [sys.executable, "-c", FAULTY, str(data / "file")],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        asked, told = process.stdin, process.stdout
        assert asked is not None
        assert told is not None

        def outcome(faults: NodeFaults) -> list[str]:
            preload.set(1, faults)
            print(file=asked, flush=True)
            return told.readline().strip().split(",")

        healthy = outcome(NodeFaults())
        assert healthy[:2] == ["done", "done"]
        full = outcome(NodeFaults(disk=DiskMode.FULL))
        assert full[:2] == ["No space left on device", "done"]
        failing = outcome(NodeFaults(disk=DiskMode.FAILING))
        assert failing[:2] == ["done", "Input/output error"]
        slow = outcome(NodeFaults(disk=DiskMode.SLOW, fsync_ms=300))
        assert slow[:3] == ["done", "done", "True"]
        jumped = outcome(NodeFaults(clock_shift_s=-3_600))
        assert int(healthy[3]) - int(jumped[3]) > 3_000
        asked.close()
