"""The wheel as an installer has it: built of the sdist, in an environment without the tree.

Everything runs in a folder of a user's, which has packages of the names that ours have in the
tree. Importing one of these fails, so whatever of ours still asked for them would be seen.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.tools.local_plan import LOG_FILE
from tests.support import tree

BUILD_SECONDS_MAX: Final = 900
RUN_SECONDS_MAX: Final = 120
NOT_OURS: Final = "raise SystemExit(f'{__file__} was imported, which is not ours')\n"

IMPORT_ALL: Final = """
import importlib, pkgutil, sys
import metaquorum
for each in pkgutil.walk_packages(metaquorum.__path__, "metaquorum."):
    try:
        importlib.import_module(each.name)
    except ModuleNotFoundError as missing:
        # The extra for lag reports need not be installed.
        if missing.name.partition(".")[0] not in ("jinja2", "numpy", "pyarrow", "pyspark"):
            raise
print(sum(each.startswith("metaquorum.") for each in sys.modules))
"""


@dataclass(frozen=True)
class Installed:
    """An environment that has the wheel."""

    environment: Path
    users: Path
    """The folder in which commands run."""

    def run(self, *command: str | Path, seconds: int = RUN_SECONDS_MAX) -> str:
        """Run a program of the environment to its end, and return what it printed."""
        program, *arguments = command
        return run(self.environment / "bin" / program, *arguments, cwd=self.users, seconds=seconds)


def run(
    *command: str | Path,
    cwd: Path,
    seconds: int,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a command without what leads to the tree; its output. It must not fail."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


HATCHLING: Final = (sys.executable, "-m", "hatchling", "build", "-t")


def build_sdist(folder: Path) -> Path:
    """Build the sdist of the tree into `folder`."""
    run(*HATCHLING, "sdist", "-d", folder, cwd=tree.ROOT, seconds=BUILD_SECONDS_MAX)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def build_wheel(folder: Path, variables: Mapping[str, str]) -> Path:
    """Build the sdist, and the wheel of what it contains; return the path of the wheel."""
    sdist = build_sdist(folder)
    run("tar", "-xzf", sdist, cwd=folder, seconds=RUN_SECONDS_MAX)
    source = folder / sdist.name.removesuffix(".tar.gz")
    wheel = (*HATCHLING, "wheel", "-d", folder)
    run(*wheel, cwd=source, seconds=BUILD_SECONDS_MAX, variables=variables)
    (built,) = folder.glob("*.whl")
    return built


def new_environment(folder: Path) -> Installed:
    """An empty environment of this Python, and a user's folder beside it."""
    environment, users = folder / "environment", folder / "user"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=folder, seconds=60)
    for name in (*tree.PACKAGES, "tests", "bench"):
        package = users / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(NOT_OURS, encoding="utf-8")
    return Installed(environment, users)


def install(
    installed: Installed,
    *arguments: str | Path,
    seconds: int = RUN_SECONDS_MAX,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Call pip, which is not in the environment itself."""
    python = installed.environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    command = (*pip, "install", "--quiet", "--no-compile", *arguments)
    run(*command, cwd=installed.users, seconds=seconds, variables=variables)


def check_imports(installed: Installed) -> None:
    """Import every module of the wheel, beside packages of the user's of the same names."""
    assert int(installed.run("python", "-c", IMPORT_ALL)) > 300
    code = "import sys; sys.path.pop(0); import metaquorum.admin; print(metaquorum.admin.__file__)"
    assert str(installed.environment) in installed.run("python", "-c", code)


def check_local_cluster(installed: Installed) -> None:
    """A whole cluster starts, is described, keeps records, and stops."""
    folder = installed.users / "mq"
    where = ("--dir", folder)
    wanted = ("--base-port", "0", "--brokers", "1", "--detach")
    installed.run("metaquorum", "local", *wanted, *where)
    try:
        cluster = json.loads((folder / "cluster.json").read_text(encoding="utf-8"))
        controller = cluster["controllers"][0]["kafka"]
        server = ("--bootstrap-server", cluster["brokers"][0]["kafka"])
        described = installed.run(
            "metadata-quorum", "--bootstrap-controller", controller, "describe", "--status"
        )
        assert "CurrentVoters:          [1, 2, 3]\n" in described
        created = ("create", "t", "--partitions", "3", "--replication-factor", "1")
        installed.run("metaquorum", "topics", *created, *server)
        assert "t\n" in installed.run("metaquorum", "topics", "list", *server)
        log = (folder / "controller-1" / LOG_FILE).read_text(encoding="utf-8")
        assert " INFO controller: controller 1 listens at " in log
    finally:
        installed.run("metaquorum", "local", "stop", *where)
