"""The stage negatives, as DVC runs it."""

import json
from argparse import Namespace

import pytest

from pipeline.datasets.negatives import read_negatives
from pipeline.datasets.schema import write_pairs
from pipeline.io.errors import InputError
from stages import pretrain, recipe
from tests.running import refuse, set_params, succeed
from tests.tabletop_pairs import draw_pairs

COMMAND = "negatives --dataset {} --pairs pairs.jsonl --out data/negatives.jsonl"


@pytest.fixture
def folder(tmp_path):
    write_pairs(tmp_path / "pairs.jsonl", draw_pairs(seed=1, count=20))
    set_params(tmp_path)
    return tmp_path


def test_train_and_val_pairs_get_six_each_and_the_bytes_are_the_seed_s(folder):
    succeed(folder, COMMAND.format("tabletop"))
    out = folder / "data/negatives.jsonl"
    assert len(read_negatives(out)) == 40
    first = out.read_bytes()
    succeed(folder, COMMAND.format("tabletop"))
    assert out.read_bytes() == first
    set_params(folder, negatives__seed=2)
    succeed(folder, COMMAND.format("tabletop"))
    assert out.read_bytes() != first


@pytest.mark.parametrize("dataset", ["spot_the_diff", "mine"])
def test_a_dataset_without_a_grammar_is_told_which_there_are(folder, dataset):
    said = f"set negatives.grammar.{dataset} in params.yaml to geometric or birds"
    refuse(folder, COMMAND.format(dataset), said)
    assert not (folder / "data").exists()


def test_nothing_is_half_written(folder):
    pairs = draw_pairs(seed=1, count=20)
    write_pairs(folder / "pairs.jsonl", [pair for pair in pairs if pair.change_type == "none"])
    refuse(folder, COMMAND.format("tabletop"), "give the split train more pairs")
    assert not list((folder / "data").glob("*negatives*"))


def test_who_learns_from_them_refuses_those_of_other_pairs_and_exchanged_ones(folder):
    succeed(folder, COMMAND.format("tabletop"))
    negatives, pairs, started = (
        folder / name for name in ("data/negatives.jsonl", "pairs.jsonl", "inputs.json")
    )
    arguments = Namespace(negatives=negatives, pairs=pairs, weights=folder / "pretrained")
    for known in (
        {},
        {"negatives": recipe.hashed([negatives], "")},
    ):  # of an earlier version; as the stage recipe writes
        started.write_text(json.dumps(known))
        pretrain.check_negatives(arguments)
    started.write_text(json.dumps({"negatives": "0" * 64}))
    with pytest.raises(InputError, match=r"negatives.jsonl is not the file that .*inputs.json names"):
        pretrain.check_negatives(arguments)
    started.unlink()
    write_pairs(pairs, draw_pairs(seed=2, count=20))
    with pytest.raises(InputError, match=r"negatives.jsonl: .* is of other pairs"):
        pretrain.check_negatives(arguments)
