"""The nodes that a command asks: an option, the environment, a profile, the file of credentials."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.cli.main import group
from admin.cli.profile_file import Profiles, profiles_file


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(group, arguments, env=environ)


def asked(*arguments: str, **environ: str) -> str:
    """The address that a command has asked in vain."""
    done = run("topics", "list", "--timeout", "20ms", *arguments, **environ)
    assert done.exit_code == 1, done.output
    return done.stderr.partition("no answer from ")[2].partition(" ")[0]


def test_options_win_over_environment_over_profile_over_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.controllers=127.0.0.1:1\n")
    assert asked("--command-config", str(file)) == "127.0.0.1:1"
    done = run(
        "profile", "set", "prod", "--bootstrap-server", "127.0.0.1:2", "--command-config", str(file)
    )
    assert done.exit_code == 0, done.output
    assert asked("--profile", "prod") == "127.0.0.1:2"
    assert run("profile", "use", "prod").stderr == "Profile prod is in use.\n"
    assert asked() == "127.0.0.1:2"
    assert asked(METAQUORUM_BOOTSTRAP_CONTROLLER="127.0.0.1:3") == "127.0.0.1:3"
    environ = {"METAQUORUM_BOOTSTRAP_SERVER": "127.0.0.1:3"}
    assert asked("--bootstrap-controller", "127.0.0.1:4", **environ) == "127.0.0.1:4"
    assert run("profile", "use", "--none").exit_code == 0
    assert "choose a profile" in run("topics", "list").stderr


def test_a_profile_has_time_out_and_output_and_can_be_chosen_by_the_environment() -> None:
    server = ("--bootstrap-server", "127.0.0.1:2")
    run("profile", "set", "a b.é", *server, "--timeout", "30ms", "--output", "json")
    done = run("topics", "list", METAQUORUM_PROFILE="a b.é")
    assert "no answer from 127.0.0.1:2 within 30 ms" in done.stderr
    # Without -o json this command takes the format of the profile for no contradiction.
    executed = run("reassign-partitions", "--cancel-all", "--profile", "a b.é")
    assert executed.exit_code == 1, executed.output
    assert '"timeout": "30ms"' in run("profile", "list", "-o", "json").stdout
    assert "a b.é  " in run("profile", "list").stdout
    run("profile", "remove", "a b.é")
    none = run("profile", "list")
    assert (none.stdout, none.stderr) == ("", "There are no profiles.\n")


def test_a_wrong_value_is_blamed_on_where_it_comes_from() -> None:
    environ = {"METAQUORUM_BOOTSTRAP_SERVER": "127.0.0.1"}
    given = run("topics", "list", "--bootstrap-server", "127.0.0.2", **environ)
    assert "Invalid value for '--bootstrap-server': '127.0.0.2': a port is" in given.stderr
    of_variable = "'--bootstrap-server' (env var: 'METAQUORUM_BOOTSTRAP_SERVER'): '127.0.0.1': a"
    assert of_variable in run("topics", "list", **environ).stderr
    file = profiles_file()
    file.write_text('[profiles.bad]\nbootstrap-server = "127.0.0.3"\n')
    of_profile = run("topics", "list", "--profile", "bad")
    assert "'--bootstrap-server' (of the profile in use): '127.0.0.3'" in of_profile.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("profile", "use", "tset"), "there is no profile tset in "),
        (("topics", "list", "--profile", "tset"), "there are: test"),
        (("profile", "set", "x"), "give one of --bootstrap-server and --bootstrap-controller"),
        (("profile", "set", "x", "--bootstrap-server", "h"), "'h': a port is missing"),
        (("profile", "set", "x", "--bootstrap-server", "h:1", "--timeout", "5x"), "'5x' has no"),
    ],
)
def test_a_wrong_profile_is_a_usage_error(arguments: tuple[str, ...], said: str) -> None:
    run("profile", "set", "test", "--bootstrap-server", "127.0.0.1:2")
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert said in done.stderr.splitlines()[-1]


def test_a_damaged_file_of_profiles_is_named(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    for text, said in (
        ("profiles = 3", "3 is not a table"),
        ("[profiles.a]\nservers = 'h:1'", "profile a: servers = 'h:1' is not an option as text"),
        ("[", "profiles.toml: "),
    ):
        path.write_text(text)
        done = run("topics", "list")
        assert done.exit_code == 2
        assert said in done.stderr


def test_a_user_without_a_home_has_no_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    # As the library answers for a user that is only a number.
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert profiles_file({}) == Path("/nonexistent/.config/metaquorum/profiles.toml")


def test_the_home_of_another_user_has_no_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = profiles_file({})
    path.parent.mkdir(parents=True)
    (tmp_path / "home").chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        found = Profiles(path)
    finally:
        if is_root:
            os.seteuid(0)
    assert found.by_name == {}
