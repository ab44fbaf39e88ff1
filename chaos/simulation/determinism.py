"""A trial of a user's state machine in processes of its own, before it is simulated.

The order of a set of texts is the same everywhere in one process. So two processes with another
seed of the hash apply the same records; their states must be equal after each.
"""

import json
import os
import random
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Final

from chaos.simulation.own_machine import NoMachine, drawn, machine_class, record_text
from chaos.violation import Violation

RECORDS: Final = 200
SECONDS_MAX: Final = 60
FOLDER: Final = Path(__file__).parents[__name__.count(".")]
"""The folder that a process needs on its path to import this code."""


def check(name: str) -> None:
    """Raise `NoMachine`, with one sentence, unless the machine seems to be deterministic."""
    cls, word = machine_class(name), name.rpartition(":")[2]
    first, second = (_states(name, seed) for seed in (1, 2))
    draw, rng = cls().draw, random.Random(0)
    for number, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        record = drawn(draw, word, rng, number)
        if one != other:
            raise NoMachine(
                f"{word} is not deterministic: two processes that apply the same {number} records "
                f"(the last is {record_text(record)}) are in different states; no clock, no random "
                "numbers and no order of a set may decide"
            )


def _states(name: str, hash_seed: int) -> list[str]:
    paths = [str(FOLDER), str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-P", "-m", __name__, name]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise NoMachine(f"{RECORDS} records take {name} more than {SECONDS_MAX} s") from None
    *_, last = ["", *done.stdout.splitlines()]
    if not last.startswith("["):
        *_, why = ["it says nothing", *done.stderr.strip().splitlines()]
        raise NoMachine(f"a process that applies records to {name} fails: {why}")
    return [str(each) for each in json.loads(last)]


def _trial(name: str) -> list[str]:
    """The state after each record, as a hash."""
    from chaos.simulation.own_machine import CheckedMachine

    machine, rng = CheckedMachine(name), random.Random(0)
    draw, word = machine_class(name)().draw, name.rpartition(":")[2]
    states: list[str] = []
    for number in range(1, RECORDS + 1):
        machine.apply(drawn(draw, word, rng, number))
        values = b"".join(b"%d:%s" % (len(each), each) for each in machine.state.values)
        states.append(blake2b(values, digest_size=8).hexdigest())
    return states


if __name__ == "__main__":
    try:
        print(json.dumps(_trial(sys.argv[1])))  # noqa: T201
    except (NoMachine, Violation) as error:
        raise SystemExit(str(error)) from None
