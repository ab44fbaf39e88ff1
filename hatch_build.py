"""Builds a wheel whose hot modules are machine code, where METAQUORUM_COMPILED=1 asks for it.

The modules are those that pyproject.toml lists beside this hook. mypyc compiles them as they are:
the same source, which the interpreter runs where nothing is compiled, and the same types, which
`mypy --strict` has checked. It needs a C compiler and Python's headers. Whoever asks for nothing
gets the pure wheel.
"""

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASKED: Final = "METAQUORUM_COMPILED"
"""An environment variable: the one thing that reaches a build through every installer."""
OPT_LEVEL: Final = "MYPYC_OPT_LEVEL"
"""The variable by which mypy's own build, too, takes another level of the C compiler than 2."""


class Compiled(BuildHookInterface[Any]):
    """Adds what is compiled to the wheel, beside the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and note every file with its place in the wheel.

        An editable installation is the tree itself, and nothing of it is ever compiled: who edits
        a module wants to see that run.
        """
        if self.target_name != "wheel" or version == "editable":
            return
        if os.environ.get(ASKED, "0") in {"", "0"}:
            return
        if (missing := not_here()) is not None:
            raise SystemExit(f"{ASKED}: {missing}")
        root = Path(self.root)
        modules = listed(root, self.config["modules"], self.config["interpreted"])
        made = compiled(root, modules, root / "build" / f"compiled-{_opt_level()}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): place for place, path in made.items()})


def _opt_level() -> str:
    """The optimization level of the C compiler, 0 to 3."""
    return os.environ.get(OPT_LEVEL, "2")


def not_here() -> str | None:
    """Return the tool that a compiled wheel lacks here, and the package that has it, or None."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(compiler.split()[0]) is None:
        return f"there is no C compiler {compiler.split()[0]}; install one (Debian: gcc)"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        return f"there is no {header}; install Python's headers (Debian: python3-dev)"
    return None


def listed(root: Path, modules: list[str], interpreted: list[str]) -> list[str]:
    """The files that `modules` name as patterns, without those that stay `interpreted`."""
    found = {str(path.relative_to(root)) for each in modules for path in root.glob(each)}
    return sorted(found - set(interpreted))


def compiled(root: Path, modules: list[str], into: Path) -> dict[str, Path]:
    """Every file made of `modules`, by its place in the wheel."""
    # Both are only there where something is compiled.
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    os.chdir(root)
    extensions = mypycify(
        ["--strict", *modules],
        opt_level=_opt_level(),
        debug_level="0",
        multi_file=True,
        target_dir=str(into / "c"),
        group_name="metaquorum",
    )
    command = build_ext(Distribution({"name": "metaquorum", "ext_modules": extensions}))
    command.build_lib = str(into / "lib")
    command.build_temp = str(into / "objects")
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()
    lib = Path(command.build_lib)
    places = [command.get_ext_filename(command.get_ext_fullname(each.name)) for each in extensions]
    return {place: lib / place for place in places}
