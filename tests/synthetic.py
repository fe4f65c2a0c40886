"""A small dataset in the layout of CLEVR-Change, with images of noise."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

TYPES = ("color", "material", "add", "drop", "move")
SENTENCES = {
    "color": "the ball changed to red",
    "material": "the ball turned metal",
    "add": "a ball has been added",
    "drop": "the ball is missing",
    "move": "the ball has been moved",
}


def make_clevr_change(
    root: Path, scenes: int = 20, size: tuple[int, int] = (48, 32), seed: int = 0, stop: str = " ."
) -> Path:
    """Write a dataset with splits of 8:1:1, whose images differ from each other.

    stop: end of each change's second caption; with "", the tokeniser `plain`, which needs no Java, reads it
    """
    random = np.random.default_rng(seed)
    for folder, name in (("images", "default"), ("sc_images", "semantic"), ("nsc_images", "nonsemantic")):
        (root / folder).mkdir(parents=True)
        for number in range(scenes):
            noise = random.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
            Image.fromarray(noise).save(root / folder / f"CLEVR_{name}_{number:06d}.png")
    kinds = [TYPES[number % 5] for number in range(scenes)]
    names = [f"CLEVR_default_{number:06d}.png" for number in range(scenes)]
    files = {
        "change_captions": {
            name: [SENTENCES[kind], SENTENCES[kind] + stop] for name, kind in zip(names, kinds, strict=True)
        },
        "no_change_captions": {n: ["nothing has changed", "there is no change"] for n in names},
        "splits": {
            "train": list(range(scenes * 8 // 10)),
            "val": list(range(scenes * 8 // 10, scenes * 9 // 10)),
            "test": list(range(scenes * 9 // 10, scenes)),
        },
        "type_mapping": {t: [f"{n:06d}.png" for n in range(scenes) if kinds[n] == t] for t in TYPES},
    }
    for name, value in files.items():
        (root / f"{name}.json").write_text(json.dumps(value))
    return root
