# SPDX-License-Identifier: BSD-3-Clause
"""The controller's page in a real browser, for tests.

The browser is driven by its DevTools protocol (https://chromedevtools.github.io/devtools-protocol):
JSON messages over a WebSocket on loopback.
"""

import asyncio
import base64
import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

BROWSER = "chromium-headless-shell"
LIMIT = 60.0  # seconds for one answer of the browser
SIZE = (1280, 800)
_LISTENS = re.compile(rb"DevTools listening on (ws://\S+)")


class Page:
    """A tab. @messages: what the page wrote to the console, and its exceptions."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse):
        self._socket = socket
        self._last = 0
        self._session: str | None = None
        self.messages: list[str] = []

    async def call(self, method: str, **params: object) -> dict:
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        async with asyncio.timeout(LIMIT):
            while True:
                answer = await self._socket.receive_json()
                self._note(answer)
                if answer.get("id") == number:
                    assert "error" not in answer, answer["error"]
                    return answer["result"]

    def _note(self, event: dict) -> None:
        details = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.messages.append(str(details["exceptionDetails"].get("exception", details)))
        elif event.get("method") == "Log.entryAdded":
            self.messages.append(details["entry"]["text"])

    async def open(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def ask(self, code: str) -> object:
        """The value of @code in the page; a promise is awaited."""
        answer = await self.call(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def wait(self, code: str) -> None:
        """Waits until @code is true in the page."""
        async with asyncio.timeout(LIMIT):
            while not await self.ask(f"Boolean({code})"):
                await asyncio.sleep(0.05)

    async def go(self, url: str) -> None:
        """Opens @url, and waits until the network is shown."""
        await self.call("Page.navigate", url=url)
        await self.wait("document.body?.dataset.ready")

    async def choose(self, field: str, value: str) -> None:
        """Chooses as a user does, and waits until the choice is shown."""
        await self.ask(
            f"{{ const field = document.getElementById('{field}'); field.value = '{value}';"
            "field.dispatchEvent(new Event('change', {bubbles: true})) }"
        )
        await self.wait(
            "document.body.dataset.ready ==="
            "(new URLSearchParams(location.search).get('show') || 'nothing')"
        )

    async def screenshot(self, path: Path) -> None:
        shot = await self.call("Page.captureScreenshot", format="png")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    """A tab of a browser that starts and ends here."""
    if shutil.which(BROWSER) is None:
        pytest.fail(f"{BROWSER} is not installed; run scripts/install-deps check")
    async with (
        _running() as address,
        aiohttp.ClientSession() as session,
        session.ws_connect(address, max_msg_size=0) as socket,
    ):
        page = Page(socket)
        await page.open()
        yield page


@asynccontextmanager
async def _running() -> AsyncIterator[str]:
    """A browser, with the address of its DevTools. Its processes are a session of their own, since
    the others go on when the first is killed."""
    with tempfile.TemporaryDirectory(prefix="hikyaku-browser-", ignore_cleanup_errors=True) as home:
        argv = [BROWSER, "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}"]
        argv += [f"--window-size={SIZE[0]},{SIZE[1]}", "--remote-debugging-port=0"]
        browser = await asyncio.create_subprocess_exec(
            *argv,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            yield await _address(browser.stderr)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            await browser.communicate()


async def _address(stderr: asyncio.StreamReader) -> str:
    said = b""
    async with asyncio.timeout(LIMIT):
        while line := await stderr.readline():
            said += line
            if found := _LISTENS.search(line):
                return found[1].decode()
    pytest.fail(f"{BROWSER} has ended: {said.decode(errors='replace')[-500:]}")
