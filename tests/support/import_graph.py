"""The graph of imports between the files of the packages, and its circles.

An import under `TYPE_CHECKING` or inside a function counts: it couples two files as any other does.
"""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support import tree


def imports_between(paths: Iterable[Path], root: Path = tree.ROOT) -> dict[str, set[str]]:
    """Map each module of `paths` to those of them that it imports, `__init__` files aside."""
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for path in paths
        if path.name != "__init__.py"
    }
    return {
        name: {each for each in _imported(path) if each in modules and each != name}
        for name, path in modules.items()
    }


def _imported(path: Path) -> Iterable[str]:
    for node in tree.statements(path):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                continue


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components with more than one node (Kosaraju), sorted."""
    finished: list[str] = []
    seen: set[str] = set()
    for name in sorted(graph):
        _visit(name, graph, seen, finished)
    reverse: dict[str, list[str]] = {name: [] for name in graph}
    for name, targets in graph.items():
        for target in targets:
            reverse[target].append(name)
    seen.clear()
    found: list[list[str]] = []
    for name in reversed(finished):
        component: list[str] = []
        _visit(name, reverse, seen, component)
        if len(component) > 1:
            found.append(sorted(component))
    return sorted(found)


def _visit(
    start: str, graph: Mapping[str, Iterable[str]], seen: set[str], finished: list[str]
) -> None:
    """Append what is reachable and not seen yet to `finished`, each node after its successors."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(sorted(graph[start])))]
    while path:
        name, targets = path[-1]
        target = next((each for each in targets if each not in seen), None)
        if target is None:
            finished.append(name)
            path.pop()
        else:
            seen.add(target)
            path.append((target, iter(sorted(graph[target]))))
