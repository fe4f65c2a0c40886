"""Who may speak to the page: browsers that opened it under a local name, and not for more than the disk has.

Listening on 127.0.0.1 keeps other machines out, but not the pages that the owner's browser has open: any of
them can send a request there, and one whose name is made to lead to 127.0.0.1 (DNS rebinding) reads the
answer, too. Both tell on themselves, by the headers Origin and Host.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.demo.pair_html import LARGEST

LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", re.IGNORECASE)
QUOTA = 25 * LARGEST  # bytes of all uploads together
FULL = f"the uploads take {QUOTA // 10**6} MB together, and no more is kept; start the demo again to empty it"
SECONDS = 120.0  # that an upload may take
LATE = f"an upload takes {SECONDS:.0f} seconds at most; try again"
# nobody's page shows this one within its own, and a browser believes what an answer says it is
HEADERS = [
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
]
Refused = tuple[int, str]


def guarded(uploads: Path) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """For an application's `lifespan`: puts the guard around all that it answers with."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # not among its `middleware`: there Gradio's own, which answers other origins, would stand before it
        assert app.middleware_stack is not None
        app.middleware_stack = Guard(app.middleware_stack, uploads)
        yield

    return lifespan


class _Upload:
    """A request's body on its way to the application, in place of `receive`."""

    def __init__(self, receive: Receive, length: int, seconds: float):
        self._receive, self.missing = receive, length
        self._until = time.monotonic() + seconds
        self.late = False

    async def __call__(self) -> Message:
        """The next part. An upload that takes too long ends as if the browser had gone."""
        if not self.missing:
            return await self._receive()
        try:
            async with asyncio.timeout(self._until - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            self.late = True
            return {"type": "http.disconnect"}
        self.missing = max(0, self.missing - len(message.get("body", b"")))
        return message


class Guard:
    """An application that refuses foreign hosts and origins, and uploads that are too large or too slow."""

    def __init__(self, app: ASGIApp, uploads: Path, quota: int = QUOTA, seconds: float = SECONDS):
        self._app, self._uploads, self._quota, self._seconds = app, uploads, quota, seconds
        self._running: set[_Upload] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        if refused := foreign(headers) or self._too_much(headers):
            await _refuse(refused, scope, receive, hardened)
        elif scope["type"] == "http" and (length := _length(headers)):
            await self._timed(_Upload(receive, length, self._seconds), scope, hardened)
        else:
            await self._app(scope, receive, hardened)

    def _too_much(self, headers: Headers) -> Refused | None:
        # the server reads no more of a body than the length that its headers say
        if "transfer-encoding" in headers:
            return 411, "say Content-Length: without it nobody knows how much would be kept"
        if not (length := _length(headers)):
            return None
        # what failed is gone, and a file that was sent twice is there once
        taken = sum(file.stat().st_size for file in self._uploads.rglob("*") if file.is_file())
        taken += sum(upload.missing for upload in self._running)
        return (413, FULL) if taken + length > self._quota else None

    async def _timed(self, upload: _Upload, scope: Scope, send: Send) -> None:
        """Let the application answer; what it says of an upload that was too slow is replaced."""

        async def unless_late(message: Message) -> None:
            if not upload.late:
                await send(message)

        self._running.add(upload)
        try:
            await self._app(scope, upload, unless_late)
        except Exception:
            if not upload.late:
                raise
        finally:
            self._running.discard(upload)
        if upload.late:
            await _refuse((408, LATE), scope, upload, send)


async def _refuse(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    status, said = refused
    # the rest of a body is not waited for
    await PlainTextResponse(f"{said}\n", status, {"connection": "close"})(scope, receive, send)


def foreign(headers: Headers) -> Refused | None:
    """Why a request is none of the page's own: its host is not local, or its origin another than its host."""
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or not LOCAL.fullmatch(hosts[0]):
        return 403, "this page answers under the names 127.0.0.1 and localhost alone"
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
        return 403, "this page answers no other page"
    return None


def _length(headers: Headers) -> int:
    return int(headers.get("content-length", "0"))
