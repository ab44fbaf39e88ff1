"""The file of the profiles: named clusters with default values of options."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from quorum.version import VERSION

Profile: TypeAlias = Mapping[str, str]

PROFILE_OPTIONS: Final = (
    "bootstrap-server",
    "bootstrap-controller",
    "command-config",
    "timeout",
    "output",
)
"""The options that a profile may have a value for."""
FORMAT: Final = 1
"""The format of the file; a file that names none has format 1."""
FILE_BYTES_MAX: Final = 1024 * 1024
VARIABLE: Final = "METAQUORUM_PROFILES"
"""The variable that names another file of profiles."""


class BadProfile(ValueError):
    """A profile that does not exist, or a file that cannot be used."""


def profiles_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The file of the profiles of this user."""
    if named := environ.get(VARIABLE):
        return Path(named)
    # A user that is only a number, as in a container, may have no home: Debian's name for that.
    found = os.path.expanduser("~")
    home = Path("/nonexistent" if found == "~" else found)
    config = environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(config) / "metaquorum" / "profiles.toml"


class Profiles:
    """The profiles of a file, and which of them is in use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.current: str | None = None
        self.by_name: dict[str, Profile] = {}
        try:
            is_there = path.exists()
        except PermissionError:
            # The home of another user, under which `sudo -u` runs this one.
            is_there = False
        if is_there:
            self._read()

    def get(self, name: str) -> Profile:
        """Return the profile of this name; raises `BadProfile`."""
        found = self.by_name.get(name)
        if found is None:
            there = ", ".join(sorted(self.by_name)) or "none"
            raise BadProfile(f"there is no profile {name} in {self.path}; there are: {there}")
        return found

    def save(self) -> None:
        """Write the file, which may name credentials: for this user only."""
        from quorum.log.filesystem import replace_file

        current = [f"format = {FORMAT}"]
        if self.current is not None:
            current.append(f"current = {_quoted(self.current)}")
        lines = []
        for name, profile in sorted(self.by_name.items()):
            lines.append(f"[profiles.{_quoted(name)}]")
            lines += [f"{option} = {_quoted(value)}" for option, value in profile.items()]
            lines.append("")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.path, "\n".join([*current, "", *lines]).encode())

    def _read(self) -> None:
        import tomllib

        from admin.text_file import read_text

        try:
            data = tomllib.loads(read_text(self.path, FILE_BYTES_MAX))
        except tomllib.TOMLDecodeError as error:
            raise BadProfile(f"{self.path}: {error}") from None
        except ValueError as error:
            raise BadProfile(str(error)) from None
        if (found := data.get("format", FORMAT)) != FORMAT:
            raise BadProfile(
                f"{self.path} has format {found}, and metaquorum {VERSION} reads {FORMAT}: use the "
                "newer release, or name another file in METAQUORUM_PROFILES"
            )
        for name, profile in _table(data.get("profiles", {}), self.path).items():
            self.by_name[name] = self._checked(name, profile)
        current = data.get("current")
        self.current = None if current is None else str(current)

    def _checked(self, name: str, profile: object) -> Profile:
        for option, value in _table(profile, self.path).items():
            if option not in PROFILE_OPTIONS or not isinstance(value, str):
                raise BadProfile(
                    f"{self.path}: profile {name}: {option} = {value!r} is not an option as text; "
                    f"the options are {', '.join(PROFILE_OPTIONS)}"
                )
        return dict(_table(profile, self.path))


def _quoted(text: str) -> str:
    """Return `text` as a string of TOML, which is one of JSON without escaped surrogates."""
    return json.dumps(text, ensure_ascii=False)


def _table(value: object, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadProfile(f"{path}: {value!r} is not a table")
    return value


def in_use(name: str | None) -> Profile:
    """Return the profile of this name or, without one, that of `metaquorum profile use`."""
    profiles = Profiles(profiles_file())
    chosen = name or profiles.current
    return {} if chosen is None else profiles.get(chosen)
