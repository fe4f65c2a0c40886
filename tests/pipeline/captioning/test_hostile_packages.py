"""Untrusted packages of weights: a case for each check of the reader, and random damage."""

import json
import random
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.captioning import PairCaptioner, sources
from pipeline.captioning.pair_captioner import Limits, Search
from pipeline.confidence.calibration import FILE
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.weights import trained_model
from tests.forged import unhash
from tests.hostile import folder, large, pipe, refused

SHIPPED = Path(__file__).parents[3] / "demo/clip4idc"
MODEL, FEATURES, WORDS, SCORES = "model.yaml", "features.yaml", "vocabulary.json", "scores.json"
WEIGHTS, STATISTICS = "model.safetensors", "statistics.safetensors"


@pytest.fixture
def package(tmp_path):
    """The shipped package without hashes, so that a changed file is read at all."""
    folder = shutil.copytree(SHIPPED, tmp_path / "package")
    unhash(folder)
    return folder


def put(name, old, new):
    """Replace a text in one of the package's files."""

    def change(place):
        text = (place / name).read_text()
        assert old in text
        (place / name).write_text(text.replace(old, new, 1))

    return change


def model(old, new):
    return put(MODEL, old, new)


def added(text):
    """Add lines to model.yaml."""
    return model("seed: 1", f"seed: 1\n{text}")


def whole(name, content):
    """Replace one of the files."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda place: (place / name).write_bytes(data)


def lost(name):
    return lambda place: (place / name).unlink()


def tensors(change, name=WEIGHTS):
    """Change the dictionary of tensors in a file."""

    def write(place):
        found = load_file(place / name)
        change(found)
        save_file(found, place / name)

    return write


def first(change):
    """Change the first tensor of the weights."""
    return tensors(lambda found: found.update({min(found): change(found[min(found)])}))


def hashed(record):
    """Return a vocabulary's record with the hash of its content as it is now."""
    others = {name: value for name, value in record.pop("hashes").items() if name != content_hashes.RECORD}
    return content_hashes.with_hashes(record, others)


def ids(**changes):
    """Change ids of vocabulary.json, and the hash of its content."""

    def write(place):
        record = json.loads((place / WORDS).read_text())
        record["ids"] |= changes
        (place / WORDS).write_text(json.dumps(hashed(record)))

    return write


def many_cells(place):
    model("heads: 4", "heads: 64")(place)
    model("- 768\n- 14\n- 14", "- 768\n- 64\n- 64")(place)


def backbone_of_the_machine(place):
    put(FEATURES, "carried: true", "carried: false")(place)
    model("weights: data/backbones/tabletop.safetensors", "weights: /etc/passwd")(place)


LETTERS = "x" * 10_000
DAMAGED = {
    "an alias": (whole(MODEL, "a: &a [x]\nb: *a"), "an alias"),
    "broken syntax": (whole(MODEL, "["), "is not valid YAML"),
    "a Python object": (whole(MODEL, "!!python/object/apply:os.getcwd []"), "is not valid YAML"),
    "a date as key": (added("2026-01-02: 1"), "keys must be str"),
    "a list as key": (added("? [a]\n: 1"), "keys must be str"),
    "a key twice": (added("seed: 2"), 'found duplicate key "seed"'),
    "terminal escapes": (added('"\\e[2J": 1'), "unknown key \\u001b[2J"),
    "a huge number": (model("width: 128", f"width: {'0x' + 'f' * 4_000}"), "4300 digits"),
    "a size that is no number": (model("width: 128", "width: .nan"), "recipe.sizes.width: Input should be"),
    "a size below 1": (model("width: 128", "width: -8"), "width is -8"),
    "sizes that do not fit": (model("width: 128", "width: 129"), "width 129 is not"),
    "a size above the limit": (model("width: 128", "width: 65536"), "width is 65536, and has 8192 at most"),
    "a shape above the limit": (model("- 768", "- 1000000000"), "shape.0: Input should be less"),
    "too much attention": (many_cells, "64 heads of 64 x 64 cells would take more than 1 GB a pair"),
    "features of other sizes": (model("size: 448", "size: 256"), "names features of"),
    "an unknown model": (model("model: clip4idc", "model: gpt"), "unknown model 'gpt'"),
    "an unknown switch": (model("patches: features", "a: 1"), "switches.a"),
    "a large model.yaml": (added(f"#{LETTERS * 10}"), "this kind of file is 64 KiB"),
    "a folder as model.yaml": (lambda place: folder(place / MODEL), "is a folder, not a file"),
    "no model.yaml": (lost(MODEL), "model.yaml is missing"),
    "weights that are not finite": (first(lambda x: x * torch.nan), "has a number that is not finite"),
    "weights of bytes": (first(lambda x: x.to(torch.int8)), "is of I8, not of floats"),
    "weights of integers": (first(lambda x: x.long()), "is of torch.int64"),
    "weights of another shape": (first(lambda x: x[..., None].contiguous()), "where the model has"),
    "one tensor too few": (tensors(lambda found: found.pop(min(found))), "is missing"),
    "one tensor too many": (tensors(lambda found: found.update(more=torch.ones(2))), "more is no tensor of"),
    "weights cut off": (whole(WEIGHTS, bytes(5000)), "does not load"),
    "weights of 2 GB": (
        lambda place: large(place / WEIGHTS, 2 << 30),
        "this kind of file is 1 GiB",
    ),
    "a pipe as weights": (lambda place: pipe(place / WEIGHTS), "is a pipe or a device"),
    "a deviation below zero": (
        tensors(lambda found: found["deviation"].neg_(), STATISTICS),
        "a deviation is not above 0",
    ),
    "statistics of other channels": (
        tensors(lambda found: found.update(mean=found["mean"][:7].clone()), STATISTICS),
        "lacks the mean of 768 channels; bring the package again",
    ),
    "a large vocabulary": (
        lambda place: large(place / WORDS, 47_000_000),
        "this kind of file is 4 MiB",
    ),
    "an id of 5000 digits": (whole(WORDS, '{"ids": {"a": ' + "9" * 5000 + "}}"), "an integer too long"),
    "an id that is no integer": (ids(red=0.5), "ids.red: Input"),
    "ids with a gap": (ids(red=10**6), "without gaps"),
    "a word too many": (ids(more=76), "belong to a vocabulary of 76 words"),
    "half a character": (put(WORDS, '"red"', '"\\ud800"'), "holds half a character"),
    "deep nesting": (whole(WORDS, "[" * 300 + "]" * 300), "recursion"),
    "no vocabulary": (lost(WORDS), "vocabulary.json is missing"),
    "no hash of the backbone": (whole(FEATURES, "carried: true"), "the key weights_id is missing"),
    "an unknown precision": (put(FEATURES, "precision: float32", "precision: int8"), "precision: Input"),
    "another backbone": (put(FEATURES, "sha256:8", "sha256:9"), "was made with features of sha256:9"),
    "no backbone": (lost("backbone.safetensors"), "backbone.safetensors"),
    "a backbone of a hub": (
        model("backbone: tf_efficientnet_lite0", "backbone: hf-hub:someone/model"),
        "timm has no model 'hf-hub:someone/model'",
    ),
    "a file of the machine": (
        backbone_of_the_machine,
        "/etc/passwd is no file of tensors (it is not a file of torch.save)",
    ),
    "scores that are a list": (whole(SCORES, "[]"), "Input should be a"),
}


@pytest.mark.parametrize(("change", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_folder_is_refused_for(package, change, said):
    change(package)
    found = refused(lambda: PairCaptioner.load(package))
    assert said in found
    assert str(package) in found or "features." in found  # the file, or the key


def zipped(place, out):
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in sorted(place.iterdir()):
            file.writestr(path.name, path.read_bytes())
    return out


def zip_of(change):
    def make(place, out):
        change(place)
        zipped(place, out)

    return make


def hit(place, out):
    """Flip bits in the contents of a file in the package."""
    data, name = bytearray(zipped(place, out).read_bytes()), b"features.yaml"
    data[data.index(name) + len(name) + 3] ^= 0xFF
    out.write_bytes(data)


ZIPS = {
    "a large model.yaml": (
        zip_of(whole(MODEL, "#" * (trained_model.LARGEST + 1))),
        "model.yaml has 65,537 bytes",
    ),
    "no model.yaml": (zip_of(lost(MODEL)), "is no package of weights"),
    "damaged contents": (hit, "does not open as a package"),
    "nothing": (lambda place, out: out.touch(), "does not open as a package"),
    "a pipe": (lambda place, out: pipe(out), "is a pipe or a device"),
    "no file": (lambda place, out: None, "is missing; name a folder of weights or a package"),
}


@pytest.mark.parametrize(("make", "said"), ZIPS.values(), ids=ZIPS)
def test_a_zip_is_refused_for(package, tmp_path, make, said):
    out = tmp_path / "package.zip"
    make(package, out)
    found = refused(lambda: PairCaptioner.load(out))
    assert said in found
    assert str(out) in found


def test_a_file_that_would_unpack_to_more_than_the_limit_is_not_unpacked(package, tmp_path, monkeypatch):
    for name in (WEIGHTS, "backbone.safetensors"):
        (package / name).unlink()
    out = zipped(package, tmp_path / "package.zip")
    largest = max(path.stat().st_size for path in package.iterdir())
    monkeypatch.setattr(sources, "MOST_BYTES", largest - 1)
    assert f"would unpack to more than {largest - 1:,} bytes" in refused(lambda: PairCaptioner.load(out))


def test_a_package_may_be_zipped_by_hand_and_have_the_name_of_trained_weights(package, tmp_path):
    (package / "model.safetensors").rename(package / "weights.safetensors")
    for place in (package, zipped(package, tmp_path / "it.zip")):
        assert PairCaptioner.load(place).trained.vocabulary == 76


@pytest.mark.parametrize("name", [MODEL, FEATURES, WORDS, SCORES, STATISTICS, FILE])
def test_a_damaged_file_is_refused_or_harmless(package, name):
    """Truncated, a flipped bit, or two exchanged parts: an InputError, and no other exception."""
    chance, data = random.Random(name), (package / name).read_bytes()
    cut, flipped = chance.randrange(len(data)), bytearray(data)
    flipped[cut] ^= 1 << chance.randrange(8)
    for damaged in (data[:cut], bytes(flipped), data[cut:] + data[:cut]):
        (package / name).write_bytes(damaged)
        with suppress(InputError):
            PairCaptioner.load(package)


def test_terminal_escapes_in_a_word_are_not_printed(package, capsys):
    from commands import caption

    words = json.loads((package / WORDS).read_text())
    words["ids"] = {f"\x1b[3{n}m\x07\x9b2J" if n > 3 else word: n for word, n in words["ids"].items()}
    (package / WORDS).write_text(json.dumps(hashed(words)))
    captioner = PairCaptioner.load(package)
    sample = [str(SHIPPED.parents[1] / f"docs/sample/{name}.png") for name in ("before", "after")]
    for more in ([], ["--json", "--top", "2"]):
        arguments = caption.parser().parse_args([*sample, "--weights", "x", *more])
        caption.caption_pair(arguments, captioner, Search(arguments.top or 1), Limits(any_images=True))
        said = capsys.readouterr().out
        assert "\\u001b[3" in said
        assert not set(said) & {"\x1b", "\x07", "\x9b"}
