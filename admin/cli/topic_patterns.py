"""Topics as commands name them: by name, or by a glob pattern.

`*` stands for any text, `?` for one character, `[ab]` for one of these; no topic has them in its
name, but every second one has the `.` of regular expressions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from admin.client.channels import Response
    from admin.model import TopicDescription

_WILD = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Check whether a name stands for several topics."""
    return not _WILD.isdisjoint(name)


def select(names: Iterable[str], wanted: Collection[str]) -> list[str]:
    """Return those of `names` that are wanted, by name or pattern; all if nothing is."""
    exact = {each for each in wanted if not is_pattern(each)}
    patterns = [each for each in wanted if is_pattern(each)]
    return [
        name
        for name in names
        if not wanted or name in exact or any(fnmatchcase(name, each) for each in patterns)
    ]


def unmatched(names: Collection[str], wanted: Iterable[str]) -> list[str]:
    """Return a sentence for each wanted name or pattern that no topic has."""
    return [
        f"no topic matches {each}" if is_pattern(each) else f"there is no topic {each}"
        for each in wanted
        if not select(names, [each])
    ]


def check_found(names: Collection[str], wanted: Iterable[str]) -> None:
    """Raise an error that names the wanted topics that do not exist."""
    if missing := unmatched(names, dict.fromkeys(wanted)):
        raise click.ClickException("; ".join(missing))


async def find_topics(
    client: "AdminClient", wanted: Sequence[str], *, stale: bool = False
) -> "Response[Mapping[str, TopicDescription]]":
    """Describe the wanted topics, or all, by name; those that do not exist are left out."""
    named = None if not wanted or any(map(is_pattern, wanted)) else wanted
    found = await client.topics(named, stale=stale)
    chosen = select(sorted(found.value), wanted)
    return found._replace(value={name: found.value[name] for name in chosen})
