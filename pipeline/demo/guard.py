"""Protect the demo's server: accept requests only from its own page, and limit uploads.

Listening on 127.0.0.1 excludes other machines, but not other pages in the same browser. Any page can send a
request. A page whose name resolves to 127.0.0.1 (DNS rebinding) can also read the answer. The headers Origin
and Host reveal both cases.
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
FULL = f"the uploads have reached their limit of {QUOTA // 10**6} MB; restart the demo to delete them"
SECONDS = 120.0  # longest time of an upload
LATE = f"an upload may take at most {SECONDS:.0f} seconds; try again"
# no other page may embed the demo's page, and browsers must not guess content types
HEADERS = [
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
]
Refused = tuple[int, str]


def guarded(uploads: Path) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return a `lifespan` function for a Starlette application.

    The function puts a Guard before all handlers.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # not as `middleware`: Gradio's own middleware answers other origins, and would run before the guard
        assert app.middleware_stack is not None
        app.middleware_stack = Guard(app.middleware_stack, uploads)
        yield

    return lifespan


class _Upload:
    """Wrapper of a request's `receive`, which limits the time of an upload."""

    def __init__(self, receive: Receive, length: int, seconds: float):
        self._receive, self.missing = receive, length
        self._until = time.monotonic() + seconds
        self.late = False

    async def __call__(self) -> Message:
        """Return the next message of the upload; after the time limit, a disconnect message."""
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
        # the server reads at most the stated length of a body
        if "transfer-encoding" in headers:
            return 411, "send Content-Length: without it the size of the upload is unknown"
        if not (length := _length(headers)):
            return None
        # failed uploads are deleted already, and a file uploaded twice is stored once
        taken = sum(file.stat().st_size for file in self._uploads.rglob("*") if file.is_file())
        taken += sum(upload.missing for upload in self._running)
        return (413, FULL) if taken + length > self._quota else None

    async def _timed(self, upload: _Upload, scope: Scope, send: Send) -> None:
        """Let the application answer; replace its answer if the upload was too slow."""

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
    # do not wait for the rest of the body
    await PlainTextResponse(f"{said}\n", status, {"connection": "close"})(scope, receive, send)


def foreign(headers: Headers) -> Refused | None:
    """Return a refusal if the host is not local, or if the origin differs from the host; else None."""
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or not LOCAL.fullmatch(hosts[0]):
        return 403, "this page answers only under the names 127.0.0.1 and localhost"
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
        return 403, "this page does not answer requests of other pages"
    return None


def _length(headers: Headers) -> int:
    return int(headers.get("content-length", "0"))
