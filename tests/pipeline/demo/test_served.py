"""The demo in its own process: which requests it answers, and which files it leaves."""

import os
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

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
    """Demo on a free port, with all temporary files in `folder`."""

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

    def ask(self, method="GET", path="/", body=None, **headers):
        """Send a request; return the answer's status and text."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        said = {"Host": f"127.0.0.1:{self.port}"} | headers
        if body is not None:
            said |= UPLOAD | {"Content-Length": str(len(body))}
        for name, value in said.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    def check_end(self, how):
        """End the demo by a signal, and check that no file is left."""
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
    """Process that imports the demo, and the folder of its temporary files."""
    folder = tmp_path_factory.mktemp("starter")
    command = [sys.executable, "-m", "tests.pipeline.demo.serving"]
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


def test_uploads_are_deleted_at_the_end(served):
    assert served.ask("POST", PATH, PART + b"whole\r\n--x--\r\n")[0] == 200
    assert len(served.files()) == 1
    served.check_end(signal.SIGTERM)


def test_only_requests_of_the_page_itself_are_answered(served):
    own = f"127.0.0.1:{served.port}"
    for host in (own, f"LocalHost:{served.port}", "[::1]:7860", "localhost"):
        assert served.ask(Host=host)[0] == 200
        assert served.ask(Host=host, Origin=f"http://{host}")[0] == 200
    body = PART + b"foreign\r\n--x--\r\n"
    foreign = [
        *({"Host": host} for host in ("evil.example", "127.0.0.1.evil.example", "a@localhost", "")),
        *(
            {"Origin": page}
            for page in ("http://evil.example", "null", "http://localhost:3000", f"https://{own}")
        ),
    ]
    for method, path in (("GET", "/"), ("GET", "/config"), ("POST", PATH)):
        for headers in foreign:
            status = served.ask(method, path, body if method == "POST" else None, **headers)[0]
            assert status in (400, 403), headers
    assert not any(b"foreign" in file.read_bytes() for file in served.files())
    assert served.ask("POST", PATH, body)[0] == 200
    assert [file.read_bytes() for file in served.files()] == [b"foreign"]
    served.check_end(signal.SIGINT)
