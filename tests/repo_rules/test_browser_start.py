"""The driver of the browser of tests: started again where a port that it wants is taken."""

from pathlib import Path

import pytest

from tests.support import browser

PORT = 4711


def driver(folder: Path, failures: int) -> Path:
    """A driver that ends at its first starts, as one does whose port of IPv6 is taken."""
    path = folder / "driver"
    path.write_text(
        f"""#!/bin/sh
echo started >>{folder}/starts
if [ "$(wc -l <{folder}/starts)" -le {failures} ]; then
    echo "IPv6 port not available. Exiting..."
    echo "bind() failed" >&2
    exit 1
fi
echo "ChromeDriver was started successfully on port {PORT}."
exec tail -f /dev/null
"""
    )
    path.chmod(0o755)
    return path


async def test_a_driver_that_ends_before_it_names_its_port_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "CHROMEDRIVER", driver(tmp_path, browser.STARTS_MAX - 1))
    async with browser.driving() as port:
        assert port == PORT


async def test_the_error_of_a_driver_that_never_starts_has_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "CHROMEDRIVER", driver(tmp_path, browser.STARTS_MAX))
    with pytest.raises(browser.ScriptFailed) as raised:
        async with browser.driving():
            raise AssertionError("it did not start")
    said = str(raised.value)
    assert said.startswith(f"chromedriver did not start in {browser.STARTS_MAX} attempts: ")
    for words in ("IPv6 port not available", "bind() failed"):
        assert said.count(words) == browser.STARTS_MAX
