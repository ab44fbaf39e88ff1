"""Ports for processes and listeners that must know each other's before they start."""

import random
from pathlib import Path

from admin.tools.local_plan import Wanted, settle


def free_ports(folder: Path, count: int) -> dict[int, int]:
    """`count` ports that nobody holds, numbered from 1; the one above each is free as well."""
    wanted = Wanted(controllers=1, brokers=2 * count, base_port=0)
    plan = settle(folder / "ports", wanted, random.Random(str(folder)))
    ports = [node.kafka.port for node in plan.brokers]
    return dict(enumerate(ports[::2], start=1))
