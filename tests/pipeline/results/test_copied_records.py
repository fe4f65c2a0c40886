"""A record counts once, where it belongs: copies are named, and so is a pairs.json of other pairs."""

import json
import re
import shutil

import pytest

from pipeline.io.errors import InputError
from pipeline.results import record_comparisons


@pytest.mark.parametrize(
    "name", ["rr-4.json", "scorer-1.json", "rr-copy-1.json", "rr-2.json", "rr-1 (copy).json"]
)
def test_a_copied_record_does_not_count_twice(root, name):
    """Not as another seed, another model, another row, in another one's place, or under any other name."""
    folder = root / "results/records/tabletop"
    shutil.copy(folder / "rr-1.json", folder / name)
    with pytest.raises(
        InputError, match=re.escape(f"{folder / name} is a copy: it holds the record of tabletop/rr-1.json")
    ):
        record_comparisons.read(root, "tabletop")


def test_a_copied_record_under_another_seed_is_named(root):
    """Though its seed was changed inside, too."""
    folder = root / "results/records/tabletop"
    for seed in (1, 4):
        record = json.loads((folder / "rr-1.json").read_text()) | {"seed": seed, "key": "5ecfc43a515d318d"}
        (folder / f"rr-{seed}.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"rr-4\.json is a copy: it holds the record of rr-1\.json"):
        record_comparisons.read(root, "tabletop")


def test_a_pairs_file_of_other_pairs_is_named_itself(root):
    file = root / "results/records/tabletop/pairs.json"
    pairs = json.loads(file.read_text())
    file.write_text(json.dumps(pairs | {"pairs": pairs["pairs"] + ["more.png"]}))
    with pytest.raises(
        InputError, match=r"pairs\.json is of other test pairs than all 6 records; restore it"
    ):
        record_comparisons.read(root, "tabletop")


@pytest.mark.parametrize("damage", [{"subsets": {"change": [40]}}, {"captions": 1}, {"pairs": None}])
def test_a_damaged_pairs_file_is_named(root, damage):
    file = root / "results/records/tabletop/pairs.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(InputError, match=r"pairs\.json: .*; restore it with git"):
        record_comparisons.read(root, "tabletop")


@pytest.mark.parametrize("key", ["captions", "faults", "METEOR", "right"])
def test_records_of_other_pairs_are_refused(root, key):
    """Of one pair less, or one more."""
    file = root / "results/records/tabletop/rr-2.json"
    record = json.loads(file.read_text())
    record[key] = record[key] + "0" if key == "right" else record[key][:-2]
    file.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"rr-2\.json is of other test pairs than .*pairs\.json; restore"):
        record_comparisons.read(root, "tabletop")
