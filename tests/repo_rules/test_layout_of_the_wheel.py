"""The packages under `metaquorum`, as hatch_build.py lays them out, and what it refuses."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from hatch_build import ABOVE, Unmovable, Unmoved, lay_out, moved, shipped
from tests.support import tree

PACKAGES: Final = frozenset(tree.PACKAGES)
IMPORTS: Final = re.compile(r"^[ \t]*(from|import) ([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*)", re.MULTILINE)
"""Statements that import, each on a line of its own as the formatter has them.

A line of a docstring that looks like one is taken for one as well. The parser takes as long for the
copy as for the tree, and the copy differs in imports alone, as a test of its own says.
"""


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("laid-out")
    lay_out(tree.ROOT, PACKAGES, folder)
    return folder


@pytest.fixture(scope="module")
def imports(laid_out: Path) -> list[tuple[Path, str]]:
    """Every module with the modules that it imports, or imports from."""
    return [
        (path, each.split()[0])
        for path in sorted(laid_out.rglob("*.py"))
        for kind, names in IMPORTS.findall(path.read_text(encoding="utf-8"))
        for each in (names.split(",") if kind == "import" else [names])
    ]


def test_every_file_of_a_shipped_package_is_there_and_no_other(laid_out: Path) -> None:
    expected = {path.relative_to(tree.ROOT) for path in shipped(tree.ROOT, PACKAGES)}
    assert expected < {path.relative_to(tree.ROOT) for path in tree.files(*PACKAGES)}
    found = {path.relative_to(laid_out / ABOVE) for path in laid_out.rglob("*") if path.is_file()}
    assert found == expected | {Path("__init__.py"), Path("py.typed")}


def test_no_import_is_left_of_a_package_by_its_name_in_the_tree(
    imports: list[tuple[Path, str]],
) -> None:
    tops = {*tree.PACKAGES, "tests", "bench"}
    found = [f"{path}: {module}" for path, module in imports if module.split(".")[0] in tops]
    assert not found, "\n".join(found)


def test_every_own_module_that_is_imported_is_there(
    laid_out: Path, imports: list[tuple[Path, str]]
) -> None:
    own = [each for each in imports if each[1].split(".")[0] == ABOVE]
    assert len(own) > 1_000
    for path, module in own:
        place = laid_out.joinpath(*module.split("."))
        assert place.is_dir() or place.with_name(f"{place.name}.py").is_file(), f"{path}: {module}"


def test_only_imports_differ(laid_out: Path) -> None:
    for path in shipped(tree.ROOT, PACKAGES):
        if path.suffix != ".py":
            continue
        copy = laid_out / ABOVE / path.relative_to(tree.ROOT)
        changed = copy.read_text(encoding="utf-8").replace(f"from {ABOVE}.", "from ")
        assert changed == path.read_text(encoding="utf-8")


def test_an_import_is_moved_wherever_it_stands() -> None:
    before = (
        '"""from quorum import nothing."""\n'
        "from quorum.core import limits as quorum\n"
        "from quorumlike import lag\n"
        "if True:\n"
        "    from lag import (\n"
        "        session,\n"
        "    )\n"
    )
    after = before.replace("\nfrom quorum.", "\nfrom metaquorum.quorum.")
    assert moved(before, ast.parse(before), PACKAGES) == after.replace(
        "from lag", "from metaquorum.lag"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("import quorum.core.limits", "import quorum.core.limits: write from ... import ..."),
        ("from . import session", "imports by a relative name; name the package"),
        ("from chaos.mutants import mutant", "imports chaos.mutants, which is not in the wheel"),
        ("from chaos.fuzz.run import x", "imports chaos.fuzz.run, which is not in the wheel"),
        ("from tests.support import tree", "imports tests.support, which is not in the wheel"),
        ("importlib.import_module(f'admin.{name}')", "import_module of a fixed name"),
        ("importlib.import_module('admin')", "import_module of a fixed name"),
        ("PackageLoader('lag')", "PackageLoader of a fixed name"),
        ("scripts = 'admin.cli.main:metaquorum'", "'admin.cli.main:metaquorum' names a module"),
        ("name = f'quorum.core.{each}'", "'quorum.core.' names a module"),
        ("run(['python', '-m', 'admin.cli.main'])", "'admin.cli.main' names a module"),
        ("code = 'python -m admin --help'", "'python -m admin --help' names a module"),
        ("code = 'from quorum import process'", "'from quorum import process' names a module"),
        ("logger = logging.getLogger(__name__)", "getLogger(__name__): the log would have"),
        ("HERE = Path(__file__).parents[2]", "a path from __file__ that may lead out"),
        ("HERE = Path(__file__).parent.parent", "a path from __file__ that may lead out"),
        ("HERE = os.path.dirname(__file__)", "a path from __file__ that may lead out"),
    ],
)
def test_what_would_not_be_found_is_refused(line: str, why: str) -> None:
    ((_, found), *_) = Unmoved(ast.parse(line), PACKAGES, tree.ROOT).found
    assert found.startswith(why)


@pytest.mark.parametrize(
    "line",
    [
        "FOLDER = Path(__file__).parent / 'files'",
        "ROOT = Path(__file__).parents[__name__.count('.')].resolve()",
        "logger = logging.getLogger('quorum')",
        "setting = 'controller.listener.names'",
        "setting = 'quorum.voters'",
        "role = 'admin'",
        "import_module('..monitoring.exposition', __package__)",
    ],
)
def test_what_is_found_anywhere_is_not_refused(line: str) -> None:
    assert Unmoved(ast.parse(line), PACKAGES, tree.ROOT).found == []


def test_a_build_that_is_refused_names_every_place(tmp_path: Path) -> None:
    package = tmp_path / "tree" / "lag"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import lag.a\nHERE = __file__\n", encoding="utf-8")
    with pytest.raises(Unmovable) as refused:
        lay_out(tmp_path / "tree", ["lag"], tmp_path / "out")
    lines = str(refused.value).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["lag/__init__.py:1", "lag/__init__.py:2"]
