"""Case files: failing runs, kept as JSON, to be run again for ever after.

A case has the whole profile of a run, not only its seed: the profile stays if later seeds are drawn
in another way. `VERSION` changes with the meaning of a field.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec

from chaos.cluster.profile import ClusterProfile
from chaos.simulation.profile import Fault, Hostility, Profile

FORMAT: Final = "metaquorum chaos case"
VERSION: Final = 1
BYTES_MAX: Final = 1 << 20
REPLICAS_MAX: Final = 20
LIMIT_MORE_MS: Final = 3_000
"""A run that is to fail in the same way gets as long as the first one, and this."""
KINDS: Final[Mapping[str, type[Profile]]] = {"quorum": Profile, "cluster": ClusterProfile}


def limit_ms_of(rule: str, at_ms: int) -> int | None:
    """The virtual time that a run has to fail in the same way as one that failed at `at_ms`."""
    return None if rule == "liveness" else at_ms + LIMIT_MORE_MS


class InvalidCase(ValueError):
    """A file is no case that this release can run; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case."""

    profile: Profile
    rule: str
    """The promise that the run violated when the case was made."""
    text: str
    at_ms: int
    """The virtual time of the violation."""
    made_by: str
    """The release and commit of the code that violated it."""

    @property
    def limit_ms(self) -> int | None:
        """The virtual time after which the run has passed.

        Without an end the faults that shrinking left out would be missed in it.
        """
        return limit_ms_of(self.rule, self.at_ms)

    def to_json(self) -> str:
        """The text of its file."""
        is_cluster = isinstance(self.profile, ClusterProfile)
        content = {
            "format": FORMAT,
            "version": VERSION,
            "rule": self.rule,
            "text": self.text,
            "at_ms": self.at_ms,
            "made_by": self.made_by,
            "kind": "cluster" if is_cluster else "quorum",
            "profile": _plain(self.profile),
        }
        return f"{json.dumps(content, indent=2)}\n"


def read_case(path: Path) -> Case:
    """Read a file; raises `InvalidCase` or `OSError`."""
    with path.open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    try:
        if len(data) > BYTES_MAX:
            raise InvalidCase(f"it has more than {BYTES_MAX} bytes")
        return _case(json.loads(data))
    except (InvalidCase, ValueError, TypeError, AssertionError) as error:
        raise InvalidCase(f"{path} is no case that can be run: {error}") from None


def _case(content: Any) -> Case:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidCase(f'it lacks "format": "{FORMAT}"')
    if content.get("version") != VERSION:
        raise InvalidCase(f"its version is {content.get('version')}; this release runs {VERSION}")
    kind = KINDS.get(content.get("kind", ""))
    if kind is None:
        raise InvalidCase(f"its kind is {content.get('kind')!r}, not one of {', '.join(KINDS)}")
    values = dict(content.get("profile") or {})
    known = {each.name for each in fields(kind)}
    if values.keys() - known:
        raise InvalidCase(f"its profile has {', '.join(sorted(values.keys() - known))}, unknown")
    values["faults"] = [_named(Fault, each) for each in values.get("faults", ())]
    values["hostility"] = _named(Hostility, values.get("hostility", "NONE"))
    values["strikes"] = [
        {**each, "fault": _named(Fault, each.get("fault"))} for each in values.get("strikes", ())
    ]
    profile = msgspec.convert(values, kind)
    if not 1 <= profile.voters <= REPLICAS_MAX or not 0 <= profile.observers <= REPLICAS_MAX:
        raise InvalidCase(f"it has more than {REPLICAS_MAX} replicas, or no voter")
    at_ms = msgspec.convert(content.get("at_ms"), int)
    texts = (content.get(each, "") for each in ("rule", "text", "made_by"))
    rule, text, made_by = map(str, texts)
    return Case(profile=profile, rule=rule, text=text, at_ms=at_ms, made_by=made_by)


def _named(kind: type[Enum], name: object) -> Any:
    if name not in kind.__members__:
        raise InvalidCase(f"it names {name!r}, which is no {kind.__name__.lower()} of this release")
    return kind[str(name)]


def _plain(value: Any) -> Any:
    """A value of JSON; enumerations by their names, which outlive their texts."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value
