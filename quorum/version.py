"""The version of this release: the one place that names it.

The build takes it from here (`pyproject.toml`), so a program that runs from the source tree knows
its version too. A release has the tag `v` and this version; docs/upgrading.md has the rules.
"""

from typing import Final

VERSION: Final = "0.1.0"
SOFTWARE_NAME: Final = "metaquorum"
"""The name by which nodes and clients introduce themselves (KIP-511)."""

VERSION_CHARACTERS_MAX: Final = 64
"""Of a version that another node names."""


def version_of_peer(text: str | None) -> str:
    """Return the version that another node names, or "" for none and for what is no version."""
    is_one = bool(text) and len(text or "") <= VERSION_CHARACTERS_MAX
    return text if text and is_one and text.isascii() and text.isprintable() else ""
