"""One table of exit codes, held by every command there is.

The commands are those of the command line itself: a new one has to appear in these tables, or to
answer like the others.
"""

import asyncio
import re
import shlex
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

import pytest
from click.testing import CliRunner, Result

from admin.cli import records
from admin.cli.examples import EXAMPLES
from admin.cli.main import group
from admin.cli.options import Exit
from admin.client.admin_client import AdminClient
from admin.client.consumer import ReadRecord
from statemachine.security.authorization import AuthorizerConfig
from tests.support.cli_page import PAGE, leaves
from tests.support.controllers import a_controller

LEAVES: Final = dict(leaves())
CONNECTING: Final = [
    path
    for path, command in LEAVES.items()
    if any(each.name == "bootstrap_server" for each in command.params)
    and not path.startswith("profile ")
]
NOT_REACHED: Final = "--from 127.0.0.1:1 --controllers 11@127.0.0.1:2 --timeout 10ms"
NOBODY: Final = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "10ms")

TEXT_ONLY: Final = {"backup", "consume", "moves rollback-plan", "produce", "support-bundle"}
"""Commands that ask a cluster and have no `-o json`; docs/cli.md names them."""

MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "users add": ("--password-file", "password"),
    "users remove": ("--yes",),
    "acls remove": ("--yes",),
    "topics delete": ("--yes",),
    "topics delete-records": ("--yes",),
}
"""Options that an example leaves to a person at a terminal."""

LOCAL: Final[Mapping[str, tuple[str, Exit]]] = {
    "start": ("--config no-such.toml", Exit.USAGE),
    "local": ("--dir full", Exit.FAILED),
    "local restart": ("101 --dir full", Exit.FAILED),
    "local kill": ("101 --dir full", Exit.FAILED),
    "local stop": ("--dir full", Exit.FAILED),
    "demo": ("--once --dir full", Exit.FAILED),
    "dump-log": ("no-such.log", Exit.USAGE),
    "lag report": ("no-such-folder", Exit.USAGE),
    "lag watch": ("no-such-folder", Exit.USAGE),
    "lag archive": ("no-such-folder --archive new", Exit.USAGE),
    "adopt": ("empty --dir new", Exit.FAILED),
    "migrate plan": (NOT_REACHED, Exit.FAILED),
    "migrate start": (NOT_REACHED, Exit.FAILED),
    "migrate status": (NOT_REACHED, Exit.FAILED),
    "migrate finish": (NOT_REACHED, Exit.FAILED),
    "migrate back": (NOT_REACHED, Exit.FAILED),
    "backup list": ("s4://nowhere", Exit.FAILED),
    "backup show": ("empty", Exit.FAILED),
    "backup verify": ("empty", Exit.FAILED),
    "restore": ("empty --dir new", Exit.FAILED),
    "recover": ("empty", Exit.FAILED),
    "certs create-authority": ("--dir password", Exit.USAGE),
    "certs create-node": ("--dir empty --name 1 --host h", Exit.USAGE),
    "certs create-client": ("--dir empty --name alice", Exit.USAGE),
    "http-tokens create": ("--name a --role viewer --file empty", Exit.USAGE),
    "settings": ("unexpected", Exit.USAGE),
    "completion": ("tcsh", Exit.USAGE),
    "chaos sim": ("--profile none", Exit.USAGE),
    "chaos crashes": ("--images none", Exit.USAGE),
    "chaos run": ("--rounds none", Exit.USAGE),
    "chaos report": ("no-such.json --page page.html", Exit.USAGE),
    "profile set": ("p --timeout soon", Exit.USAGE),
    "profile use": ("nope", Exit.USAGE),
    "profile list": ("-o xml", Exit.USAGE),
    "profile remove": ("nope", Exit.USAGE),
}
"""Of commands that connect to no cluster: what goes wrong, and its code."""

OF_BROKERS: Final = {"produce", "consume", "topics get-offsets", "topics delete-records"}
"""Controllers have no records, and no groups: an address of theirs is a usage error."""
SEES_NOTHING: Final = {"topics list", "features describe"}
"""Nobody is refused these: a list has what its reader may see."""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the arguments name."""
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "full"):
        Path(folder).mkdir()
    Path("full", "file").touch()
    Path("password").write_text("secret\n", encoding="utf-8")
    partition = '{"topic": "orders", "partition": 0, "replicas": [101]}'
    Path("plan.json").write_text(f'{{"partitions": [{partition}]}}', encoding="utf-8")
    offset = '{"topic": "orders", "partition": 0, "offset": 1}'
    Path("offsets.json").write_text(f'{{"partitions": [{offset}]}}', encoding="utf-8")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as Python has it by default: who runs in the background may have been told to ignore
    it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run(path: str, *arguments: str) -> Result:
    return CliRunner().invoke(group, [*path.split(), *arguments], input="record\n")


def example(path: str) -> tuple[str, ...]:
    """The arguments of the example of a command."""
    words = shlex.split(EXAMPLES[path].rpartition(" | ")[2])
    return (*words[words.index(path.split()[-1]) + 1 :], *MORE.get(path, ()))


def check(done: Result, code: Exit, path: str) -> None:
    """The code, an error in words, and no data; a traceback is neither."""
    assert done.exit_code == code, f"{path}: {done.output}\n{done.exception!r}"
    assert isinstance(done.exception, SystemExit), f"{path}: {done.exception!r}"
    assert re.search("^Error: .", done.stderr, re.MULTILINE), f"{path}: {done.stderr}"


def test_every_command_is_in_one_of_the_tables() -> None:
    assert {*CONNECTING} | LOCAL.keys() == LEAVES.keys()
    assert not {*CONNECTING} & LOCAL.keys()


@pytest.mark.parametrize("path", LEAVES)
def test_an_unknown_option_is_a_usage_error(path: str) -> None:
    done = run(path, "--no-such-option")
    check(done, Exit.USAGE, path)
    assert done.stdout == ""


@pytest.mark.parametrize("path", LOCAL)
def test_what_goes_wrong_on_this_machine_has_its_code(path: str) -> None:
    arguments, code = LOCAL[path]
    check(run(path, *arguments.split()), code, path)


@pytest.mark.parametrize("path", CONNECTING)
def test_a_command_that_connects_needs_an_address(path: str) -> None:
    done = run(path, *example(path))
    check(done, Exit.USAGE, path)
    assert "give --bootstrap-server or --bootstrap-controller" in done.stderr
    done = run(path, *NOBODY[:2], "--timeout", "5")
    check(done, Exit.USAGE, path)
    assert "'5' has no unit" in done.stderr


@pytest.mark.parametrize("path", CONNECTING)
def test_an_unreachable_cluster_is_a_failure(path: str) -> None:
    done = run(path, *example(path), *NOBODY)
    check(done, Exit.FAILED, path)
    assert "no answer from 127.0.0.1:1 within 10 ms" in done.stderr


@pytest.mark.thorough
async def test_a_refusal_is_a_failure(tmp_path: Path) -> None:
    """By a cluster in which nobody may do anything."""
    async with a_controller(tmp_path, authorizer=AuthorizerConfig()) as node:
        address = ("--bootstrap-controller", str(node.address))
        for path in CONNECTING:
            done = await asyncio.to_thread(run, path, *example(path), *address)
            if path in OF_BROKERS or path.startswith("groups "):
                check(done, Exit.USAGE, path)
                assert "brokers" in done.stderr, path
            elif path in SEES_NOTHING:
                assert done.exit_code == Exit.DONE, path
            else:
                check(done, Exit.FAILED, path)
                assert "AUTHORIZATION_FAILED" in done.stderr, path


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("consume t", Exit.DONE),
        ("consume t --from-beginning --follow", Exit.DONE),
        ("consume t --from-beginning", Exit.INTERRUPTED),
        ("consume t --max-records 2", Exit.INTERRUPTED),
        ("brokers list", Exit.INTERRUPTED),
        ("brokers list --watch 1s", Exit.DONE),
    ],
)
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_command_without_an_end_and_interrupts_others(
    monkeypatch: pytest.MonkeyPatch, arguments: str, code: Exit
) -> None:
    async def interrupted(*_: object) -> NoReturn:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()
        raise AssertionError

    async def one_record(*_: object) -> AsyncIterator[Sequence[ReadRecord]]:
        yield [ReadRecord(0, 0, None, b"v")]
        await interrupted()

    monkeypatch.setattr(records, "_from_partitions", one_record)
    monkeypatch.setattr(AdminClient, "__aenter__", interrupted)
    done = run(*arguments.split(), "--bootstrap-server", "127.0.0.1:1")
    assert done.exit_code == code
    assert ("interrupted" in done.stderr) is (code is Exit.INTERRUPTED)
    if arguments.startswith("consume"):
        assert done.stdout == "v\n"
        assert ("1 records were read from t" in done.stderr) is (code is Exit.DONE)


def test_the_page_explains_every_code() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Exit codes\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\d+) \|", section, re.MULTILINE) == [str(each.value) for each in Exit]


def test_every_command_that_asks_a_cluster_writes_json_but_for_those_that_the_page_names() -> None:
    without = {
        path
        for path in CONNECTING
        if not any(each.name == "output" for each in LEAVES[path].params)
    }
    assert without == TEXT_ONLY
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"`{each}`" in page for each in TEXT_ONLY)
