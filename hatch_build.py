"""Builds the wheel: the tree's packages under `metaquorum`, the hot modules compiled if asked.

In the tree `quorum`, `admin` and the others are top-level packages; in site-packages a user's own
`admin` would clash with ours. So the wheel has them as `metaquorum.quorum`, `metaquorum.admin`: a
copy of the tree in which every import of an own package has `metaquorum.` before it. Imports are
found by the parser, not by patterns. Whatever else would name a module at run time (a string, a
path that leads out of the packages, the name of a logger) ends the build with its place in the
source, because no copy can mend it.

METAQUORUM_COMPILED=1 compiles the modules that pyproject.toml lists beside this hook. mypyc takes
them as they are: the same source, which the interpreter runs where nothing is compiled, and the
same types, which `mypy --strict` has checked. It needs a C compiler and Python's headers. Whoever
asks for nothing gets the pure wheel.

`python hatch_build.py FOLDER` writes the packages into a folder by their names in the tree,
compiled: what `make compiled` tests and measures.
"""

import ast
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ABOVE: Final = "metaquorum"
"""The package of the wheel that contains ours."""
ABOVE_SOURCE: Final = '"""A Raft metadata quorum that speaks the Kafka protocol."""\n'
TREE_ONLY: Final = ("chaos/__main__.py", "chaos/fuzz", "chaos/mutants")
"""The parts of the packages that are not in the wheel: they need the sources."""
ASKED: Final = "METAQUORUM_COMPILED"
"""An environment variable: the one thing that reaches a build through every installer."""
OPT_LEVEL: Final = "MYPYC_OPT_LEVEL"
"""The variable by which mypy's own build, too, takes another level of the C compiler than 2."""


class Wheel(BuildHookInterface[Any]):
    """Puts the packages, and what is compiled of them, into the wheel."""

    def dependencies(self) -> list[str]:
        """The dependencies of a build besides hatchling: mypyc and the types that it reads."""
        if not self._is_compiled():
            return []
        return [*self.config["compilers"], *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files of the wheel, and note each with its place in it.

        An editable installation is the tree itself, and nothing of it is copied or compiled: who
        edits a module wants to see that run.
        """
        if self.target_name != "wheel" or version == "editable":
            return
        if self._is_compiled() and (missing := not_here()) is not None:
            raise SystemExit(f"{ASKED}: {missing}")
        root, made = Path(self.root), Path(self.root) / "build" / "wheel"
        try:
            lay_out(root, self.config["packages"], made)
        except Unmovable as unmovable:
            raise SystemExit(f"{ABOVE}: {unmovable}") from None
        build_data["force_include"][str(made / ABOVE)] = ABOVE
        scripts = self.metadata.core.scripts
        scripts.update({name: f"{ABOVE}.{place}" for name, place in scripts.items()})
        if self._is_compiled():
            modules = listed(root, self.config["modules"], self.config["interpreted"])
            into = root / "build" / f"compiled-wheel-{_opt_level()}"
            found = compiled(made, [f"{ABOVE}/{each}" for each in modules], into)
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(path): place for place, path in found.items()})

    def _is_compiled(self) -> bool:
        return os.environ.get(ASKED, "0") not in {"", "0"}


# --- the packages under another name ---------------------------------------------------------


class Unmovable(Exception):
    """Some code would name a module that is elsewhere in the wheel; one line for each place."""


_NAMES_IN_TEXT: Final = (
    r"(?:^|[\s'\",])-m[\s'\",]+(?:{packages})\b",
    r"(?m)^\s*(?:from|import) (?:{packages})(?:\.\w+)*(?: import |$)",
)
"""A command line, and source in a string; `{packages}` stands for ours."""
_TAKES_A_MODULE: Final = {
    "PackageLoader", "__import__", "files", "find_spec", "import_module", "run_module",
}  # fmt: skip
"""Functions whose first argument is the name of a module."""


def lay_out(root: Path, packages: Iterable[str], into: Path) -> None:
    """Write the packages of `root` into the package `metaquorum` of the folder `into`, made anew.

    Raises `Unmovable` for references that would not be found there.
    """
    shutil.rmtree(into, ignore_errors=True)
    above = into / ABOVE
    above.mkdir(parents=True)
    (above / "__init__.py").write_text(ABOVE_SOURCE, encoding="utf-8")
    # The marker of PEP 561 holds for every package below.
    (above / "py.typed").touch()
    names, refused = frozenset(packages), list[str]()
    for path in shipped(root, sorted(names)):
        place = above / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".py":
            shutil.copyfile(path, place)
            continue
        module, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        parsed = ast.parse(text)
        found = Unmoved(parsed, names, root).found
        refused += (f"{module}:{line} {why}" for line, why in found)
        place.write_text(moved(text, parsed, names), encoding="utf-8")
    if refused:
        raise Unmovable("\n".join(["these references would not be found:", *refused]))


def sources(root: Path, packages: Iterable[str]) -> Iterator[Path]:
    """Yield every file of the packages, sorted, without what Python leaves beside them."""
    for package in packages:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def shipped(root: Path, packages: Iterable[str]) -> Iterator[Path]:
    """Yield every file of the packages that is in the wheel, sorted."""
    left_out = [root / each for each in TREE_ONLY]
    for path in sources(root, packages):
        if not any(each == path or each in path.parents for each in left_out):
            yield path


def moved(text: str, parsed: ast.AST, packages: frozenset[str]) -> str:
    """The source of a module, with `metaquorum.` before each own package that it imports from.

    `parsed` is the same source as a tree.
    """
    lines = text.splitlines(keepends=True)
    for node in _statements(parsed):
        if isinstance(node, ast.ImportFrom) and _root(node.module) in packages:
            # Columns of the parser count bytes; an import begins after spaces alone.
            line, at = lines[node.lineno - 1], node.col_offset + len("from ")
            assert line[at:].startswith(f"{node.module} import"), line
            lines[node.lineno - 1] = f"{line[:at]}{ABOVE}.{line[at:]}"
    return "".join(lines)


def _statements(parsed: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement of the tree, a tenth of its nodes."""
    nodes = [parsed]
    while nodes:
        node = nodes.pop()
        yield node
        for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes += getattr(node, blocks, ())


class Unmoved(ast.NodeVisitor):
    """Finds the places of a module that `moved` does not mend, each as its line and the reason."""

    def __init__(self, parsed: ast.AST, packages: frozenset[str], root: Path) -> None:
        self.found: list[tuple[int, str]] = []
        self._packages, self._root = packages, root
        among = "|".join(sorted(packages))
        self._in_text = [re.compile(each.format(packages=among)) for each in _NAMES_IN_TEXT]
        # "admin.cli.main:metaquorum", or the beginning of f"admin.cli.{name}".
        self._name = re.compile(rf"((?:{among})(?:\.\w+)*)(\.?)(?::\w+)?")
        self.visit(parsed)

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            if _root(each.name) in self._packages:
                self._refuse(node, f"import {each.name}: write from ... import ...")
            self._refuse_what_stays_behind(node, each.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self._refuse(node, "imports by a relative name; name the package")
        self._refuse_what_stays_behind(node, node.module or "")

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and self._names_a_module(node.value):
            self._refuse(node, f"{node.value.strip()[:60]!r} names a module; see admin/own_code.py")

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=function, args=[ast.Name("__name__")]) if (
                _last(function) == "getLogger"
            ):
                self._refuse(node, "getLogger(__name__): the log would have another name")
            case ast.Call(func=function, args=[first, *_]) if _last(function) in _TAKES_A_MODULE:
                if _root(_beginning(first)) in self._packages:
                    self._refuse(node, f"{_last(function)} of a fixed name; use __package__")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """A path from Path(__file__).parent stays in the packages, unless it goes up again."""
        match node:
            case ast.Attribute(attr="parent" | "parents", value=ast.Attribute(attr="parent") as up):
                self.generic_visit(up)
            case ast.Attribute(attr="parent", value=ast.Call(args=[ast.Name("__file__")])):
                pass
            case _:
                self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Path(__file__).parents[__name__.count(".")] contains the outermost package anywhere."""
        if ast.unparse(node) != "Path(__file__).parents[__name__.count('.')]":
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == "__file__":
            self._refuse(node, "a path from __file__ that may lead out of the packages")

    def _refuse_what_stays_behind(self, node: ast.AST, module: str) -> None:
        root, place = _root(module), module.replace(".", "/")
        is_foreign = root and root not in self._packages and (self._root / root).is_dir()
        if is_foreign or any(f"{place}/".startswith(f"{each}/") for each in TREE_ONLY):
            self._refuse(node, f"imports {module}, which is not in the wheel")

    def _refuse(self, node: ast.AST, why: str) -> None:
        self.found.append((node.lineno, why))  # type: ignore[attr-defined]

    def _names_a_module(self, value: str) -> bool:
        if any(each.search(value) for each in self._in_text):
            return True
        name = self._name.fullmatch(value)
        if name is None or not ("." in name[1] or name[2]):
            return False
        place = self._root.joinpath(*name[1].split("."))
        return place.is_dir() or place.with_name(f"{place.name}.py").is_file()


def _root(name: str | None) -> str:
    return (name or "").split(".")[0]


def _last(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _beginning(node: ast.expr) -> str | None:
    """The text with which a string begins, as far as it is known."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=[first, *_]):
            return _beginning(first)
        case _:
            return None


# --- machine code -----------------------------------------------------------------------------


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
    """Every file made of the `modules` below `root`, by its place beside the packages."""
    # Both are only there where something is compiled.
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    settings = Path(__file__).with_name("pyproject.toml").resolve()
    before = Path.cwd()
    os.chdir(root)
    try:
        extensions = mypycify(
            [f"--config-file={settings}", "--strict", *modules],
            opt_level=_opt_level(),
            debug_level="0",
            multi_file=True,
            target_dir=str(into / "c"),
            # The code is in metaquorum__mypyc, beside the package: in it, mypyc would look for the
            # modules of a compiled package at a wrong place.
            group_name=ABOVE,
        )
        command = build_ext(Distribution({"name": ABOVE, "ext_modules": extensions}))
        command.build_lib = str(into / "lib")
        command.build_temp = str(into / "objects")
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    lib = Path(command.build_lib)
    places = [command.get_ext_filename(command.get_ext_fullname(each.name)) for each in extensions]
    return {place: lib / place for place in places}


def compile_tree(root: Path, into: Path) -> None:
    """Write the packages of the tree into a folder by their names there, the hot ones compiled."""
    import tomllib

    if (missing := not_here()) is not None:
        raise SystemExit(missing)
    tool = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    build = tool["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    modules = listed(root, build["modules"], build["interpreted"])
    made = compiled(root, modules, root / "build" / f"compiled-tree-{_opt_level()}")
    for path in sources(root, build["packages"]):
        place = into / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    for name, path in made.items():
        shutil.copy(path, into / name)


if __name__ == "__main__":
    compile_tree(Path(__file__).resolve().parent, Path(sys.argv[1]).resolve())
