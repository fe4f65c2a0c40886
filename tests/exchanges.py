"""Changes of a folder's files: exchanged, permuted or damaged; `other` has data of the same names."""

import json
import shutil
from pathlib import Path

import yaml

from tests.forged import forge


def as_json(file, change):
    def write(folder, _=None):
        tree = json.loads((folder / file).read_text())
        change(tree)
        (folder / file).write_text(json.dumps(tree))

    return write


def swap_words(tree):
    """Two words of the vocabulary change their ids."""
    first, second = [word for word in tree["ids"] if not word.startswith("<")][:2]
    ids = tree["ids"]
    ids[first], ids[second] = ids[second], ids[first]


def flip(file, place=-2):
    """One bit of a file, which keeps its time stamp and size."""

    def change(folder, _=None):
        path = folder / file
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)

    return change


def swap_lines(file, key=None):
    """The first two lines of JSON Lines change places, or what they say of `key` does."""

    def change(folder, _=None):
        path = folder / file
        first, second, *rest = [json.loads(line) for line in path.read_text().splitlines()]
        if key is None:
            first, second = second, first
        else:
            first[key], second[key] = second[key], first[key]
        path.write_text("".join(json.dumps(line) + "\n" for line in (first, second, *rest)))

    return change


def swap_captions(tree):
    """The first and the last pair's."""
    tree[0]["caption"], tree[-1]["caption"] = tree[-1]["caption"], f"{tree[0]['caption']} again"


def put(*files, to=None):
    """Files or folders of the same names from the other data, or each in the place of the next one."""

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


def set_json(file, *keys, value):
    def edit(tree):
        for key in keys[:-1]:
            tree = tree[key]
        tree[keys[-1]] = value

    return as_json(file, edit)


def set_yaml(file, *keys, value, hashed=False):
    """A key of YAML; `hashed`: by somebody who wrote the hashes anew."""

    def change(folder, _=None):
        tree = branch = yaml.safe_load((folder / file).read_text())
        for key in keys[:-1]:
            branch = branch[key]
        branch[keys[-1]] = value
        (folder / file).write_text(yaml.safe_dump(tree, sort_keys=False))
        if hashed:
            forge((folder / file).parent)

    return change


def add_one(file):
    """The last digit of a file of numbers, which stay numbers."""

    def change(folder, _=None):
        text = (folder / file).read_text()
        at = max(place for place, sign in enumerate(text) if sign.isdigit())
        (folder / file).write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")

    return change


def drop_line(file):
    def change(folder, _=None):
        lines = (folder / file).read_text().splitlines(keepends=True)
        (folder / file).write_text("".join(lines[:-1]))

    return change


def swap_width(file):
    """The first image of an index is a pixel wider."""

    def change(folder, _=None):
        first, *rest = [json.loads(line) for line in (folder / file).read_text().splitlines()]
        first["width"] += 1
        (folder / file).write_text("".join(json.dumps(line) + "\n" for line in (first, *rest)))

    return change
