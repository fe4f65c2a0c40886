"""Fixtures shared by several tests."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from pipeline.datasets import readers
from pipeline.datasets.schema import Pair, images_of, of_split
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.scoring import meteor
from pipeline.text import vocabularies
from pipeline.text.vocabularies import Vocabulary
from tests.synthetic import make_clevr_change


def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than cores, because some tests wait for processes."""
    return (os.cpu_count() or 1) + 1


def pytest_configure() -> None:
    """Set up hypothesis, and put temporary files into memory if there is enough of it."""
    gc.disable()  # until the tests are collected: imported objects stay, and need no collection
    # nohup and background jobs ignore these signals, and processes started by tests would inherit that
    for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # each run draws other examples, so fewer of them find as much in the end
    busy = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "max_examples": 50}
    settings.register_profile("busy", settings(), **busy)
    settings.load_profile("busy")
    memory = Path("/dev/shm")
    if "TMPDIR" not in os.environ and memory.is_dir() and shutil.disk_usage(memory).free > 4 * 2**30:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, so that no core is idle at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Exclude the imported objects from garbage collection."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)  # new objects before a collection; the default is 700


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else libraries report leaks at exit


@pytest.fixture(scope="session", autouse=True)
def no_spice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the files of SPICE, so that scores do not depend on them; tests of SPICE undo this."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPICE_CACHE", str(tmp_path_factory.mktemp("spice") / "absent"))
        yield


@pytest.fixture
def made_up_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace METEOR, which loads for 10 s, by a constant score of 0."""

    def statistics(captions: dict, references: dict, timeout: float) -> dict[str, list[float]]:
        return {key: [0.0] * 23 for key in captions}

    monkeypatch.setattr(meteor, "statistics", statistics)


@pytest.fixture
def clevr_change(tmp_path: Path) -> Path:
    """A folder with a small dataset in CLEVR-Change's layout."""
    return make_clevr_change(tmp_path / "raw")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium, from $CHROMIUM or the path; Playwright downloads none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not path:
        pytest.skip(f"no browser: set CHROMIUM, or install {names[0]}")
    with sync_api.sync_playwright() as playwright:
        # containers give no sandbox
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@dataclass
class Prepared:
    """A small dataset with a store of made-up features (6 x 3 x 3) and its vocabulary."""

    pairs: list[Pair]
    store: FeatureStore
    vocabulary: Vocabulary


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    pairs = readers.read("clevr_change", make_clevr_change(folder / "raw", scenes=40, size=(2, 2)))
    keys = images_of(pairs)
    writer = Writer(folder / "scratch", len(keys), (6, 3, 3))
    writer.write(0, np.random.default_rng(0).standard_normal((len(keys), 6, 3, 3)).astype(np.float16))
    writer.finish(folder / "features/grid.zarr", {"keys": keys})
    captions = [caption for pair in of_split(pairs, "train") for caption in pair.captions]
    vocabulary = vocabularies.build(captions, min_count=1, lower_case=True)
    return Prepared(pairs, FeatureStore(folder / "features/grid.zarr", {}), vocabulary)


@pytest.fixture(scope="session")
def pixels(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The dataset of `prepared`, with a store of made-up pixels, 3 x 16 x 24."""
    folder, keys = tmp_path_factory.mktemp("pixels"), images_of(prepared.pairs)
    writer = Writer(folder / "scratch", len(keys), (3, 16, 24), "uint8")
    random = np.random.default_rng(0)
    writer.write(0, random.integers(0, 256, (len(keys), 3, 16, 24), dtype=np.uint8))
    writer.finish(folder / "stores/pixels.zarr", {"keys": keys, "input": "pixels"})
    return replace(prepared, store=FeatureStore(folder / "stores/pixels.zarr", {}))
