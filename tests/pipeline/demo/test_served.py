"""The demo as a process of its own: whom it answers, what it keeps, and what is left when it ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from pipeline.demo import guard
from tests.running import ROOT

PART = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
UPLOAD = {"Content-Type": "multipart/form-data; boundary=x"}
PATH = "/gradio_api/upload"
MISLEADING = {
    "http_proxy": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "all_proxy": "socks5://127.0.0.1:9",
    "no_proxy": "::1, [",
    "SSL_CERT_FILE": "/nowhere",
    "GRADIO_ROOT_PATH": "/elsewhere",
    "GRADIO_SERVER_PORT": "no number",
}


class Served:
    """The demo on a free port; all temporary files, those of its imports, too, lie in `folder`."""

    def __init__(self, starter: subprocess.Popen[str], folder: Path):
        self.starter, self.folder, self.ended = starter, folder, None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        own = folder / str(self.port)
        own.mkdir()
        starter.stdin.write(f"{own} {self.port}\n")
        starter.stdin.flush()
        self.process = int(starter.stdout.readline())
        assert "open http" in starter.stdout.readline()

    def ask(self, method="GET", path="/", body=None, length=None, **headers):
        """The answer's status and text; `length` is what is said of the body's."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        said = {"Host": f"127.0.0.1:{self.port}"} | headers
        if body is not None:
            said |= UPLOAD | {"Content-Length": str(length or len(body))}
        for name, value in said.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    def half(self):
        """An upload that stops in its middle: the connection."""
        connection = socket.create_connection(("127.0.0.1", self.port))
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost:{self.port}\r\nContent-Length: 100000\r\n"
        connection.sendall(f"{head}Content-Type: {UPLOAD['Content-Type']}\r\n\r\n".encode() + PART + b"half")
        return connection

    def ends(self, how):
        """By a signal, with nothing left."""
        self.end(how)
        assert self.ended == 128 + how
        assert [path for path in self.folder.rglob("*") if "uploads" in str(path)] == []
        assert self.files() == []

    def end(self, how):
        os.kill(self.process, how)
        self.ended = int(self.starter.stdout.readline())

    def files(self):
        return [file for file in self.folder.rglob("*") if file.is_file()]


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    """The process that imports the demo, and the folder of its temporary files."""
    folder = tmp_path_factory.mktemp("starter")
    command = [sys.executable, "-m", "tests.pipeline.demo.serving"]
    # a proxy that nobody answers at, and what else misleads Gradio's question to its own page
    environment = os.environ | {"TMPDIR": str(folder), "OMP_NUM_THREADS": "1"} | MISLEADING
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as running:
        yield running, folder


@pytest.fixture
def served(starter):
    running = Served(*starter)
    yield running
    if running.ended is None:
        running.end(signal.SIGKILL)


def test_uploads_are_gone_when_it_is_told_to_end(served):
    assert served.ask("POST", PATH, PART + b"whole\r\n--x--\r\n")[0] == 200
    with served.half():
        until = time.monotonic() + 30
        while len(served.files()) != 2:
            assert time.monotonic() < until, served.files()
            time.sleep(0.05)
        served.ends(signal.SIGTERM)


def test_it_answers_its_own_page_alone_and_keeps_no_more_than_the_quota(served):
    for host in (f"127.0.0.1:{served.port}", f"LocalHost:{served.port}", "[::1]:7860", "localhost"):
        assert served.ask(Host=host)[0] == 200
        assert served.ask(Host=host, Origin=f"http://{host}")[0] == 200
    body = PART + b"strange\r\n--x--\r\n"
    for method, path in (("GET", "/"), ("GET", "/config"), ("POST", PATH), ("OPTIONS", PATH)):
        sent = body if method == "POST" else None
        wanted = {"Access_Control_Request_Method": "POST"} if method == "OPTIONS" else {}
        for host in (
            "evil.example",
            f"evil.example:{served.port}",
            "127.0.0.1.evil.example",
            "a@localhost",
            "",
        ):
            assert served.ask(method, path, sent, Host=host, **wanted)[0] in (400, 403)
        for origin in (
            "http://evil.example",
            "null",
            "http://localhost:3000",
            f"https://127.0.0.1:{served.port}",
        ):
            assert served.ask(method, path, sent, Origin=origin, **wanted)[0] == 403
    assert not any(b"strange" in file.read_bytes() for file in served.files())
    assert served.ask("POST", PATH, body, length=guard.QUOTA + 1) == (413, f"{guard.FULL}\n")
    assert served.ask("POST", PATH, Transfer_Encoding="chunked")[0] == 411
    assert served.ask("POST", PATH, body)[0] == 200
    assert [file.read_bytes() for file in served.files()] == [b"strange"]
    served.ends(signal.SIGINT)
