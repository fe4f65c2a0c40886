"""Two processes over one extraction: the bytes of one, each shard computed once."""

import os
import re
import signal
import socket
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed

from models.backbones.backbone import Backbone
from pipeline.compute import process_group
from pipeline.compute.process_group import Ranks, join, joined, place
from pipeline.config.store_contents import Spec
from pipeline.datasets import images
from pipeline.features import extraction, preprocessing, store_codec
from pipeline.features.extraction import Extractor, attributes
from pipeline.features.writer import Writer
from pipeline.io.errors import InputError
from tests.backbones import TINY, spread
from tests.folders import contents
from tests.spawned import spawn
from tests.synthetic import make_clevr_change

pytestmark = pytest.mark.slow

SPEC = Spec(TINY, "none", 16, True, True, "pil_bicubic", 64)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return make_clevr_change(tmp_path_factory.mktemp("images") / "raw", scenes=10)


def extract(root: Path, folder: Path, out: Path) -> None:
    """One process, as torchrun starts it; process 1 is told other train images."""
    store_codec.SHARD, preprocessing.BATCH = 4, 2
    write = Writer.write
    ranks = join()

    def noted(self, shard, block):
        (out.parent / f"{out.name}.{shard}.{ranks.rank}").touch(exist_ok=False)
        write(self, shard, block)

    Writer.write = noted
    torch.manual_seed(1)
    network = spread(Backbone(TINY, 16, finer=True, standardise=True)).eval()
    index = list(images.index(root, [f"images/CLEVR_default_{number:06d}.png" for number in range(10)]))
    extractor = Extractor(network, root, index, SPEC, "float32")
    extractor.standardise(ranks, index[ranks.rank :])
    writer = extraction.extract(extractor, ranks, folder)
    if ranks.rank == 0:
        writer.finish(out, attributes(extractor, "a"))
    ranks.leave()


def test_two_processes_make_the_bytes_of_one(root, tmp_path):
    spawn(extract, 1, root, tmp_path / "a", tmp_path / "one.zarr")
    spawn(extract, 2, root, tmp_path / "b", tmp_path / "two.zarr")
    assert len(contents(tmp_path / "one.zarr")) == 6  # two of metadata, three shards, the record
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
    with pytest.raises(InputError, match="process 2 of this machine has no GPU, there are 2"):
        join()


VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANKS_STORE")


@pytest.fixture
def environment(monkeypatch):
    def set_to(line: str) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, _, value in (each.partition("=") for each in line.split()):
            monkeypatch.setenv(name, value)

    return set_to


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("RANK=", "RANK=''"),
        ("RANK=0", "no WORLD_SIZE"),
        ("WORLD_SIZE=2", "no RANK"),
        ("RANK=-1 WORLD_SIZE=2", "RANK='-1'"),
        ("RANK=0 WORLD_SIZE=" + 5000 * "9", "WORLD_SIZE="),
        ("RANK=2 WORLD_SIZE=2", "RANK=2"),
        ("RANK=0 WORLD_SIZE=2", "no MASTER_PORT"),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=29577", "MASTER_ADDR=''"),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=70000 MASTER_ADDR=localhost", "MASTER_PORT=70000"),
        ("RANK=0 WORLD_SIZE=2 MASTER_PORT=0 MASTER_ADDR=localhost", "MASTER_PORT=0"),
        ("RANK=0 WORLD_SIZE=\u0662", "WORLD_SIZE="),
        ("RANK=0 WORLD_SIZE=2 RANKS_STORE=", "RANKS_STORE=''"),
    ],
)
def test_variables_of_a_launcher_that_are_half_there_are_named(environment, line, named):
    environment(line)
    with pytest.raises(InputError, match=re.escape(named)):
        join()


@pytest.mark.parametrize(
    "line",
    [
        "WORLD_SIZE=1",
        "WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1",
        "WORLD_SIZE=1 RANK=5",
        "LOCAL_RANK=one MASTER_ADDR=node7",
        "MASTER_PORT=x",
        "SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_NNODES=2",
        "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 PMI_RANK=1",
    ],
)
def test_leftovers_that_name_no_group_leave_the_process_alone(environment, line):
    environment(line)
    assert place() == (0, 1)
    assert join() == Ranks(0, 1)


@contextmanager
def signalled(after: float):
    """Raise KeyboardInterrupt by a signal after that many seconds."""
    before = signal.signal(signal.SIGUSR1, _interrupt)
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize(
    ("rank", "address", "said"),
    [
        (0, "127.0.0.1", "waiting for 1 more process of 2 (WORLD_SIZE)"),
        (0, "no-such-host.invalid", "waiting for 1 more process of 2 (WORLD_SIZE)"),  # of an earlier job
        (1, "127.0.0.1", "waiting for process 0 at"),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the signal may come while a socket is made
def test_who_waits_for_others_says_so_and_hears_signals(environment, monkeypatch, capfd, rank, address, said):
    environment(f"RANK={rank} WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR={address} MASTER_PORT={free_port()}")
    monkeypatch.setattr(process_group, "SILENT", 0.0)
    with signalled(0.5), pytest.raises(KeyboardInterrupt):
        join()
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(said)


def test_a_listener_that_is_no_meeting_place_is_named_and_signals_are_heard_meanwhile(
    environment, monkeypatch, capfd
):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        environment(f"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}")
        begun = time.monotonic()
        with signalled(0.3), pytest.raises(KeyboardInterrupt):
            join()
        assert time.monotonic() - begun < 5
        monkeypatch.setattr(process_group, "HANDSHAKE", timedelta(seconds=1))
        with pytest.raises(InputError, match=f"no meeting of processes at 127.0.0.1:{port}"):
            join()
    assert capfd.readouterr().err == ""


def test_a_meeting_place_that_is_taken_is_named(environment):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        environment(f"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}")
        with pytest.raises(InputError, match=f"127.0.0.1:{port}"):
            join()


def test_an_error_after_the_process_with_the_store_has_ended_is_not_said_again(monkeypatch):
    class Gone:
        def add(self, key: str, amount: int) -> int:
            raise distributed.DistNetworkError("Connection reset by peer")

    monkeypatch.setattr(process_group, "PATIENCE", 0)
    monkeypatch.setattr(process_group, "_meet", lambda: (Ranks(1, 2), Gone()))
    with pytest.raises(SystemExit) as ended, joined():
        raise InputError("vocab.json is missing")
    assert ended.value.code == 2
