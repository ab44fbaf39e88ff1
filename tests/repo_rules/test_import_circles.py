"""No files of the packages import each other in a circle, `TYPE_CHECKING` included."""

from tests.support import tree
from tests.support.import_graph import circles, imports_between


def test_no_files_import_each_other_in_a_circle() -> None:
    found = [
        " <-> ".join(circle)
        for circle in circles(imports_between(tree.python_files(*tree.PACKAGES)))
    ]
    assert not found, "\n".join(found)


def test_the_circles_of_a_graph_are_found() -> None:
    graph = {
        "a": ["b"],
        "b": ["c", "d"],
        "c": ["a"],
        "d": ["e"],
        "e": ["d", "f"],
        "f": [],
        "g": ["a", "g2"],
        "g2": [],
    }
    assert circles(graph) == [["a", "b", "c"], ["d", "e"]]
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []
