"""MEDIC through the stages: kinds in training and with captions, and marks of a gate that labels opened."""

import json

import numpy as np
import pytest

from models.common.trainable import KINDS
from pipeline.decoding import attention_maps
from pipeline.scoring.conditions import LABELLED
from pipeline.weights import trained_model
from tests.running import refuse, set_params, succeed
from tests.stage_commands import DECODE, IMAGES, MAKE_RECIPE, MAKE_VOCAB, PAIRS, train_with

pytestmark = pytest.mark.slow
MEDIC = "dataset__tabletop__models__medic__"
SMALL = {"width": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 4, "router": 4, "slots": 3}
TRAIN = {"iterations": 2, "batch": 2, "validate_every": 2, "select": "last"}
SCORE = f"score --captions captions.json --pairs {PAIRS} --dataset tabletop --images {IMAGES} "
SCORE += "--attention attention.npz --out metrics.json --per-pair pairs.jsonl --summary summary.json"


def prepare(copy):
    changes = {f"{MEDIC}sizes": SMALL} | {f"{MEDIC}train__{key}": value for key, value in TRAIN.items()}
    set_params(copy, models=["dirl_medic"], **changes)
    succeed(copy, MAKE_RECIPE.replace("scorer_cbr", "dirl_medic"))


@pytest.mark.usefixtures("made_up_meteor")
def test_the_label_opens_the_gate_only_on_request_and_leaves_marks(copy, capsys):
    prepare(copy)
    succeed(copy, train_with(1, "weights/medic"))
    header = (copy / "curves/weights/medic/loss.csv").read_text().partition("\n")[0]
    assert header == "iteration,cap,dirl,ccr,cls,type,con,dis"
    decode = DECODE.replace("weights/1", "weights/medic")
    succeed(copy, decode)
    rows = json.loads((copy / "captions.json").read_text())
    assert all(row["kind"] in KINDS and 0 <= row["kind_probability"] <= 1 for row in rows)
    assert not any("gate" in row for row in rows)
    capsys.readouterr()
    succeed(copy, SCORE)
    said = capsys.readouterr().out
    assert "routers are right: " in said
    assert LABELLED not in said
    metrics = json.loads((copy / "metrics.json").read_text())
    assert metrics["routing"].keys() == {"change", "kind"}
    assert "gate" not in metrics["scored"]
    assert "gate" not in json.loads((copy / "summary.json").read_text())

    set_params(copy, decode__labelled_gate=True)
    succeed(copy, decode)
    labelled = json.loads((copy / "captions.json").read_text())
    assert [row["kind"] for row in labelled] == [row["kind"] for row in rows]
    assert {row["gate"] for row in labelled} == {"label"}
    assert attention_maps.read_origin(copy / "attention.npz")["gate"] == "label"
    capsys.readouterr()
    succeed(copy, SCORE)
    assert LABELLED in capsys.readouterr().out.replace("\n", " ")
    metrics = json.loads((copy / "metrics.json").read_text())
    assert metrics["scored"]["gate"] == "label"
    assert json.loads((copy / "summary.json").read_text())["gate"] == "label"
    lines = [json.loads(line) for line in (copy / "pairs.jsonl").read_text().splitlines()]
    assert {line["scored"]["gate"] for line in lines} == {"label"}
    capsys.readouterr()
    succeed(copy, "compare pairs.jsonl --against pairs.jsonl --resamples 10")
    assert f"warning: A: {LABELLED}" in capsys.readouterr().out


def test_other_models_have_no_gate_and_no_kinds(copy):
    set_params(copy, decode__labelled_gate=True)
    succeed(copy, DECODE)
    rows = json.loads((copy / "captions.json").read_text())
    assert all(row.keys() == {"image_id", "caption"} for row in rows)
    assert "gate" not in attention_maps.read_origin(copy / "attention.npz")


def test_an_unknown_kind_stops_the_training_before_it_begins(copy):
    prepare(copy)
    lines = [json.loads(line) for line in (copy / PAIRS).read_text().splitlines()]
    spoilt = next(line for line in lines if line["split"] == "train")
    spoilt |= {"change_type": "change", "captions": ["something is different"]}
    rewritten = "".join(json.dumps(line) + "\n" for line in lines)
    (copy / PAIRS).unlink()
    (copy / PAIRS).write_text(rewritten)
    (copy / PAIRS.replace(".jsonl", ".manifest.json")).unlink()
    succeed(copy, MAKE_VOCAB)
    said = refuse(copy, train_with(1, "weights/medic"), repr(spoilt["pair_id"]))
    assert "kind of change" in said
    assert not (copy / "weights/medic").exists()
    succeed(copy, MAKE_RECIPE)
    succeed(copy, train_with(1, "weights/scorer"))  # other models do not need the kind


def test_the_program_of_weights_keeps_their_kinds(copy):
    prepare(copy)
    succeed(copy, train_with(1, "weights/medic"))
    model, trained = trained_model.load(copy / "weights/medic")
    assert model.kinds == KINDS
    assert trained.recipe.sizes == SMALL
    assert np.isfinite([value.double().sum().item() for value in model.state_dict().values()]).all()
