"""The version of this release: the one place that names it.

The build takes it from here (`pyproject.toml`), so a program that runs from the source tree knows
its version too. A release has the tag `v` and this version; docs/upgrading.md has the rules.
"""

from typing import Final

VERSION: Final = "0.1.0"
SOFTWARE_NAME: Final = "metaquorum"
"""The name by which nodes and clients introduce themselves (KIP-511)."""
