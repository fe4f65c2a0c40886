"""Ways to spoil a sound package of weights, for test_hostile_packages.py and test_hostile_zips.py."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

SOUND = Path(__file__).parents[3] / "demo/clip4idc"
MODEL, FEATURES, WORDS, SCORES = "model.yaml", "features.yaml", "vocabulary.json", "scores.json"
WEIGHTS, STATISTICS = "model.safetensors", "statistics.safetensors"


def put(name, old, new):
    """Other words in one of the files."""

    def change(place):
        text = (place / name).read_text()
        assert old in text
        (place / name).write_text(text.replace(old, new, 1))

    return change


def whole(name, content):
    """Another file."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda place: (place / name).write_bytes(data)


def instead(name, make, *more):
    """Something in a file's place that is none."""
    return lambda place: make(place / name, *more)


def width(value):
    return put(MODEL, "width: 128", f"width: {value}")


def tensors(change, name=WEIGHTS):
    """The file's tensors, changed: by name, all of them, or the first one alone."""

    def write(place):
        found = load_file(place / name)
        change(found)
        save_file(found, place / name)

    return write


def first(change, name=WEIGHTS):
    return tensors(lambda found: found.update({min(found): change(found[min(found)])}), name)


def filled(value):
    return lambda tensor: torch.full_like(tensor, value)


def ids(change):
    """vocabulary.json with other ids, and without the hash that would betray them."""

    def write(place):
        record = json.loads((place / WORDS).read_text())
        del record["hashes"]
        change(record)
        (place / WORDS).write_text(json.dumps(record))

    return write


def levels(line, depth):
    return "\n".join(line.format(before=chr(96 + n), own=chr(97 + n)) for n in range(1, depth)) + "\n"


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + levels(
    "{own}: &{own} [" + ", ".join(["*{before}"] * 9) + "]", 9
)
