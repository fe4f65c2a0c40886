"""Several processes share the work of one: equal bytes, each shard computed once, errors printed once."""

import re
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed

from models.backbones.backbone import Backbone
from pipeline.compute import process_group
from pipeline.compute.process_group import Ranks, joined
from pipeline.config.store_contents import Spec
from pipeline.datasets import images
from pipeline.features import extraction, preprocessing, store_codec
from pipeline.features.extraction import Extractor, attributes
from pipeline.features.writer import Writer
from pipeline.io.errors import InputError
from tests.backbones import TINY, spread
from tests.folders import contents
from tests.running import ROOT
from tests.spawned import spawn
from tests.synthetic import make_clevr_change

pytestmark = pytest.mark.slow

SPEC = Spec(TINY, "none", 16, True, True, "pil_bicubic", 64)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return make_clevr_change(tmp_path_factory.mktemp("images") / "raw", scenes=10)


def extract(root: Path, folder: Path, out: Path) -> None:
    """Extract in one process of a group; process 1 gets other train images, which must not matter."""
    store_codec.SHARD, preprocessing.BATCH = 4, 2
    write = Writer.write
    torch.manual_seed(1)
    network = spread(Backbone(TINY, 16, finer=True, standardise=True)).eval()
    index = list(images.index(root, [f"images/CLEVR_default_{number:06d}.png" for number in range(10)]))
    with joined() as ranks:
        extractor = Extractor(network, root, index, SPEC, "float32")

        def noted(self, shard, block):
            (out.parent / f"{out.name}.{shard}.{ranks.rank}").touch(exist_ok=False)
            write(self, shard, block)

        Writer.write = noted
        extractor.standardise(ranks, index[ranks.rank :])
        writer = extraction.extract(extractor, ranks, folder)
        if ranks.rank == 0:
            writer.finish(out, attributes(extractor, "a"))


def test_two_processes_make_the_bytes_of_one(root, tmp_path):
    spawn(extract, 1, root, tmp_path / "a", tmp_path / "one.zarr")
    spawn(extract, 2, root, tmp_path / "b", tmp_path / "two.zarr")
    assert len(contents(tmp_path / "one.zarr")) == 5  # two of metadata, three shards
    assert contents(tmp_path / "two.zarr") == contents(tmp_path / "one.zarr")
    assert {path.name for path in tmp_path.glob("two.zarr.*")} == {
        "two.zarr.0.0",
        "two.zarr.1.1",
        "two.zarr.2.0",
    }


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name, value in {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="process 2 of this machine has no GPU, there are 2"), joined():
        pass


@pytest.fixture
def environment(monkeypatch):
    def set_to(line: str) -> None:
        launched = ("TORCHELASTIC_RUN_ID", process_group.STARTED)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", *launched):
            monkeypatch.delenv(name, raising=False)
        for name, _, value in (each.partition("=") for each in line.split()):
            monkeypatch.setenv(name, value)

    return set_to


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("WORLD_SIZE=2", "RANK=''"),
        ("RANK=-1 WORLD_SIZE=2", "RANK='-1'"),
        ("RANK=2 WORLD_SIZE=2", "RANK='2'"),
        ("RANK=0 WORLD_SIZE=x", "WORLD_SIZE='x'"),
        ("RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost", "MASTER_PORT"),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=29577", "MASTER_ADDR"),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=70000 MASTER_ADDR=localhost", "70000"),
    ],
)
def test_wrong_variables_of_a_launcher_are_named(environment, line, named):
    environment(line)
    with pytest.raises(InputError, match=re.escape(named)), joined():
        pass


@pytest.mark.parametrize("line", ["WORLD_SIZE=1 RANK=5", "LOCAL_RANK=one MASTER_PORT=x", "SLURM_PROCID=1"])
def test_without_a_group_a_process_works_alone(environment, line):
    environment(line)
    with joined() as ranks:
        assert ranks == Ranks(0, 1)


def test_processes_that_do_not_meet_are_an_error(environment, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        environment(f"RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}")
        monkeypatch.setattr(process_group, "START", timedelta(seconds=1))
        with pytest.raises(InputError, match="the 2 processes cannot meet"), joined():
            pass


def test_an_error_after_the_process_with_the_store_has_ended_is_not_printed_again(monkeypatch):
    class Gone:
        def add(self, key: str, amount: int) -> int:
            raise distributed.DistNetworkError("Connection reset by peer")

    monkeypatch.setattr(process_group, "PATIENCE", 0)
    monkeypatch.setattr(process_group, "_meet", lambda: (Ranks(1, 2), Gone()))
    with pytest.raises(SystemExit) as ended, joined():
        raise InputError("vocab.json is missing")
    assert ended.value.code == 2


WAIT = """
import signal
from pipeline.cli.running import run
from pipeline.compute.process_group import joined

def main():
    with joined() as ranks:
        print(ranks)

signal.signal(signal.SIGINT, signal.default_int_handler)
run(main)
"""


@pytest.mark.parametrize(("rank", "number", "code"), [("0", signal.SIGINT, 130), ("1", signal.SIGTERM, 143)])
def test_a_wait_for_a_left_over_world_size_is_said_and_hears_signals(environment, rank, number, code):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment(f"RANK={rank} WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}")
    command = [sys.executable, "-c", WAIT]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        assert "waiting for 1 more process" in line
        assert "WORLD_SIZE" in line
        begun = time.monotonic()
        process.send_signal(number)
        assert process.wait(30) == code
        assert time.monotonic() - begun < 10
        assert "Traceback" not in process.stderr.read()


def test_without_a_launcher_the_wait_is_short(environment, monkeypatch):
    environment("RANK=0 WORLD_SIZE=2")
    limits = []

    def rendezvous(url, timeout):
        limits.append(timeout)
        raise ValueError("no others")

    monkeypatch.setattr(distributed, "rendezvous", rendezvous)
    for name in (None, "TORCHELASTIC_RUN_ID", process_group.STARTED):
        if name:
            monkeypatch.setenv(name, "1")
        with pytest.raises(InputError, match="the 2 processes cannot meet: no others"), joined():
            pass
    assert limits == [process_group.UNLAUNCHED, process_group.START, process_group.START]
    assert timedelta(minutes=1) >= process_group.UNLAUNCHED


def test_a_gpu_that_is_no_number_is_named(environment, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    environment("RANK=0 WORLD_SIZE=2 LOCAL_RANK=one")
    with pytest.raises(InputError, match="LOCAL_RANK='one'"), joined():
        pass
