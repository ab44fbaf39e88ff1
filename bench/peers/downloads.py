"""Download the other systems once, with their package clients, into a folder that git ignores.

etcd is Debian's package, unpacked but not installed. PySyncObj comes from PyPI into a separate
virtual environment, Kafka from Maven into the cache that `metaquorum local --kafka` uses. The
program for a slower fsync is compiled from slow_fsync.c in this folder.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from admin.tools.kafka_runtime import Runtime, Unavailable, find_runtime
from bench.faults import RunFailed

CACHE: Final = Path(__file__).parents[2] / ".bench"
ETCD_PACKAGE: Final = "etcd-server"
KAFKA: Final = "4.2.0"
PYSYNCOBJ: Final = "pysyncobj==0.3.17"
SECONDS_MAX: Final = 300


def etcd() -> Path:
    """The path of the program `etcd`; raises `RunFailed`."""
    installed = shutil.which("etcd")
    if installed is not None:
        return Path(installed)
    program = CACHE / "etcd" / "usr" / "bin" / "etcd"
    if not program.exists():
        packages = CACHE / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        run(["apt-get", "download", ETCD_PACKAGE], "etcd", packages)
        (package,) = packages.glob(f"{ETCD_PACKAGE}_*.deb")
        run(["dpkg-deb", "-x", str(package), str(CACHE / "etcd")], "etcd", packages)
    return program


def pysyncobj() -> Path:
    """The path of a Python with PySyncObj; raises `RunFailed`."""
    environment = CACHE / "pysyncobj"
    python = environment / "bin" / "python"
    if not (environment / "ready").exists():
        CACHE.mkdir(exist_ok=True)
        run([sys.executable, "-m", "venv", "--clear", str(environment)], "PySyncObj", CACHE)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run([*pip, "install", PYSYNCOBJ], "PySyncObj", CACHE)
        (environment / "ready").touch()
    return python


def kafka() -> Runtime:
    """Kafka's jars and a Java to run them; raises `RunFailed`."""
    try:
        return find_runtime(KAFKA, click.echo)
    except Unavailable as error:
        raise RunFailed(f"Kafka is not available: {error.lacks}") from None


def slow_fsync() -> Path:
    """The path of the program that slows down every fsync of another one; raises `RunFailed`."""
    source = Path(__file__).with_suffix("").parent / "slow_fsync.c"
    program = CACHE / "slow_fsync"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        CACHE.mkdir(exist_ok=True)
        command = ["cc", "-O2", "-pthread", "-o", str(program), str(source)]
        run(command, "the program for a slower fsync", CACHE)
    return program


def run(command: Sequence[str], what: str, folder: Path) -> None:
    """Run a command in this folder, silently and within `SECONDS_MAX`; raises `RunFailed`."""
    # Settings of this Python are not for another one: a setup.py may import what lies beside it.
    environ = {name: each for name, each in os.environ.items() if not name.startswith("PYTHON")}
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"{what} is not available: {error}") from None
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
        raise RunFailed(f"{what} cannot be had: {' '.join(command[:3])}... said {said}")
