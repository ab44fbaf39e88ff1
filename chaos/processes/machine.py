"""The machine of a run, for its report."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")


def description() -> Mapping[str, str]:
    """The processor, the system and the interpreter."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _processor() -> str:
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()
