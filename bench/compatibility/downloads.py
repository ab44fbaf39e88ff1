"""Download the clients once, in pinned versions, into the folder of the other downloads.

kafkajs comes from npm, kcl is built from its Go module, the codecs that kafka-python leaves to
other packages come from PyPI, Kafka's tools from Maven. kafka-python and confluent-kafka are those
of the environment: they are locked with the other dependencies of the tests.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

import click

from admin.tools.kafka_runtime import TOOLS, Runtime, Unavailable, find_runtime
from bench.faults import RunFailed
from bench.peers.downloads import CACHE, run

FOLDER: Final = CACHE / "clients"
KAFKAJS: Final = "2.2.4"
KCL: Final = "0.18.0"
KCL_MODULE: Final = "github.com/twmb/kcl@v0.18.0"
CODECS: Final = ("lz4==4.4.5", "python-snappy==0.7.3", "zstandard==0.25.0")


def kafka_tools(version: str) -> Runtime:
    """Kafka's jars of this release and a Java to run them; raises `RunFailed`."""
    try:
        return find_runtime(version, click.echo, TOOLS)
    except Unavailable as error:
        raise RunFailed(f"Kafka's tools are not available: {error.lacks}") from None


def kafkajs() -> Path:
    """The folder `node_modules` with kafkajs; raises `RunFailed`."""
    modules = FOLDER / f"kafkajs-{KAFKAJS}" / "node_modules"
    if not modules.is_dir():
        _make_folder()
        flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(modules.parent))
        run(["npm", "install", *flags, f"kafkajs@{KAFKAJS}"], "kafkajs", FOLDER)
    return modules


def kcl() -> Path:
    """The path of the program `kcl`; raises `RunFailed`. One on the path is used as it is."""
    installed = shutil.which("kcl")
    if installed is not None:
        return Path(installed)
    program = FOLDER / f"kcl-{KCL}" / "kcl"
    if not program.exists():
        _make_folder()
        run(["env", f"GOBIN={program.parent}", "go", "install", KCL_MODULE], "kcl", FOLDER)
    return program


def codecs() -> None:
    """Let this process import the codecs of kafka-python; raises `RunFailed`."""
    folder = FOLDER / "codecs"
    if not (folder / "ready").exists():
        _make_folder()
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        run([*pip, "--target", str(folder), *CODECS], "the codecs of kafka-python", FOLDER)
        (folder / "ready").touch()
    sys.path.append(str(folder))


def _make_folder() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
