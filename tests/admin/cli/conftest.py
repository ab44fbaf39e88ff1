"""Commands of the tests see no profile of the user who runs them."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Name a file of profiles that does not exist."""
    monkeypatch.setenv("METAQUORUM_PROFILES", str(tmp_path / "profiles.toml"))
    for name in ("BOOTSTRAP_SERVER", "BOOTSTRAP_CONTROLLER", "COMMAND_CONFIG", "PROFILE"):
        monkeypatch.delenv(f"METAQUORUM_{name}", raising=False)
