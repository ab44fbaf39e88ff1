"""Where settings come from: one file (TOML or properties), the environment, flags.

What is nearer to the command wins: a flag over the environment over the file. Every value keeps
where it was written, so that an error can say so; what a value means is judged by its `Setting`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from admin.settings import (
    BY_ENVIRONMENT,
    ENVIRONMENT_PREFIX,
    InvalidSetting,
    Setting,
    find,
    suggestion,
)

FILE_BYTES_MAX: Final = 1024 * 1024

COMMAND_LINE_VARIABLES: Final = frozenset(
    {"METAQUORUM_BOOTSTRAP_SERVER", "METAQUORUM_BOOTSTRAP_CONTROLLER"}
)
"""Variables with our prefix that are options of commands, not settings of a node."""


@dataclass(frozen=True, slots=True)
class Given:
    """A setting with the text that it was given, and where."""

    setting: Setting
    text: str
    where: str

    def value(self) -> Any:
        """What the text stands for; raises `InvalidSetting` that says where it was written."""
        try:
            return self.setting.parse(self.text)
        except InvalidSetting as error:
            raise InvalidSetting(f"{self.where}: {error}") from None


def gather(
    file: Path | None, environ: Mapping[str, str], overrides: Sequence[str]
) -> dict[str, Given]:
    """Every setting that was given, by name; raises `InvalidSetting` for what is none.

    `overrides` are `name=value`, as the flag `--override` takes them.
    """
    given: dict[str, Given] = {}
    if file is not None:
        given.update((one.setting.name, one) for one in from_file(file))
    given.update((one.setting.name, one) for one in from_environment(environ))
    given.update((one.setting.name, one) for one in from_flags(overrides))
    return given


def from_flags(overrides: Sequence[str]) -> Iterator[Given]:
    """The settings of `--override name=value`."""
    for override in overrides:
        name, separator, text = override.partition("=")
        if not separator:
            raise InvalidSetting(f"--override {override} is not name=value")
        yield _given(name.strip(), text, f"--override {override}")


def from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    """The settings of variables like METAQUORUM_NODE_ID."""
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in COMMAND_LINE_VARIABLES:
            continue
        setting = BY_ENVIRONMENT.get(variable)
        if setting is None:
            hint = suggestion(variable, BY_ENVIRONMENT)
            raise InvalidSetting(f"environment variable {variable} is not a setting{hint}")
        yield Given(setting, environ[variable], f"environment variable {variable}")


def from_file(path: Path) -> Iterator[Given]:
    """The settings of a `.toml` or `.properties` file."""
    text = _read(path)
    match path.suffix:
        case ".toml":
            yield from _from_toml(text, path)
        case ".properties":
            yield from _from_properties(text, path)
        case suffix:
            shown = f"the suffix {suffix}" if suffix else "no suffix"
            raise InvalidSetting(f"{path} has {shown}; a configuration is .toml or .properties")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise InvalidSetting(f"{path} is larger than {FILE_BYTES_MAX} bytes: no configuration is")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"{path} is not UTF-8 text: byte {error.start} is wrong") from None


def _from_toml(text: str, path: Path) -> Iterator[Given]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{path} is not TOML: {error}") from None
    seen: set[str] = set()
    for name, value in _flat(table, ""):
        if name in seen:
            raise InvalidSetting(f"{path}: {name} is set twice, in quotes and without")
        seen.add(name)
        yield _given(name, _as_text(name, value, path), str(path))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """The leaves of nested tables: `node.id = 1` and `[node] id = 1` are the same in TOML."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _as_text(name: str, value: object, path: Path) -> str:
    match value:
        case bool():
            raise InvalidSetting(f"{path}: {name} is true or false; no setting is")
        case str() | int():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
        case _:
            raise InvalidSetting(
                f"{path}: {name} is {value!r}; write text in quotes, a whole number, "
                "or a list of texts"
            )


def _from_properties(text: str, path: Path) -> Iterator[Given]:
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}:{number}"
        written = line.strip()
        if not written or written[0] in "#!":
            continue
        if "\\" in written:
            raise InvalidSetting(f"{where}: backslashes are not understood; write one line plainly")
        name, separator, value = written.partition("=")
        if not separator:
            raise InvalidSetting(f"{where}: {written!r} is not name=value")
        name = name.strip()
        if name in lines:
            raise InvalidSetting(f"{where}: {name} was set in line {lines[name]} already")
        lines[name] = number
        yield _given(name, value.strip(), where)


def _given(name: str, text: str, where: str) -> Given:
    try:
        return Given(find(name), text, where)
    except InvalidSetting as error:
        raise InvalidSetting(f"{where}: {error}") from None
