"""Who may speak to the page: browsers that opened it under a local name, and not for more than the disk has.

Listening on 127.0.0.1 keeps other machines out, but not the pages that the owner's browser has open: any of
them can send a request there, and one whose name is made to lead to 127.0.0.1 (DNS rebinding) reads the
answer, too. Both tell on themselves, by the headers Origin and Host.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.demo.pair_html import LARGEST

LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", re.IGNORECASE)
QUOTA = 25 * LARGEST  # bytes of all uploads together
FULL = f"the uploads take {QUOTA // 10**6} MB together, and no more is kept; start the demo again to empty it"
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


class Guard:
    """An application that refuses foreign hosts and origins, and uploads beyond the quota."""

    def __init__(self, app: ASGIApp, uploads: Path, quota: int = QUOTA):
        self._app, self._uploads, self._quota = app, uploads, quota
        self._taken = self._running = 0  # bytes on the disk or on their way; requests that bring some

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if refused := foreign(headers) or self._too_much(headers):
            await PlainTextResponse(f"{refused[1]}\n", refused[0])(scope, receive, send)
            return
        await self._counted(_length(headers), scope, receive, send)

    def _too_much(self, headers: Headers) -> Refused | None:
        # the server reads no more of a body than the length that its headers say
        if "transfer-encoding" in headers:
            return 411, "say Content-Length: without it nobody knows how much would be kept"
        if not self._running:
            # failed uploads are gone, and a file that was sent twice lies there once
            self._taken = sum(file.stat().st_size for file in self._uploads.rglob("*") if file.is_file())
        length = _length(headers)
        return (413, FULL) if length and self._taken + length > self._quota else None

    async def _counted(self, length: int, scope: Scope, receive: Receive, send: Send) -> None:
        self._taken += length
        self._running += bool(length)
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= bool(length)


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
