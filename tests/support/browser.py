"""A real Chromium for tests, driven by chromedriver over HTTP (the W3C WebDriver protocol).

A hundred lines over urllib do what tests of one page need. Everything that the browser complains
about is collected: violations of the page's policy and errors of its scripts.
"""

import asyncio
import base64
import json
import re
import shutil
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.bell import PATIENCE_SECONDS

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER: Final = shutil.which("chromedriver")
MISSING: Final = (
    None
    if CHROMIUM and CHROMEDRIVER
    else "there is no Chromium with its chromedriver here (Debian: chromium, chromium-driver)"
)
ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
POLL_SECONDS: Final = 0.05
STARTS_MAX: Final = 5
"""The attempts to start the driver."""


class ScriptFailed(AssertionError):
    """The driver answered with an error."""


@dataclass
class Browser:
    """One window."""

    base: str
    """The address of the session at its driver."""

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a command to the driver and return its value."""
        return await asyncio.to_thread(_call, method, self.base + path, body)

    async def open(self, url: str) -> None:
        """Open a page."""
        await self.call("POST", "/url", {"url": url})

    async def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page and return its result."""
        return await self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    async def until(
        self, script: str, *arguments: Any, wanted: Callable[[Any], bool] = bool
    ) -> Any:
        """Run a script until its result is the wanted one."""
        found = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS / 2):
                while not wanted(found := await self.run(script, *arguments)):
                    await _pause()
        except TimeoutError:
            text = await self.run("return document.body.innerText")
            raise ScriptFailed(f"{script} stays {found!r}; the page says: {text}") from None
        return found

    async def until_text(self, selector: str, words: str) -> str:
        """Wait until an element has these words."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText).join('\\n')"
        )
        found: str = await self.until(script, selector, wanted=lambda text: words in (text or ""))
        return found

    async def click(self, text: str, within: str = "body") -> None:
        """Click the first button with this text that can be clicked."""
        await self.until(
            """
            const found = [...document.querySelectorAll(arguments[1] + ' button')].find(
                e => e.innerText.trim() === arguments[0] && !e.disabled && e.offsetParent);
            if (found) found.click();
            return Boolean(found);
            """,
            text,
            within,
        )

    async def press(self, key: str) -> None:
        """Press and release a key where the focus is."""
        value = {"Enter": "\ue007", "Tab": "\ue004"}[key]
        actions = [{"type": each, "value": value} for each in ("keyDown", "keyUp")]
        await self.call(
            "POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]}
        )

    async def resize(self, width: int, height: int, *, is_dark: bool = False) -> None:
        """Show the page at this size and in this scheme."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self._cdp("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self._cdp("Emulation.setEmulatedMedia", {"features": [scheme]})

    async def screenshot(self, path: Path, *, is_whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        options = {"format": "png", "captureBeyondViewport": is_whole}
        found = await self._cdp("Page.captureScreenshot", options)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def complaints(self) -> list[str]:
        """Errors and violations of policies since the last call."""
        found = await self.call("POST", "/se/log", {"type": "browser"})
        return [each["message"] for each in found if each["level"] in ("SEVERE", "WARNING")]

    async def _cdp(self, command: str, parameters: Any) -> Any:
        return await self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})


async def _pause() -> None:
    """Let the page go on: it signals nothing to its driver."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await asyncio.wait({future}, timeout=POLL_SECONDS)


def _call(method: str, url: str, body: Any) -> Any:
    """Send a command to a driver and return its value."""
    try:
        return call(method, url, body)["value"]
    except urllib.error.HTTPError as error:
        found = json.loads(error.read())["value"]
        raise ScriptFailed(f"{found['error']}: {found['message'].splitlines()[0]}") from None


def call(method: str, url: str, body: Any) -> Any:
    """Send a request with a JSON body and return the JSON of its response."""
    data = None if method == "GET" or method == "DELETE" else json.dumps(body or {}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
        return json.load(response)


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Browser]:
    """A window with a profile of its own in `folder`; the browser ends with the block."""
    assert MISSING is None, MISSING
    async with driving() as port:
        server = f"http://127.0.0.1:{port}"
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {
                "binary": CHROMIUM,
                "args": [*ARGUMENTS, f"--user-data-dir={folder / 'profile'}"],
            },
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        body = {"capabilities": {"alwaysMatch": capabilities}}
        session = await asyncio.to_thread(_call, "POST", f"{server}/session", body)
        browser = Browser(f"{server}/session/{session['sessionId']}")
        try:
            yield browser
        finally:
            await browser.call("DELETE", "")


@asynccontextmanager
async def driving() -> AsyncIterator[int]:
    """A driver, by its port; it ends with the block."""
    said: list[str] = []
    for _ in range(STARTS_MAX):
        driver = await asyncio.create_subprocess_exec(
            str(CHROMEDRIVER), "--port=0", stdout=PIPE, stderr=STDOUT
        )
        assert driver.stdout is not None
        try:
            port = await _port_of(driver.stdout, said)
            if port is not None:
                # A full pipe would stop it.
                rest = asyncio.get_running_loop().create_task(driver.stdout.read())
                try:
                    yield port
                finally:
                    rest.cancel()
                return
        finally:
            if driver.returncode is None:
                driver.terminate()
            await driver.wait()
    raise ScriptFailed(f"chromedriver did not start in {STARTS_MAX} attempts: {''.join(said)}")


async def _port_of(output: asyncio.StreamReader, said: list[str]) -> int | None:
    """The port that a driver has chosen, from what it prints; None if it ends before.

    The driver takes a free port of IPv4, and ends if IPv6's of the same number is taken.
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := (await output.readline()).decode():
                said.append(line)
                if found := re.search(r"started successfully on port (\d+)", line):
                    return int(found[1])
    except TimeoutError:
        raise ScriptFailed(f"chromedriver does not start: {''.join(said)}") from None
    return None
