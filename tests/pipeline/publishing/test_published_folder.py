"""Every form of a published dataset has the pixels and references of the prepared dataset."""

import io
import json
import shutil
import tarfile

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets.readers import READERS
from pipeline.datasets.schema import read_pairs
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import yaml_of
from pipeline.publishing.dataset import FOLDERS
from pipeline.publishing.rows import NAME
from tests import project_params
from tests.folders import contents
from tests.running import ROOT, refuse, succeed
from tests.synthetic_real import MAKERS, write_images

PERMITTED = {"name": "cc-by-4.0", "copying": True, "terms": "a letter of the authors"}
OWN = "own"  # a dataset that the reader `table` reads
NAMES = [*MAKERS, OWN]
pytest.importorskip("pyarrow", reason="the extra `publish` is not installed")


def write_card(folder, name, licence, **more):
    """Write a dataset's card with this licence, and with more keys."""
    source = ROOT / f"data/cards/{name}.yaml"
    own = {"name": OWN, "citation": "c", "source": "s", "files": {"pairs.csv": "a table"}}
    card = read_yaml(source, "") if source.exists() else own
    card.pop("licence", None)
    (folder / "data/cards").mkdir(parents=True, exist_ok=True)
    text = yaml_of(card | more | ({"licence": licence} if licence else {}))
    (folder / f"data/cards/{name}.yaml").write_text(text)


def prepare(folder, name, licence=PERMITTED, below=""):
    """Prepare a synthetic dataset in the layout of its reader."""
    root = folder / f"data/raw/{name}"
    if name == OWN:
        write_images(root, [f"{below}{number}{side}.png" for number in range(6) for side in "ab"])
        lines = [f'{below}{n}a.png,{below}{n}b.png,it moved,"1,2,3,{n + 4}"' for n in range(6)]
        (root / "pairs.csv").write_text("\n".join(["before,after,caption,after_box", *lines]))
    else:
        MAKERS[name](root)
    entry = {"prepare": {"reader": "table", "root": f"data/raw/{OWN}", "protocol": None}, "like": "levir_cc"}
    project_params.write(folder, **({f"dataset__{OWN}": entry} if name == OWN else {}))
    write_card(folder, name, licence)
    outs = f"--pairs data/pairs/{name}.jsonl --images data/images/{name}.jsonl"
    outs += f" --manifest data/pairs/{name}.manifest.json"
    succeed(folder, f"prepare --dataset {name} --card data/cards/{name}.yaml {outs}")
    return folder


def test_every_reader_is_tested():
    assert {*NAMES} - {OWN} == {*READERS} - {"table"}


def rows(folder, split):
    import pyarrow.parquet as pq

    return pq.read_table(folder / split / NAME).to_pylist()


def pixels(file):
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("name", NAMES)
def test_all_forms_have_every_pair(tmp_path, name):
    prepare(tmp_path, name)
    succeed(tmp_path, f"publish {name} --out out")
    out, seen = tmp_path / "out", 0
    for split, folder in FOLDERS.items():
        pairs = [p for p in read_pairs(tmp_path / f"data/pairs/{name}.jsonl") if p.split == split]
        with (out / f"conversations/{folder}.jsonl").open() as lines:
            talks = [json.loads(line) for line in lines]
        samples = shard(out / f"webdataset/{folder}-000000.tar")
        for pair, row, talk, sample in zip(pairs, rows(out, folder), talks, samples, strict=True):
            assert (row["pair_id"], tuple(row["captions"])) == (pair.pair_id, pair.captions)
            assert (row["licence"], row["seed"]) == ("cc-by-4.0", None)
            assert row["after_box"] == (pair.after_box and list(pair.after_box))
            assert talk["messages"][1]["content"][0]["text"] == pair.captions[0]
            assert json.loads(sample[2])["pair_id"] == pair.pair_id
            for side, place in (("before", 0), ("after", 1)):
                original = pixels(tmp_path / f"data/raw/{name}" / getattr(pair, side))
                copies = [out / folder / row[f"{side}_file_name"], out / talk["images"][place]]
                for copy in (*copies, io.BytesIO(sample[place])):
                    assert np.array_equal(pixels(copy), original)
            seen += 1
    assert seen == len(read_pairs(tmp_path / f"data/pairs/{name}.jsonl"))
    assert "license: cc-by-4.0\n" in (out / "README.md").read_text()


@pytest.mark.filterwarnings("ignore")
def test_load_dataset_finds_the_splits_of_images_in_a_folder_test(tmp_path, monkeypatch):
    for variable in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(variable, "1")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    datasets.disable_progress_bars()
    prepare(tmp_path, OWN, below="test/")
    succeed(tmp_path, f"publish {OWN} --out out")
    data = str(tmp_path / "out")
    found = datasets.load_dataset("imagefolder", data_dir=data, cache_dir=str(tmp_path / "cache"))
    pairs = read_pairs(tmp_path / f"data/pairs/{OWN}.jsonl")
    for split, folder in FOLDERS.items():
        own = [pair.pair_id for pair in pairs if pair.split == split]
        assert [row["pair_id"] for row in found[folder]] == own


def shard(path):
    """Return the bytes of before, after and JSON of each sample in a tar."""
    with tarfile.open(path) as tar:
        files = [(member.name, tar.extractfile(member).read()) for member in tar]
    keys = list(dict.fromkeys(name.partition(".")[0] for name, _ in files))
    ends = ("before.", "after.", "json")
    return [[next(d for n, d in files if n.startswith(f"{key}.{end}")) for end in ends] for key in keys]


def test_equal_datasets_give_equal_bytes_and_a_second_run_replaces_the_folder(tmp_path):
    prepare(tmp_path, OWN)
    written = []
    for _ in range(2):
        succeed(tmp_path, f"publish {OWN} --out out")
        written.append(contents(tmp_path / "out"))
    assert written[0] == written[1]
    succeed(tmp_path, f"publish {OWN} --out small --no-shards")
    assert not (tmp_path / "small/webdataset").exists()
    assert "webdataset" not in (tmp_path / "small/README.md").read_text()


@pytest.mark.parametrize(
    ("language", "written"),
    [(None, None), ("de", ["de"]), (["de", "zh-Hant"], ["de", "zh-Hant"]), ("no", ["no"])],
)
def test_the_language_is_the_one_of_the_card(tmp_path, language, written):
    prepare(tmp_path, OWN)
    write_card(tmp_path, OWN, PERMITTED, **({"language": language} if language else {}))
    succeed(tmp_path, f"publish {OWN} --out out")
    front = (tmp_path / "out/README.md").read_text().split("---\n")[1]
    (tmp_path / "front.yaml").write_text(front)
    assert read_yaml(tmp_path / "front.yaml", "").get("language") == written


def test_a_language_is_a_code(tmp_path):
    prepare(tmp_path, OWN)
    write_card(tmp_path, OWN, PERMITTED, language="German")
    refuse(tmp_path, f"publish {OWN} --out out", "language")


@pytest.mark.parametrize("name", ["clevr_change", OWN])
def test_datasets_whose_licence_allows_no_copies_are_refused(tmp_path, name):
    card = ROOT / f"data/cards/{name}.yaml"
    licence = read_yaml(card, "")["licence"] if card.exists() else None
    prepare(tmp_path, name, licence)
    said = refuse(tmp_path, f"publish {name} --out out", f"data/cards/{name}.yaml")
    assert (licence["terms"] if licence else "names no licence") in said
    assert not (tmp_path / "out").exists()


def edit(table):
    table.write_text(table.read_text().replace("it moved", "it left"))


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (lambda lab: (lab / "data/raw/own/0a.png").unlink(), "0a.png"),
        (lambda lab: shutil.copyfile(lab / "data/raw/own/1a.png", lab / "data/raw/own/0a.png"), "0a.png"),
        (lambda lab: edit(lab / "data/raw/own/pairs.csv"), "pairs.csv; add own to `datasets` of params.yaml"),
        (lambda lab: (lab / "data/pairs/own.manifest.json").unlink(), "own is not prepared"),
        (lambda lab: (lab / "data/cards/own.yaml").unlink(), "data/cards/own.yaml"),
        (lambda lab: (lab / "data/images/own.jsonl").write_text(""), "data/images/own.jsonl"),
    ],
)
def test_faults_name_the_file_and_leave_nothing(tmp_path, fault, named):
    prepare(tmp_path, OWN)
    fault(tmp_path)
    refuse(tmp_path, f"publish {OWN} --out out", named)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("out", ".out"))]
