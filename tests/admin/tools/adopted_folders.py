"""Run `metaquorum adopt` in a test, and read the folders that it writes."""

from pathlib import Path

from click.testing import CliRunner, Result

from admin.cli.metadata_logs import adopt as command
from quorum.persistent_state import LOG_FOLDER
from tests.admin.tools.old_controllers import fingerprint


def adopt(*arguments: object) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False)


def adopted(folder: Path, *sources: Path, voters: str | None = None) -> Result:
    """Adopt into `folder`; the originals stay as they are, whatever comes of it."""
    before = [fingerprint(source) for source in sources]
    more = () if voters is None else ("--voters", voters)
    result = adopt(*sources, "--dir", folder, *more)
    assert [fingerprint(source) for source in sources] == before
    return result


def refused(folder: Path, *sources: Path, voters: str | None = None) -> str:
    """The reason of a refusal, which leaves nothing behind."""
    result = adopted(folder, *sources, voters=voters)
    assert result.exit_code == 1
    assert not folder.exists()
    assert "Traceback" not in result.stderr
    return result.stderr.removeprefix("Error: ").rstrip("\n")


def log_folder(folder: Path, node_id: int) -> Path:
    return folder / f"controller-{node_id}" / "data" / LOG_FOLDER


def log_of(folder: Path, node_id: int) -> bytes:
    (path,) = log_folder(folder, node_id).glob("*.log")
    return path.read_bytes()
