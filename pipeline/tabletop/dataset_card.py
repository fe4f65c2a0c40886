"""Write the dataset card of a rendered dataset: its settings, its counts, and a hash of all its files.

DVC tracks this card in place of the rendered folder.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.config.params import Tabletop
from pipeline.datasets.clevr_change import DEFAULT, DISTRACTOR, SEMANTIC
from pipeline.io.inputs import read_json
from pipeline.io.outputs import write_text, yaml_of

GRID = 14  # cells per side of a feature grid, as in ResNet-101's layer3 at 224 pixels
VERSION = 2  # increased when equal settings no longer give the same scenes, captions or images
FILES = {
    DEFAULT: "before",
    SEMANTIC: "after a change, from another viewpoint",
    DISTRACTOR: "nothing changed, from another viewpoint",
    "change_captions.json": "captions of the changed pair of each scene",
    "no_change_captions.json": "captions of the unchanged pair of each scene",
    "splits.json": "scene numbers of train, val and test",
    "type_mapping.json": "kind of change of each scene",
    "scenes.json": "objects, boxes, cameras, lights",
}


def facts(root: Path, settings: Tabletop) -> list[str]:
    """Return sentences for the dataset card: the settings and measures that make the dataset easy or hard."""
    median, most = moved(
        read_json(root / "scenes.json", "render again")["scenes"], settings.width, settings.height
    )
    return [
        f"version {VERSION}, viewpoint {settings.viewpoint}, seed {settings.seed}, "
        f"images of {settings.width} x {settings.height}",
        f"{settings.min_objects} to {settings.max_objects} objects on the table; where possible, "
        f"{settings.relations:.0%} of the captions of changes give the object's place relative to another",
        f"shift of an object from the before to the distractor image: {median:.2f} cells of a 14 x 14 grid "
        f"(median), {most:.2f} cells (0.9 quantile)",
    ]


def write_card(path: Path, root: Path, dataset: str, notes: Sequence[str]) -> None:
    """Write the card of the rendered dataset in `root` to the file `path`, with the sentences `notes`."""
    splits = read_json(root / "splits.json", "render again")
    scenes = {name: len(numbers) for name, numbers in splits.items()}
    total = sum(scenes.values())
    counts = {name: {"pairs": 2 * number, "scenes": number} for name, number in scenes.items()}
    card = {
        "name": dataset,
        "citation": "the embedded dataset, after Park et al., ICCV 2019",
        "source": "the stage render",
        "files": FILES,
        "notes": [*notes, f"sha256 of all files, by name and content: {fingerprint(root)}"],
        "expected": {"default": counts | {"pairs": 2 * total, "images": 3 * total}},
    }
    write_text(path, yaml_of(card, width=1000))


def fingerprint(root: Path) -> str:
    """Return one SHA-256 of the names and contents of all files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def moved(scenes: Sequence[dict[str, Any]], width: int, height: int) -> tuple[float, float]:
    """Return median and 0.9 quantile of objects' shifts between the default and the distractor view.

    A shift is the distance between the centres of an object's boxes. Its unit is a cell of a GRID x GRID
    grid.
    """
    default, distractor = (
        np.array([box for scene in scenes for box in scene["views"][view]["boxes"]])
        for view in ("default", "nonsemantic")
    )
    corners, sizes = np.split(default - distractor, 2, axis=1)
    steps = np.hypot(*((corners + sizes / 2) / (width, height) * GRID).T)
    return float(np.median(steps)), float(np.quantile(steps, 0.9))
