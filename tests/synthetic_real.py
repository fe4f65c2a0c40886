"""Small datasets in the layouts of the real ones, with images of noise.

Each maker writes 20 image pairs, split 8:1:1, and returns the folder.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.synthetic import make_clevr_change

PAIRS = 20
SPLITS = {"train": range(16), "val": range(16, 18), "test": range(18, 20)}
TYPES = ("color", "material", "add", "drop", "move", "none")
NOUNS = ("car", "person", "truck", "van", "bus")


def write_images(root: Path, names: list[str], seed: int = 0, size: tuple[int, int] = (16, 12)) -> None:
    """Write an image of noise under each name. The extension decides its format."""
    random = np.random.default_rng(seed)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise = random.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / name)


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the value of a JSON file in place, or replace it by the result of `change`."""
    value = json.loads(path.read_text())
    changed = change(value)
    path.write_text(json.dumps(value if changed is None else changed))


def make_clevr_dc(root: Path) -> Path:
    """CLEVR-DC in its authors' layout, with a file of types."""
    write_images(root, [f"{side}/{n}.png" for side in ("bef", "aft") for n in range(PAIRS)])
    write_json(root / "captions.json", {str(n): _clevr(n) for n in range(PAIRS)})
    write_json(root / "split.json", {split: list(numbers) for split, numbers in SPLITS.items()})
    kinds = {kind: [f"{n:06d}.png" for n in range(PAIRS) if n % 6 == at] for at, kind in enumerate(TYPES)}
    write_json(root / "type_mapping.json", kinds)
    return root


def make_clevr_dc_dirl(root: Path) -> Path:
    """CLEVR-DC in DIRL's layout, without types."""
    write_images(root, [f"{side}/{n:06d}.png" for side in ("images", "sc_images") for n in range(PAIRS)])
    write_json(root / "change_captions.json", {f"{n:06d}.png": _clevr(n) for n in range(PAIRS)})
    write_json(root / "splits.json", {split: list(numbers) for split, numbers in SPLITS.items()})
    return root


def _clevr(number: int) -> list[str]:
    return [f"the {NOUNS[number % 5]} was moved", f"someone moved the {NOUNS[number % 5]} ."]


def make_spot_the_diff(root: Path) -> Path:
    """Image 0 has two annotators; image 1's only sentence is empty, as some of the real ones are."""
    write_images(root, [f"resized_images/{n}{end}.png" for n in range(PAIRS) for end in ("", "_2")])
    for split, numbers in SPLITS.items():
        entries = [{"img_id": str(n), "sentences": _spot(n)} for n in numbers]
        if split == "train":
            entries += [{"img_id": "0", "sentences": ["", "a bus came"]}]
        write_json(root / f"annotations/{split}.json", entries)
    return root


def _spot(number: int) -> list[str]:
    if number == 1:
        return [""]
    return [f"the {NOUNS[number % 5]} is gone", f"there is one {NOUNS[number % 3]} more"][: 1 + number % 2]


def make_image_editing_request(root: Path) -> Path:
    """Formats are mixed; requests 0 and 1 share their first image."""
    entries = {
        n: {
            "img0": f"post_{max(n, 1)}.{('jpg', 'png', 'gif')[max(n, 1) % 3]}",
            "img1": f"answer_{n}.JPG",
            "sents": [f"remove the {NOUNS[n % 5]}", "make it brighter", "add text "][: 1 if n < 16 else 3],
            "uid": f"Reddit_{n}",
        }
        for n in range(PAIRS)
    }
    write_images(root, sorted({f"images/{e[key]}" for e in entries.values() for key in ("img0", "img1")}))
    for split, numbers in SPLITS.items():
        name = "valid" if split == "val" else split
        write_json(root / f"{name}.json", [entries[n] for n in numbers])
    return root


SIDE = ("ObservationURL", "ImgURL", "Species", "Selection")
BIRD_COLUMNS = (*(f"img{side}{name}" for side in "12" for name in SIDE), "split", "annN", "description")


def make_birds_to_words(root: Path) -> Path:
    """Two descriptions a pair; pairs 0 and 1 share their first bird."""
    lines = ["\t".join(BIRD_COLUMNS)]
    for split, numbers in SPLITS.items():
        lines += ["\t".join(_bird_row(n, split, note)) for n in numbers for note in (1, 2)]
    birds = sorted({bird for n in range(PAIRS) for bird in (100 + max(n, 1), 200 + n)})
    write_images(root, [f"images/{bird}.jpg" for bird in birds])
    (root / "birds-to-words-v1.0.tsv").write_text("\n".join(lines) + "\n")
    return root


def _bird_row(number: int, split: str, note: int) -> list[str]:
    sides = [
        (
            f"https://www.inaturalist.org/photos/{bird}",
            f"https://static.inaturalist.org/photos/{bird}/large.jpg?1",
            "Passer domesticus",
            selection,
        )
        for bird, selection in ((100 + max(number, 1), "base"), (200 + number, "visual"))
    ]
    text = f"Animal 1 has {note} spots, while animal 2 is grey. Animal 2 is taller."
    return [*sides[0], *sides[1], split, str(note), text]


def make_levir_cc(root: Path) -> Path:
    """Every second pair is unchanged."""
    images, names = [], []
    for split, numbers in SPLITS.items():
        for n in numbers:
            name = f"{split}_{n:06d}.png"
            names += [f"images/{split}/{side}/{name}" for side in "AB"]
            texts = [f" {('a road appears', 'nothing has changed')[n % 2]} {k} ." for k in range(5)]
            sentences = [{"tokens": t.split(), "raw": t, "imgid": n, "sentid": 5 * n} for t in texts]
            images.append(
                {"filepath": split, "filename": name, "imgid": n, "split": split, "changeflag": 1 - n % 2}
                | {"sentences": sentences}
            )
    write_images(root, names)
    write_json(root / "LevirCCcaptions.json", {"images": images, "dataset": "LEVIR_CC"})
    return root


MAKERS: dict[str, Callable[[Path], Path]] = {
    "clevr_change": make_clevr_change,
    "clevr_dc": make_clevr_dc,
    "spot_the_diff": make_spot_the_diff,
    "image_editing_request": make_image_editing_request,
    "birds_to_words": make_birds_to_words,
    "levir_cc": make_levir_cc,
}
"""Reader -> the maker of a small dataset for it."""
