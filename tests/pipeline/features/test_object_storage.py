"""Stores at an address: the same features as from the folder, and one line for each error."""

import functools
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import tensorstore

from pipeline.features import object_storage, store_codec
from pipeline.features.object_storage import Location
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from tests.pipeline.features.test_store import ATTRIBUTES, make


class Handler(BaseHTTPRequestHandler):
    """GET of files, whole or `Range: bytes=FIRST-[LAST]`, as object stores answer it."""

    asked: list[str]

    def __init__(self, root: Path, asked: list[str], *arguments):
        self.root, self.asked = root, asked
        super().__init__(*arguments)

    def do_GET(self):
        self.asked.append(self.path)
        file = self.root / self.path.lstrip("/")
        if "secret" in self.path or not file.is_file():
            return self._answer(403 if "secret" in self.path else 404, b"")
        data = file.read_bytes()
        if found := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            first, last = found.groups()
            start = int(first) if first else len(data) - int(last)
            stop = int(last) + 1 if first and last else len(data)
            if start >= len(data):
                return self._answer(416, b"")
            part = data[start:stop]
            return self._answer(206, part, f"bytes {start}-{start + len(part) - 1}/{len(data)}")
        return self._answer(200, data)

    def _answer(self, code: int, body: bytes, content_range: str | None = None) -> None:
        self.send_response(code)
        if content_range:
            self.send_header("Content-Range", content_range)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Print nothing."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(store_codec, "SHARD", 4)
    monkeypatch.setattr(object_storage, "TIMEOUT", 10.0)


@pytest.fixture
def asked():
    return []


@pytest.fixture
def address(tmp_path, asked, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, tmp_path, asked)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_store_at_an_address_reads_as_its_folder(tmp_path, address, asked):
    features = make(tmp_path / "s.zarr")
    keys = [f"{row}.png" for row in (7, 2, 7, 9)]
    opened = FeatureStore(f"{address}/s.zarr", ATTRIBUTES)
    np.testing.assert_array_equal(opened.read(keys), features[[7, 2, 7, 9]])
    folder = FeatureStore(tmp_path / "s.zarr", ATTRIBUTES)
    assert (opened.shape, opened.attributes, opened.record) == (
        folder.shape,
        folder.attributes,
        folder.record,
    )
    assert set(asked) == {
        f"/s.zarr/{name}" for name in ("zarr.json", "features/zarr.json", *shards(3))
    }  # and no listing


def shards(count):
    return [f"features/c/{shard}/0/0/0" for shard in range(count)]


def test_a_shard_that_vanishes_later_is_not_read_as_zeros(tmp_path, address):
    make(tmp_path / "s.zarr")
    for place in (f"{address}/s.zarr", tmp_path / "s.zarr"):
        opened = FeatureStore(place, {})
        shard = tmp_path / "s.zarr/features/c/1/0/0/0"
        data = shard.read_bytes()
        shard.unlink()
        with pytest.raises(InputError, match=r"s\.zarr is damaged"):
            opened.read(["5.png"])
        shard.write_bytes(data)


def test_a_refused_address_is_named(address):
    with pytest.raises(InputError, match=r"secret cannot be read \(PERMISSION_DENIED"):
        FeatureStore(f"{address}/secret", {})


def test_a_missing_host_is_named(address):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{free.getsockname()[1]}/s.zarr"
        with pytest.raises(InputError, match=rf"{place} cannot be read \(.*connect.*\); look at the address"):
            FeatureStore(place, {})


def test_a_host_that_never_answers_is_not_waited_for(monkeypatch, address):
    monkeypatch.setattr(object_storage, "TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}/s.zarr"
        with pytest.raises(InputError, match=r"did not answer in 0\.5 s; look at the address"):
            FeatureStore(place, {})


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_addresses_of_buckets(kind):
    found = tensorstore.KvStore.Spec(Location(f"{kind}://bucket/some/s.zarr/").spec("features/"))
    assert found.to_json() == {
        "driver": {"s3": "s3", "gs": "gcs"}[kind],
        "bucket": "bucket",
        "path": "some/s.zarr/features/",
    }
