"""Untrusted folders of shared weights: each check of the reader, and random damage."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from pipeline.captioning import PictureCaptioner
from pipeline.captioning.answers import Limits
from pipeline.captioning.picture_captioner import Search
from pipeline.confidence.calibration import FILE
from pipeline.io.errors import InputError
from tests.forged import unhash
from tests.hostile import folder, hole, pipe, refused
from tests.pipeline.captioning.spoiling import (
    ALIASES,
    FEATURES,
    MODEL,
    SCORES,
    SOUND,
    STATISTICS,
    WEIGHTS,
    WORDS,
    filled,
    first,
    ids,
    instead,
    put,
    tensors,
    whole,
    width,
)


@pytest.fixture
def package(tmp_path):
    folder = shutil.copytree(SOUND, tmp_path / "package")
    unhash(folder)  # a stranger would write them anew
    (folder / "config.json").unlink()  # which would contradict what a test changes
    return folder


def several(*changes):
    return lambda place: [change(place) for change in changes]


def backbone_at(file):
    """The package leaves the backbone's weights to a file of that name."""

    def change(place):
        put(FEATURES, "carried: true", "carried: false")(place)
        put(MODEL, "weights: data/backbones/tabletop.safetensors", f"weights: {file}")(place)

    return change


MODELS = {
    "an alias bomb of 429 bytes": (whole(MODEL, ALIASES), "an alias"),
    "one merge key": (put(MODEL, "seed: 1", "seed: 1\n<<: {x: 1}"), "unknown key"),
    "a width of 65536": (width(65_536), "recipe.sizes.width is 65536, and has 8192 at most"),
    "an odd width": (width(129), "width 129 is not"),
    "a width of a whole number of 5000 digits": (width("9" * 5000), "is not valid YAML"),
    "a width of a hexadecimal number of 50000 digits": (width("0x" + "f" * 50_000), "4300 digits"),
    "a width that is no number": (width(".nan"), "recipe.sizes.width: Input should be"),
    "a width of minus 8": (width(-8), "width is -8"),
    "a billion layers": (
        put(MODEL, "  inter: 2", "  inter: 1000000000"),
        "inter is 1000000000, and has 64",
    ),
    "64 layers, of which the weights have one": (
        put(MODEL, "caption_layers: 1", "caption_layers: 64"),
        "model.safetensors does not load (the tensor difference.memories.layers.1",
    ),
    "no head": (put(MODEL, "heads: 4", "heads: 0"), "heads is 0"),
    "captions of a billion words": (
        put(MODEL, "longest: 24", "longest: 1000000000"),
        "longest is 1000000000",
    ),
    "a billion words": (put(MODEL, "vocabulary: 76", "vocabulary: 1000000000"), "vocabulary is 1000000000"),
    "features of a billion channels": (put(MODEL, "- 768", "- 1000000000"), "shape is 1000000000"),
    "64 heads of 4096 cells": (
        several(put(MODEL, "heads: 4", "heads: 64"), put(MODEL, "- 768\n- 14\n- 14", "- 768\n- 64\n- 64")),
        "64 heads of 64 x 64 cells would take more than 1 GB a pair",
    ),
    "features that the backbone does not give": (put(MODEL, "size: 448", "size: 256"), "names features of"),
    "a key of a date": (put(MODEL, "seed: 1", "seed: 1\n2026-01-02: 1"), "keys must be str"),
    "a key of 10000 letters": (put(MODEL, "seed: 1", f"seed: 1\n? {'x' * 10_000}\n: 1"), "unknown key"),
    "a key of a list": (put(MODEL, "seed: 1", "seed: 1\n? [a]\n: 1"), "keys must be str"),
    "a repeated key": (put(MODEL, "seed: 1", "seed: 1\nseed: 2"), 'found duplicate key "seed"'),
    "a key of terminal escapes": (put(MODEL, "seed: 1", 'seed: 1\n"\\e[2J": 1'), "unknown key \\u001b[2J"),
    "a Python object": (whole(MODEL, "!!python/object/apply:os.system [echo]"), "is not valid YAML"),
    "a thousand lists within each other": (whole(MODEL, "[" * 1000), "is not valid YAML"),
    "100 kB of settings": (
        put(MODEL, "seed: 1", "seed: 1\n#" + "x" * 100_000),
        "and such a file 65,536 at most",
    ),
    "settings that are not UTF-8": (whole(MODEL, b"a: \xff\xfe"), "is not UTF-8 text"),
    "a pipe as settings": (instead(MODEL, pipe), "is a pipe or a device"),
    "a folder as settings": (instead(MODEL, folder), "is a folder, not a file"),
    "no settings": (instead(MODEL, Path.unlink), "model.yaml is missing"),
    "a model that nobody has": (put(MODEL, "model: clip4idc", "model: gpt"), "unknown model 'gpt'"),
    "a setting that no model has": (put(MODEL, "patches: features", "a: 1"), "switches.a"),
}
TENSORS = {
    "weights that are no numbers": (first(filled(torch.nan)), "has a number that is not finite"),
    "weights of bytes": (first(lambda tensor: tensor.to(torch.int8)), "is of I8, not of floats"),
    "weights of whole numbers": (first(lambda tensor: tensor.long()), "is of torch.int64"),
    "weights of another shape": (first(lambda tensor: tensor[..., None].contiguous()), "where the model has"),
    "one tensor too few": (tensors(lambda found: found.pop(min(found))), "is missing"),
    "one tensor too many": (tensors(lambda found: found.update(more=torch.ones(2))), "more is no tensor of"),
    "weights cut off": (lambda place: hole(place / WEIGHTS, 5000), "does not load"),
    "weights of 2 GB without content": (instead(WEIGHTS, hole, 2 << 30), "at most"),
    "a pipe as weights": (instead(WEIGHTS, pipe), "is a pipe or a device"),
    "a deviation below zero": (
        tensors(lambda found: found["deviation"].neg_(), STATISTICS),
        "a deviation is not above 0",
    ),
    "statistics without the mean": (
        tensors(lambda found: found.pop("mean"), STATISTICS),
        "statistics.safetensors lacks the mean of 768 channels; bring the package again",
    ),
    "statistics of other channels": (
        tensors(lambda found: found.update(deviation=found["deviation"][:7].clone()), STATISTICS),
        "lacks the deviation of 768 channels",
    ),
    "no statistics": (instead(STATISTICS, Path.unlink), "statistics.safetensors does not load"),
}
BESIDE = {
    "a vocabulary of 47 MB": (
        whole(WORDS, '{"ids": {' + " " * 47_000_000 + "}}"),
        "such a file 4,194,304 at",
    ),
    "an id of 5000 digits": (whole(WORDS, '{"ids": {"a": ' + "9" * 5000 + "}}"), "an integer too long"),
    "an id of 30 digits": (ids(lambda record: record["ids"].update(red=10**30)), "without gaps"),
    "an id of a fraction": (ids(lambda record: record["ids"].update(red=0.5)), "ids.red: Input"),
    "ids with a gap": (ids(lambda record: record["ids"].update(red=10**6)), "without gaps"),
    "a word more than the weights have": (
        ids(lambda record: record["ids"].update(more=len(record["ids"]))),
        "belong to a vocabulary of 76 words",
    ),
    "half a character as a word": (put(WORDS, '"red"', '"\\ud800"'), "holds half a character"),
    "a thousand lists within each other as words": (
        whole(WORDS, "[" * 900 + "]" * 900),
        "recursion",
    ),
    "no words": (instead(WORDS, Path.unlink), "vocabulary.json is missing"),
    "a backbone without a hash": (whole(FEATURES, "carried: true"), "the key weights_id is missing"),
    "a precision that is none": (put(FEATURES, "precision: float32", "precision: int8"), "precision: Input"),
    "another backbone's hash": (put(FEATURES, "sha256:8", "sha256:9"), "was made with features of sha256:9"),
    "a backbone that is not brought": (
        lambda place: (place / "backbone.safetensors").unlink(),
        "backbone.safetensors",
    ),
    "a giant as backbone": (
        put(MODEL, "tf_efficientnet_lite0", "convnext_xxlarge"),
        "convnext_xxlarge, has ",
    ),
    "a stranger's backbone of the hub": (
        put(MODEL, "backbone: tf_efficientnet_lite0", "backbone: hf-hub:someone/model"),
        "timm has no model 'hf-hub:someone/model'",
    ),
    "a file of the machine as the backbone's weights": (
        backbone_at("/etc/passwd"),
        "/etc/passwd is no file of tensors (it is not a file of torch.save)",
    ),
    "a config of other sizes": (
        whole("config.json", '{"sizes": {"width": 64}}'),
        "sizes is not as in model.yaml",
    ),
    "a config of other images": (
        whole("config.json", '{"image_size": [1, 1]}'),
        "image_size is not as in model.yaml",
    ),
    "a config of a list": (whole("config.json", "[]"), "Input should be an object"),
    "scores of a list": (whole(SCORES, "[]"), "Input should be an object"),
}
TRIED = MODELS | TENSORS | BESIDE


@pytest.mark.parametrize(("change", "said"), TRIED.values(), ids=TRIED)
def test_a_folder_is_refused_for(package, change, said):
    change(package)
    found = refused(lambda: PictureCaptioner.load(package))
    assert said in found
    assert str(package) in found or "features." in found  # the file, or the key


@pytest.mark.parametrize("name", [MODEL, FEATURES, WORDS, SCORES, STATISTICS, FILE])
def test_a_damaged_file_is_refused_or_harmless(package, name):
    """Truncated, a flipped bit, or two exchanged parts: an InputError, and no other exception."""
    chance, data = random.Random(name), (package / name).read_bytes()
    for _ in range(2):
        cut, flipped = chance.randrange(len(data)), bytearray(data)
        flipped[cut] ^= 1 << chance.randrange(8)
        for damaged in (data[:cut], bytes(flipped), data[cut:] + data[:cut]):
            (package / name).write_bytes(damaged)
            with suppress(InputError):
                PictureCaptioner.load(package)


def test_a_word_of_terminal_escapes_is_never_printed_raw(package, tmp_path, capsys):
    from PIL import Image

    from commands import caption

    words = json.loads((package / WORDS).read_text())
    del words["hashes"]
    words["ids"] = {f"\x1b[3{n}m\x07\x9b2J" if n > 3 else word: n for word, n in words["ids"].items()}
    (package / WORDS).write_text(json.dumps(words))
    for name in "ab":
        Image.new("RGB", (64, 64), "red").save(tmp_path / f"{name}.png")
    captioner = PictureCaptioner.load(package)
    for more in ([], ["--json"], ["--top", "2"], ["--json", "--top", "2"]):
        arguments = caption.parser().parse_args(
            [str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--weights", "x", *more]
        )
        caption.one(arguments, captioner, Search(arguments.top or 1), Limits(any_images=True))
        said = capsys.readouterr().out
        assert "\\u001b[3" in said
        assert not set(said) & {"\x1b", "\x07", "\x9b"}
        if "--json" in more:
            assert "\x1b[3" in json.loads(said)["caption"]
