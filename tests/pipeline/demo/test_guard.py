"""The guard around any application: what counts against the quota, and what comes free again."""

import asyncio

import pytest

from pipeline.demo.guard import Guard

HERE = {"host": "localhost:7860"}


class Asked:
    """An application that keeps each body as a file, or waits in its middle until it is let go."""

    def __init__(self, folder, quota, seconds=30):
        self.folder, self.guard = folder, Guard(self, folder, quota, seconds)
        self.go_on, self.seen = asyncio.Event(), []

    async def __call__(self, scope, receive, send):
        self.seen.append(scope["path"])
        if scope["path"] == "/slow":
            await self.go_on.wait()
        if scope["path"] != "/lost":
            length = int(dict(scope["headers"]).get(b"content-length", 0))
            (self.folder / scope["path"][1:]).write_bytes(bytes(length))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async def ask(self, path, length=None, kind="http", **headers):
        """The status of the answer."""
        said = HERE | headers | ({} if length is None else {"content-length": str(length)})
        sent = []

        async def send(message):
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in said.items()]
        scope = {"type": kind, "path": path, "headers": raw, "method": "POST", "extensions": {}}
        await self.guard(scope, None, send)
        return sent[0]["status"]


@pytest.fixture
def in_loop():
    loop = asyncio.new_event_loop()  # not the thread's current one: that is Gradio's, which nobody closes
    yield loop.run_until_complete
    loop.close()


def test_all_uploads_together_have_a_quota(tmp_path, in_loop):
    async def asking():
        asked = Asked(tmp_path, 100)
        assert await asked.ask("/a", 60) == 200
        assert await asked.ask("/b", 41) == 413
        assert await asked.ask("/b", 40) == 200
        assert await asked.ask("/c", 1) == 413
        assert await asked.ask("/none") == await asked.ask("/empty", 0) == 200  # questions are no uploads
        (tmp_path / "a").unlink()
        assert await asked.ask("/c", 60) == 200
        assert asked.seen == ["/a", "/b", "/none", "/empty", "/c"]

    in_loop(asking())


def test_what_is_on_its_way_counts_and_what_failed_comes_free(tmp_path, in_loop):
    async def asking():
        asked = Asked(tmp_path, 100)
        slow = asyncio.create_task(asked.ask("/slow", 70))
        await asyncio.sleep(0)
        for _ in range(10):  # one that hangs keeps its own share, and no other's
            assert await asked.ask("/lost", 30) == 200
        assert await asked.ask("/a", 31) == 413
        assert await asked.ask("/a", 30) == 200
        asked.go_on.set()
        assert await slow == 200
        assert await asked.ask("/b", 1) == 413

    in_loop(asking())


@pytest.mark.parametrize("how", ["falls", "returns"])
def test_a_slow_upload_ends_with_a_line_and_comes_free(tmp_path, in_loop, how):
    parts = [{"type": "http.request", "body": b"1234", "more_body": True}]
    seen, sent = [], []

    async def receive():
        if parts:
            return parts.pop()
        return await asyncio.Event().wait()

    async def app(scope, receive, send):
        seen.extend([await receive(), await receive()])
        await send({"type": "http.response.start", "status": 500, "headers": []})
        if how == "falls":
            raise RuntimeError("gone")

    async def send(message):
        sent.append(message)

    raw = [(b"host", b"localhost"), (b"content-length", b"10")]
    guard = Guard(app, tmp_path, 100, seconds=0.05)
    in_loop(guard({"type": "http", "path": "/", "headers": raw, "method": "POST"}, receive, send))
    assert [message["type"] for message in seen] == ["http.request", "http.disconnect"]
    assert [message["status"] for message in sent if "status" in message] == [408]
    assert guard._running == set()


def test_no_answer_is_shown_within_another_page(tmp_path, in_loop):
    async def asking(**headers):
        sent = []

        async def send(message):
            sent.append(message)

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})

        raw = [(b"host", headers.get("host", "localhost").encode())]
        await Guard(app, tmp_path)({"type": "http", "headers": raw, "method": "GET"}, None, send)
        return dict(sent[0]["headers"])

    for headers in (in_loop(asking()), in_loop(asking(host="evil.example"))):
        assert headers[b"x-frame-options"] == b"DENY"
        assert headers[b"content-security-policy"] == b"frame-ancestors 'none'"
        assert headers[b"x-content-type-options"] == b"nosniff"


def test_a_websocket_of_another_page_is_refused_and_its_start_is_not(tmp_path, in_loop):
    async def asking():
        asked = Asked(tmp_path, 100)
        assert await asked.ask("/a", kind="websocket", origin="http://evil.example") == 403
        assert asked.seen == []
        await asked.ask("/a", kind="lifespan", host="none")
        assert asked.seen == ["/a"]

    in_loop(asking())
