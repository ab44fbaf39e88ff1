"""R23: every file of a replica that was restarted at the end is explained.

Only names are checked here; other invariants check the contents.
"""

import re
from typing import Final

from chaos.simulation.machine import FOLDER, LOG, Machine
from chaos.violation import Violation

EXPECTED: Final = re.compile(
    r"meta\.properties|boot-timestamp|quorum-state|\.lock|__cluster_metadata-0"
    # The rest of an interrupted replacement; the next write replaces it.
    r"|(meta\.properties|boot-timestamp|quorum-state)\.tmp"
    r"|\d{20}\.log|\d{20}-\d{10}\.checkpoint"
)
RECEIVED: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint\.received\.part")
INDEX: Final = re.compile(r"(\d{20})\.appendtime")
DAMAGED: Final = ".checkpoint.damaged"


def check_orphaned_files(machine: Machine) -> None:
    """Check that every file of a replica that has just started is explained."""
    segments = {name for name in machine.disk.names(LOG) if name.endswith(".log")}
    for folder in (FOLDER, LOG):
        for name in machine.disk.names(folder):
            if not (EXPECTED.fullmatch(name) or _is_explained(name, machine, segments)):
                raise Violation("R23", f"{machine.key} has an orphaned file: {folder / name}")


def _is_explained(name: str, machine: Machine, segments: set[str]) -> bool:
    if name.endswith(DAMAGED):
        return name.removesuffix(".damaged") in machine.spoiled
    received, index = RECEIVED.fullmatch(name), INDEX.fullmatch(name)
    if index is not None:
        return f"{index[1]}.log" in segments
    # The download continues as long as the log ends below the snapshot.
    return received is not None and int(received[1]) > machine.durable.end
