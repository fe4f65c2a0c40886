"""Changes of a folder's files: exchanged, permuted or damaged.

Each function returns a change: a function of the folder, and of a folder with other data of the same names.
"""

import json
import shutil
from pathlib import Path


def edit_json(file, edit):
    def change(folder, _=None):
        tree = json.loads((folder / file).read_text())
        edit(tree)
        (folder / file).write_text(json.dumps(tree))

    return change


def set_json(file, *keys, value):
    def edit(tree):
        for key in keys[:-1]:
            tree = tree[key]
        tree[keys[-1]] = value

    return edit_json(file, edit)


def swap_words(file):
    """Exchange the ids of two words of a vocabulary."""

    def edit(tree):
        ids = tree["ids"]
        first, second = [word for word in ids if not word.startswith("<")][:2]
        ids[first], ids[second] = ids[second], ids[first]

    return edit_json(file, edit)


def flip(file, place=-2):
    """Flip a bit of a byte. A digit stays a digit."""

    def change(folder, _=None):
        data = bytearray((folder / file).read_bytes())
        data[place] ^= 1
        (folder / file).write_bytes(data)

    return change


def swap_lines(file, key):
    """Exchange the values of a key in the first two lines of JSON Lines."""

    def change(folder, _=None):
        first, second, *rest = [json.loads(line) for line in (folder / file).read_text().splitlines()]
        first[key], second[key] = second[key], first[key]
        (folder / file).write_text("".join(json.dumps(line) + "\n" for line in (first, second, *rest)))

    return change


def put(*files, to=None):
    """Replace files by those of the other data; with `to`, replace `to` by a file of the folder."""

    def change(folder, other=None):
        for file in files:
            place = folder / (to or file)
            (shutil.rmtree if place.is_dir() else Path.unlink)(place)
            source = folder / file if to else other / file
            (shutil.copytree if source.is_dir() else shutil.copy)(source, place)

    return change


def exchange(one, two):
    def change(folder, _=None):
        (folder / one).rename(folder / "kept")
        (folder / two).rename(folder / one)
        (folder / "kept").rename(folder / two)

    return change
