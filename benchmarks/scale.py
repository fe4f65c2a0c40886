"""Measure `prepare`, `dvc status` and the opening of a store for a dataset of CLEVR-Change's size.

The 240,000 images are hard links to copies of three rendered images. So they take no disk space, but they are
read, decoded and hashed like other images. They are small, 120 x 80 pixels, because most of the time would
otherwise be spent on decoding. A dataset of a tenth of the size is measured for comparison.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pipeline.config import params
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io.outputs import write_json, yaml_of
from pipeline.tabletop import dataset

ROOT = Path(__file__).resolve().parent.parent
SCENES = 80_000  # each has three images and two pairs
LINKS = 10_000  # largest number of links to a file; some file systems allow only 65,000 or fewer
TYPES = ("color", "material", "add", "drop", "move")
MEASURED = """
import json, resource, subprocess, sys, time
start = time.monotonic()
code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_maxrss * 1024, time.monotonic() - start]))
"""  # in a new process, because a child's peak memory is at least its parent's size


def compare(scenes: int = SCENES) -> list[tuple[str, ...]]:
    """Measure both datasets; return the table's rows.

    Columns: name of the measurement, size of the smaller dataset, value of the whole dataset, value of the
    smaller dataset, ratio of both values.
    """
    with tempfile.TemporaryDirectory() as folder:
        pictures = _pictures(Path(folder) / "pictures")
        whole = _measure(Path(folder) / "whole", scenes, pictures)
        tenth = _measure(Path(folder) / "tenth", scenes // 10, pictures)
    return [
        (
            name,
            f"{3 * scenes // 10:,} images",
            f"{mine:.1f} {unit}",
            f"{less:.1f} {unit}",
            f"{mine / less:.1f}",
        )
        for (name, unit), mine, less in zip(
            (
                (f"prepare {3 * scenes:,} images: peak memory", "MB"),
                ("the same: time", "s"),
                ("`dvc status` of it, nothing changed", "s"),
                ("open a store of as many keys: peak memory", "MB"),
                ("the same: time, without importing", "ms"),
            ),
            whole,
            tenth,
            strict=True,
        )
    ]


def _pictures(folder: Path) -> list[Path]:
    """Render one scene and return its three images."""
    small = {"scenes": 10, "width": 120, "height": 80}
    settings = params.load(ROOT / "params.yaml").tabletop.of("tabletop").model_copy(update=small)
    dataset.render(settings, folder, os.cpu_count() or 1)
    return [folder / name.format(0) for name in dataset.PICTURES]


def _measure(folder: Path, scenes: int, pictures: list[Path]) -> list[float]:
    _project(folder, scenes, pictures)
    prepare = ("-m", "stages.prepare", "--dataset", "big")
    outputs = ("--pairs", "pairs.jsonl", "--images", "images.jsonl")
    memory, seconds = _run(folder, [sys.executable, *prepare, *outputs])
    for command in (("init", "--no-scm", "-q"), ("commit", "-f", "-q")):
        _run(folder, [sys.executable, "-m", "dvc", *command])
    _, status = _run(folder, [sys.executable, "-m", "dvc", "status"])
    _store(folder / "s.zarr", scenes)
    opening = "from pipeline.features.store import FeatureStore; FeatureStore('s.zarr', {})"
    opened, _ = _run(folder, [sys.executable, "-c", opening])
    start = time.perf_counter()
    FeatureStore(folder / "s.zarr", {})
    return [memory / 1e6, seconds, status, opened / 1e6, 1000 * (time.perf_counter() - start)]


def _run(folder: Path, command: list[str]) -> tuple[float, float]:
    """Run a command, which must succeed; return its peak memory in bytes and its time in seconds."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
    )
    code, memory, seconds = json.loads(done.stdout)
    if code:
        sys.exit(f"error: {' '.join(command)} left with {code}")
    return memory, seconds


def _project(folder: Path, scenes: int, pictures: list[Path]) -> None:
    """Write a project folder: params.yaml, the dataset, and a DVC stage that depends on a small file."""
    _images(folder / "raw", scenes, pictures)
    _annotations(folder / "raw", scenes)
    tree = params.read_tree(ROOT / "params.yaml")
    tree["dataset"]["big"] = tree["dataset"]["clevr_change"] | {
        "prepare": {"reader": "clevr_change", "root": "raw", "protocol": None}
    }
    (folder / "params.yaml").write_text(yaml_of(tree))
    (folder / "card.yaml").write_text("reader: clevr_change\n")
    stage = {"cmd": "exit 1", "deps": ["card.yaml"], "outs": ["pairs.jsonl", "images.jsonl"]}
    (folder / "dvc.yaml").write_text(yaml_of({"stages": {"prepare": stage}}))


def _images(root: Path, scenes: int, pictures: list[Path]) -> None:
    for name, picture in zip(dataset.PICTURES, pictures, strict=True):
        (root / name).parent.mkdir(parents=True)
        for number in range(scenes):
            first = root / name.format(number - number % LINKS)
            if number % LINKS:
                (root / name.format(number)).hardlink_to(first)
            else:
                shutil.copy(picture, first)


def _annotations(root: Path, scenes: int) -> None:
    """Write annotations like CLEVR-Change's.

    Each pair has 6 captions of about the same length as in CLEVR-Change. The sizes of the splits are 85:5:10.
    The change types alternate.
    """
    names = [Path(dataset.DEFAULT.format(number)).name for number in range(scenes)]
    change = [
        f"the small red metal cylinder that is behind the cube changed to green, way {n}" for n in range(6)
    ]
    same = [f"there is no difference between the two scenes, way {n}" for n in range(6)]
    ends = (0, scenes * 85 // 100, scenes * 90 // 100, scenes)
    splits = {s: list(range(*ends[i : i + 2])) for i, s in enumerate(("train", "val", "test"))}
    types = {t: [f"{number:06d}.png" for number in range(i, scenes, 5)] for i, t in enumerate(TYPES)}
    write_json(root / "change_captions.json", dict.fromkeys(names, change))
    write_json(root / "no_change_captions.json", dict.fromkeys(names, same))
    write_json(root / "splits.json", splits)
    write_json(root / "type_mapping.json", types)


def _store(path: Path, scenes: int) -> None:
    """Write a feature store with a key, a hash and a single number for every image."""
    keys = [name.format(number) for number in range(scenes) for name in dataset.PICTURES]
    writer = Writer(path.with_suffix(".scratch"), len(keys), (1, 1, 1))
    for shard in writer.missing:
        writer.write(shard, np.ones((len(writer.rows(shard)), 1, 1, 1), np.float16))
    writer.finish(path, {"keys": keys, "sha256": ["0" * 64] * len(keys)})
