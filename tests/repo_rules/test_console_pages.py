"""Console blocks of pages: what they allow for in an output, and what they are replaced by."""

import pytest

from tests.support.console_page import exchanges, played

PAGE = """\
# A page

```console
$ start \\
    --all
controller-1  127.0.0.1:19001, process 17
...
All are up.
$ count
```

Text.

```console
$ show
LeaderId:    3
Left  1.5 MiB, of 10 partition(s) ...
```
"""
SAID = {
    "start \\\n    --all": "controller-2  127.0.0.1:19001, process 4\na\nb\nAll are up.\n",
    "count": "",
    "show": "LeaderId:  1\nLeft unknown, of 10 partition(s) 3 done\n",
}


def test_commands_are_found_with_their_outputs() -> None:
    assert [each.command for each in exchanges(PAGE)] == list(SAID)
    assert [len(each.output) for each in exchanges(PAGE)] == [3, 0, 2]


def test_what_differs_from_run_to_run_leaves_the_page_as_it_is() -> None:
    assert played(PAGE, SAID.__getitem__) == PAGE


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("count", "1000"),
        ("show", ""),
        ("show", "LeaderId:  1\nLeft unknown, of 9 partition(s) 3 done\n"),
        ("show", "LeaderId:  1\nLeft unknown, of 10 partition(s) 3 done\nmore\n"),
    ],
)
def test_anything_else_is_told_and_the_page_has_one_run_then(command: str, said: str) -> None:
    now = played(PAGE, {**SAID, command: said}.__getitem__)
    assert now != PAGE
    assert "process 4\n...\nAll are up.\n" in now
    assert f"$ {command}\n{said.rstrip()}".rstrip() in now
