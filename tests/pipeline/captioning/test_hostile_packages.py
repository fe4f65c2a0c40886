"""Shared weights from strangers, a folder or a .zip: what was tried (the tests' names), and what happened."""

import json
import shutil
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.captioning import PictureCaptioner
from tests.hostile import endless, folder, hole, pipe, refused

SOUND = Path(__file__).parents[3] / "demo/subtraction"
MODEL, FEATURES, WORDS, SCORES = "model.yaml", "features.yaml", "vocabulary.json", "scores.json"
WEIGHTS, STATISTICS = "weights.safetensors", "statistics.safetensors"
WIDTH = "  width: 128"


@pytest.fixture
def package(tmp_path):
    return shutil.copytree(SOUND, tmp_path / "package")


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
    """vocabulary.json with other ids."""

    def write(place):
        record = json.loads((place / WORDS).read_text())
        change(record)
        (place / WORDS).write_text(json.dumps(record))

    return write


def header(length, text=b"{}"):
    return struct.pack("<Q", length) + text


def claims(count):
    """A header that claims so many numbers, of which none are there."""
    text = json.dumps({"a": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    return header(len(text), text)


def levels(line, depth):
    return "\n".join(line.format(before=chr(96 + n), own=chr(97 + n)) for n in range(1, depth)) + "\n"


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + levels(
    "{own}: &{own} [" + ", ".join(["*{before}"] * 9) + "]", 9
)
MERGES = "a: &a {x: 1}\n" + levels("{own}: &{own} {{<<: [" + ", ".join(["*{before}"] * 9) + "]}}", 9)
GIANT = [("backbone: tf_efficientnet_lite0", "backbone: convnext_xxlarge")]


def several(*changes):
    return lambda place: [change(place) for change in changes]


MODELS = {
    "an alias bomb of 429 bytes": (whole(MODEL, ALIASES), "an alias"),
    "a bomb of merge keys": (whole(MODEL, MERGES), "an alias"),
    "one alias": (put(MODEL, "seed: 1", "seed: &s 1\nmore: *s"), "an alias"),
    "one merge key": (put(MODEL, "seed: 1", "seed: 1\n<<: {x: 1}"), "a merge key"),
    "a width of 65536": (width(65_536), "recipe.sizes.width is 65536, and has 8192 at most"),
    "a width of 8192, which the weights have not": (width(8192), "does not load"),
    "an odd width": (width(129), "width 129 is not"),
    "a width of a whole number of 400 digits": (width("9" * 400), "beyond 64 bits"),
    "a width of a whole number of 5000 digits": (width("9" * 5000), "is not valid YAML"),
    "a width of a hexadecimal number of 50000 digits": (width("0x" + "f" * 50_000), "beyond 64 bits"),
    "a width that is no number": (width(".nan"), "recipe.sizes.width: Input should be"),
    "a width without end": (width(".inf"), "recipe.sizes.width: Input should be"),
    "a width of minus 8": (width(-8), "width is -8"),
    "a width of nothing": (width("null"), "recipe.sizes.width: Input should be"),
    "a width of zero": (width(0), "width is 0"),
    "a width in words": (width("wide"), "recipe.sizes.width: Input should be"),
    "a width of a date": (width("2026-01-02"), "recipe.sizes.width: a date"),
    "a width of true": (width("true"), "recipe.sizes.width: Input should be"),
    "a billion layers": (
        put(MODEL, "  layers: 1", "  layers: 1000000000"),
        "layers is 1000000000, and has 64",
    ),
    "a billion layers of the decoder": (
        put(MODEL, "decoder_layers: 2", "decoder_layers: 1000000000"),
        "decoder_layers is 1000000000, and has 64 at most",
    ),
    "64 layers, of which the weights have two": (
        put(MODEL, "decoder_layers: 2", "decoder_layers: 64"),
        "weights.safetensors does not load (the tensor decoder.layers.2",
    ),
    "no head": (put(MODEL, "heads: 2", "heads: 0"), "heads is 0"),
    "captions of a billion words": (
        put(MODEL, "longest: 24", "longest: 1000000000"),
        "longest is 1000000000",
    ),
    "a billion words": (put(MODEL, "vocabulary: 76", "vocabulary: 1000000000"), "vocabulary is 1000000000"),
    "one word more than the weights have": (put(MODEL, "vocabulary: 76", "vocabulary: 77"), "does not load"),
    "features of a billion channels": (put(MODEL, "- 768", "- 1000000000"), "shape is 1000000000"),
    "features of two numbers": (put(MODEL, "- 768\n", ""), "shape"),
    "64 heads of 4096 cells": (
        several(put(MODEL, "heads: 2", "heads: 64"), put(MODEL, "- 768\n- 7\n- 7", "- 768\n- 64\n- 64")),
        "64 heads of 64 x 64 cells would take more than 1 GB a pair",
    ),
    "features that the backbone does not give": (put(MODEL, "size: 224", "size: 256"), "names features of"),
    "a dataset of a date": (put(MODEL, "dataset: tabletop", "dataset: 2026-01-02"), "recipe.dataset: a date"),
    "a day that no calendar has": (put(MODEL, "dataset: tabletop", "dataset: 2026-99-99"), "not valid YAML"),
    "a dataset of bytes": (put(MODEL, "dataset: tabletop", "dataset: !!binary aGVsbG8="), "a bytes"),
    "a set": (put(MODEL, "seed: 1", "seed: !!set {a, b}"), "seed: a set"),
    "a key of a date": (put(MODEL, "seed: 1", "seed: 1\n2026-01-02: 1"), "the key 2026-01-02 is no text"),
    "a key of a number": (put(MODEL, "seed: 1", "seed: 1\n7: 1"), "the key 7 is no text"),
    "a key of a list": (put(MODEL, "seed: 1", "seed: 1\n? [a]\n: 1"), "a list or a mapping is no key"),
    "a key that stands twice": (put(MODEL, "seed: 1", "seed: 1\nseed: 2"), "the key 'seed' stands in line"),
    "a key of terminal escapes": (
        put(MODEL, "seed: 1", 'seed: 1\n"\\e[2J": 1'),
        "unexpected keyword argument '\\u001b[2J'",
    ),
    "a model of terminal escapes": (put(MODEL, "model: subtraction", 'model: "\\e]0;x\\a"'), "unknown model"),
    "a seed of a huge whole number": (
        put(MODEL, "seed: 1", f"seed: {10**30}"),
        "seed: a whole number beyond",
    ),
    "a Python object": (whole(MODEL, "!!python/object/apply:os.system [echo]"), "is not valid YAML"),
    "a thousand lists within each other": (whole(MODEL, "[" * 1000), "is not valid YAML"),
    "60000 lists within each other": (whole(MODEL, "[" * 60_000), "is not valid YAML"),
    "30000 blocks within each other": (whole(MODEL, "- " * 30_000), "is not valid YAML"),
    "100 kB of settings": (
        put(MODEL, "seed: 1", "seed: 1\n#" + "x" * 100_000),
        "and such a file 65,536 at most",
    ),
    "settings that are not UTF-8": (whole(MODEL, b"a: \xff\xfe"), "is not UTF-8 text"),
    "settings with a null byte": (whole(MODEL, b"a: \0"), "is not valid YAML"),
    "empty settings": (whole(MODEL, ""), "Input should be"),
    "settings of a list": (whole(MODEL, "[1]"), "Input should be"),
    "two documents": (whole(MODEL, "a: 1\n---\nb: 1\n"), "is not valid YAML"),
    "a pipe as settings": (instead(MODEL, pipe), "is a pipe or a device"),
    "a device as settings": (instead(MODEL, endless), "is a pipe or a device"),
    "a folder as settings": (instead(MODEL, folder), "is a folder, not a file"),
    "no settings": (instead(MODEL, Path.unlink), "model.yaml is missing"),
    "a model that nobody has": (put(MODEL, "model: subtraction", "model: gpt"), "unknown model 'gpt'"),
    "a setting that no model has": (put(MODEL, "switches: {}", "switches: {a: 1}"), "switches.a"),
}
TENSORS = {
    "weights that are no numbers": (first(filled(torch.nan)), "has a number that is not finite"),
    "weights without end": (first(filled(torch.inf)), "has a number that is not finite"),
    "weights of bytes": (first(lambda tensor: tensor.to(torch.int8)), "is of I8, not of floats"),
    "weights of whole numbers": (first(lambda tensor: tensor.long()), "is of torch.int64"),
    "weights of 64 bits": (first(lambda tensor: tensor.double()), "is of F64, not of floats"),
    "weights of 8 bits": (first(lambda tensor: tensor.to(torch.float8_e4m3fn)), "not of floats"),
    "weights of truths": (first(lambda tensor: tensor > 0), "is of BOOL, not of floats"),
    "complex weights": (first(lambda tensor: tensor.to(torch.complex64)), "not of floats"),
    "weights of another shape": (first(lambda tensor: tensor[..., None].contiguous()), "where the model has"),
    "one tensor too few": (tensors(lambda found: found.pop(min(found))), "is missing"),
    "one tensor too many": (tensors(lambda found: found.update(more=torch.ones(2))), "more is no tensor of"),
    "no tensor": (tensors(dict.clear), "is missing"),
    "a tensor named by escapes": (
        tensors(lambda found: found.update({"\x1b[2J": torch.ones(2)})),
        "\\u001b[2J is no tensor of",
    ),
    "an empty file of weights": (whole(WEIGHTS, b""), "does not load"),
    "weights cut off": (lambda place: hole(place / WEIGHTS, 5000), "does not load"),
    "a header of 2 ** 60 bytes": (whole(WEIGHTS, header(2**60)), "does not load"),
    "a header that is no JSON": (whole(WEIGHTS, header(4, b"no!!")), "does not load"),
    "a header that claims 2 ** 40 numbers": (whole(WEIGHTS, claims(2**40)), "does not load"),
    "a header that claims 2 ** 62 numbers": (whole(WEIGHTS, claims(2**62)), "does not load"),
    "weights of 2 GB without content": (instead(WEIGHTS, hole, 2 << 30), "at most"),
    "a pipe as weights": (instead(WEIGHTS, pipe), "is a pipe or a device"),
    "a device as weights": (instead(WEIGHTS, endless), "is a pipe or a device"),
    "a folder as weights": (instead(WEIGHTS, folder), "is a folder, not a file"),
    "no weights": (instead(WEIGHTS, Path.unlink), "weights.safetensors does not load"),
    "statistics that are no numbers": (first(filled(torch.nan), STATISTICS), "is not finite"),
    "a deviation below zero": (
        tensors(lambda found: found["deviation"].neg_(), STATISTICS),
        "a deviation is not above 0",
    ),
    "statistics of bytes": (first(lambda tensor: tensor.to(torch.int8), STATISTICS), "is of I8"),
    "complex statistics": (first(lambda tensor: tensor.to(torch.complex64), STATISTICS), "not of floats"),
    "statistics of 2 MB": (instead(STATISTICS, hole, 2 << 20), "such a file 1,048,576 at most"),
    "no statistics": (instead(STATISTICS, Path.unlink), "statistics.safetensors does not load"),
    "a pipe as statistics": (instead(STATISTICS, pipe), "is a pipe or a device"),
}
BESIDE = {
    "a vocabulary of 47 MB": (
        whole(WORDS, '{"ids": {' + " " * 47_000_000 + "}}"),
        "such a file 4,194,304 at",
    ),
    "an id of 5000 digits": (whole(WORDS, '{"ids": {"a": ' + "9" * 5000 + "}}"), "an integer too long"),
    "an id of 30 digits": (
        ids(lambda record: record["ids"].update(red=10**30)),
        "ids.red: a whole number bey",
    ),
    "an id that is no number": (ids(lambda record: record["ids"].update(red=float("nan"))), "ids.red: Input"),
    "an id of a fraction": (ids(lambda record: record["ids"].update(red=0.5)), "ids.red: Input"),
    "an id of true": (ids(lambda record: record["ids"].update(red=True)), "ids.red: Input"),
    "an id below zero": (ids(lambda record: record["ids"].update(red=-1)), "without gaps"),
    "ids with a gap": (ids(lambda record: record["ids"].update(red=10**6)), "without gaps"),
    "a word without an id": (ids(lambda record: record["ids"].update(red=None)), "ids.red: Input"),
    "a word more than the weights have": (
        ids(lambda record: record["ids"].update(more=len(record["ids"]))),
        "belong to a vocabulary of 76 words, not 77",
    ),
    "half a character as a word": (put(WORDS, '"red"', '"\\ud800"'), "vocabulary.json: "),
    "a word that stands twice": (put(WORDS, '"red"', '"blue"'), "has the key 'blue' more than once"),
    "a thousand lists within each other as words": (
        whole(WORDS, "[" * 900 + "]" * 900),
        "more than 64 lists",
    ),
    "100000 lists within each other as words": (whole(WORDS, "[" * 100_000), "is not valid JSON"),
    "a list of words": (whole(WORDS, "[]"), "Input should be an object"),
    "words that are nothing": (whole(WORDS, "null"), "Input should be an object"),
    "words that are not JSON": (whole(WORDS, "words"), "is not valid JSON"),
    "a pipe as words": (instead(WORDS, pipe), "is a pipe or a device"),
    "a device as words": (instead(WORDS, endless), "is a pipe or a device"),
    "no words": (instead(WORDS, Path.unlink), "vocabulary.json is missing"),
    "an alias in features.yaml": (
        whole(FEATURES, "weights_id: &a x\nprecision: *a\n"),
        "features.yaml, line 2: an alias",
    ),
    "a precision that is none": (put(FEATURES, "precision: float32", "precision: int8"), "precision: Input"),
    "a hash of a date": (put(FEATURES, "weights_id: ", "weights_id: 2026-01-02 #"), "weights_id: a date"),
    "another backbone's hash": (put(FEATURES, "sha256:8", "sha256:9"), "was made with features of sha256:9"),
    "a backbone that is not brought": (
        put(FEATURES, "carried: false", "carried: true"),
        "backbone.safetensors",
    ),
    "20 kB of features.yaml": (instead(FEATURES, hole, 20_000), "such a file 16,384 at most"),
    "a giant as backbone": (put(MODEL, *GIANT[0]), "convnext_xxlarge, has "),
    "a stranger's backbone of the hub": (
        put(MODEL, "backbone: tf_efficientnet_lite0", "backbone: hf-hub:someone/model"),
        "timm has no model 'hf-hub:someone/model'",
    ),
    "a device as the backbone's weights": (
        put(MODEL, "weights: imagenet", "weights: /dev/zero"),
        "is missing",
    ),
    "a file of the machine as the backbone's weights": (
        put(MODEL, "weights: imagenet", "weights: /etc/passwd"),
        "/etc/passwd is no file of tensors (it is not a file of torch.save)",
    ),
    "scores of a list": (whole(SCORES, "[]"), "Input should be an object"),
    "a score of 5000 digits": (whole(SCORES, '{"own": ' + "9" * 5000 + "}"), "an integer too long"),
    "scores of 900 lists within each other": (
        whole(SCORES, '{"own": ' + "[" * 900 + "]" * 900 + "}"),
        "64 lists",
    ),
    "scores of 2 MB": (whole(SCORES, '{"own": 1}' + " " * 2_000_000), "such a file 1,048,576 at most"),
    "a pipe as scores": (instead(SCORES, pipe), "is a pipe or a device"),
}
TRIED = MODELS | TENSORS | BESIDE


@pytest.mark.parametrize(("change", "said"), TRIED.values(), ids=TRIED)
def test_a_folder_is_refused_for(package, change, said):
    change(package)
    found = refused(lambda: PictureCaptioner.load(package))
    assert said in found
    assert str(package) in found or "features." in found  # the file, or the key


def zipped(place, out, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(out, "w", method, compresslevel=1) as file:
        for path in sorted(place.iterdir()):
            file.writestr(path.name, path.read_bytes())
    return out


def packed(change, method=zipfile.ZIP_DEFLATED):
    """The package, changed and zipped."""

    def make(place, out):
        change(place)
        zipped(place, out, method)

    return make


def damaged(old, new):
    """The zip file with other bytes."""

    def make(place, out):
        data = zipped(place, out).read_bytes()
        assert old in data
        out.write_bytes(data.replace(old, new))

    return make


ZIPS = {
    "47 MB of words in a small file": (
        packed(whole(WORDS, '{"ids": {' + " " * 47_000_000 + "}}")),
        "vocabulary.json has 47,000,011 bytes, and such a file 4,194,304 at most",
    ),
    "settings that unpack to 10 MB": (
        packed(whole(MODEL, "#" * 10_000_000)),
        "model.yaml has 10,000,000 bytes",
    ),
    "30 MB of zeros as weights in a small file": (
        packed(whole(WEIGHTS, bytes(30_000_000))),
        "weights.safetensors would unpack to ",
    ),
    "a way of packing that takes memory as the file says": (
        packed(instead(WEIGHTS, Path.unlink), zipfile.ZIP_LZMA),
        "packed in a way that is not taken",
    ),
    "an alias bomb": (packed(whole(MODEL, ALIASES)), "an alias"),
    "a billion layers": (packed(put(MODEL, "  layers: 1", "  layers: 1000000000")), "layers is 1000000000"),
    "weights of bytes": (packed(first(lambda tensor: tensor.to(torch.int8))), "is of I8"),
    "no settings": (packed(instead(MODEL, Path.unlink)), "is no package of weights"),
    "settings only in a folder above": (damaged(b"model.yaml", b"../el.yaml"), "is no package of weights"),
    "damaged contents": (lambda place, out: hit(zipped(place, out)), "does not open as a package"),
    "half a file": (lambda place, out: cut(zipped(place, out)), "does not open as a package"),
    "no files": (lambda place, out: zipfile.ZipFile(out, "w").close(), "is no package of weights"),
    "text": (lambda place, out: out.write_text("hello"), "does not open as a package"),
    "nothing": (lambda place, out: out.touch(), "does not open as a package"),
    "a pipe": (lambda place, out: pipe(out), "is a pipe or a device"),
    "a device": (lambda place, out: endless(out), "is a pipe or a device"),
    "8 GB without content": (lambda place, out: hole(out, 8 << 30), "at most"),
    "no file": (lambda place, out: None, "is missing; name a folder of weights or a package"),
}


def hit(path):
    """A byte of the first file's contents changed."""
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(("make", "said"), ZIPS.values(), ids=ZIPS)
def test_a_zip_file_is_refused_for(package, tmp_path, make, said):
    out = tmp_path / "package.zip"
    make(package, out)
    found = refused(lambda: PictureCaptioner.load(out))
    assert said in found
    assert str(out) in found


def test_the_sound_one_is_read_from_either_and_zipped_by_hand(package, tmp_path):
    for place in (package, zipped(package, tmp_path / "it.zip")):
        assert PictureCaptioner.load(place).trained.vocabulary == 76


def test_a_word_of_terminal_escapes_is_never_printed_raw(package, tmp_path, capsys):
    from PIL import Image

    from stages import caption

    words = json.loads((package / WORDS).read_text())
    words["ids"] = {f"\x1b[3{n}m\x07\x9b2J" if n > 3 else word: n for word, n in words["ids"].items()}
    (package / WORDS).write_text(json.dumps(words))
    for name in "ab":
        Image.new("RGB", (64, 64), "red").save(tmp_path / f"{name}.png")
    captioner = PictureCaptioner.load(package)
    for more in ([], ["--json"], ["--top", "2"], ["--json", "--top", "2"]):
        arguments = caption.parser().parse_args(
            [str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--weights", "x", *more]
        )
        caption.one(arguments, captioner, caption.Search(arguments.top or 1))
        said = capsys.readouterr().out
        assert "\\u001b[3" in said
        assert not set(said) & {"\x1b", "\x07", "\x9b"}
        if "--json" in more:
            assert "\x1b[3" in json.loads(said)["caption"]
