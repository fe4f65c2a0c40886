"""commands.negatives: the wrong captions that pre-training makes, in a file."""

from argparse import Namespace

import pytest

from pipeline.datasets.negatives import read_negatives
from pipeline.datasets.schema import write_pairs
from pipeline.io.errors import InputError
from stages import pretrain
from tests.running import refuse, set_params, succeed
from tests.tabletop_pairs import draw_pairs

COMMAND = "negatives --dataset {} --pairs pairs.jsonl --out data/negatives.jsonl"


@pytest.fixture
def folder(tmp_path):
    write_pairs(tmp_path / "pairs.jsonl", draw_pairs(seed=1, count=20))
    set_params(tmp_path)
    return tmp_path


def test_train_and_val_pairs_get_six_each_by_the_seed(folder):
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
def test_a_dataset_without_a_grammar_is_refused(folder, dataset):
    said = f"set negatives.grammar.{dataset} in params.yaml to geometric or birds"
    refuse(folder, COMMAND.format(dataset), said)
    assert not (folder / "data").exists()


def test_nothing_is_half_written(folder):
    pairs = draw_pairs(seed=1, count=20)
    write_pairs(folder / "pairs.jsonl", [pair for pair in pairs if pair.change_type == "none"])
    refuse(folder, COMMAND.format("tabletop"), "give the split train more pairs")
    assert not list((folder / "data").glob("*negatives*"))


def test_pre_training_makes_the_same_and_refuses_those_of_other_pairs(folder, monkeypatch):
    monkeypatch.chdir(folder)
    succeed(folder, COMMAND.format("tabletop"))
    file = folder / "data/negatives.jsonl"
    given, made = (Namespace(negatives=path, pairs=folder / "pairs.jsonl") for path in (file, None))
    found = pretrain.negatives(given, "tabletop").negatives
    assert found == pretrain.negatives(made, "tabletop").negatives
    write_pairs(folder / "pairs.jsonl", draw_pairs(seed=2, count=20))
    with pytest.raises(InputError, match=r"negatives.jsonl: "):
        pretrain.negatives(given, "tabletop")
    assert pretrain.negatives(made, "tabletop").negatives != found
