"""Calibration from the command line, and captions with a calibration."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning import PairCaptioner
from pipeline.captioning.pair_captioner import UNSURE_WHAT, UNSURE_WHETHER, Limits
from pipeline.confidence.calibration import FILE
from tests.running import refuse, succeed
from tests.small_lab import AFTER, BEFORE, add_weights, make_lab

pytestmark = pytest.mark.slow

WEIGHTS = "data/weights/tabletop/scorer_cbr/1"
PLACE = "data/confidence/tabletop/scorer_cbr/1.json"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = make_lab(tmp_path_factory.mktemp("lab"), "scorer_cbr", scenes=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.captioning.calibrating.LEAST", 10)
        succeed(folder, f"calibrate --weights {WEIGHTS} --figure risk.svg")
    return folder


def widened(lab, **changes):
    """Write the calibration with other values; return the option that names it."""
    own = json.loads((lab / PLACE).read_text()) | changes
    (lab / "wide.json").write_text(json.dumps(own))
    return "--confidence wide.json"


def test_the_calibration_is_found_and_packed_and_belongs_to_its_weights(lab, tmp_path):
    own = json.loads((lab / PLACE).read_text())
    assert own["meaning"] == "agrees"  # these scenes have no descriptions
    assert own["pairs"] == 12
    assert "<svg" in (lab / "risk.svg").read_text()
    assert PairCaptioner.load(lab / WEIGHTS, lab).calibration is not None
    succeed(lab, f"export --weights {WEIGHTS} --out {tmp_path}/package")
    assert json.loads((tmp_path / "package" / FILE).read_text()) == own
    assert PairCaptioner.load(tmp_path / "package").calibration.pairs == 12
    add_weights(lab, "scorer_cbr", 2)
    refuse(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS[:-1]}2 --confidence {PLACE}", "other weights")


def test_the_probability_is_printed_and_a_caption_withheld(lab, capsys):
    wide = widened(lab, familiarity=None)
    succeed(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS} {wide}")
    said = capsys.readouterr().out.strip()
    succeed(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS} {wide} --json")
    record = json.loads(capsys.readouterr().out)
    assert said == f"{record['caption']}  (probability {record['probability']:.2f})"
    succeed(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS} {wide} --json --at-least 1 --overlay o.png")
    record = json.loads(capsys.readouterr().out)
    assert record["caption"] is None
    assert record["reason"] in (UNSURE_WHAT, UNSURE_WHETHER)
    assert not (lab / "o.png").exists()


def test_unfamiliar_images_are_refused_except_with_any_images(lab, capsys):
    own = json.loads((lab / PLACE).read_text())["familiarity"]
    wide = {"unlike": 1e9, "appearance": 1e9, "scenes": 2.0}
    unlike = "unlike those the model was trained on"
    for key, reason in (("unlike", unlike), ("appearance", unlike), ("scenes", "same scene")):
        strict = widened(lab, familiarity=own | wide | {key: 1e-9})
        for more in ("", "--top 2"):
            succeed(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS} {strict} --json {more}")
            record = json.loads(capsys.readouterr().out)
            assert record["caption"] is None
            assert reason in record["reason"]
        succeed(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS} {strict} --json --any-images")
        assert json.loads(capsys.readouterr().out)["caption"]


def test_the_probability_of_foreign_images_is_low(lab, tmp_path, capsys):
    random = np.random.default_rng(0)
    Image.fromarray(random.integers(0, 256, (96, 144, 3), dtype=np.uint8)).save(tmp_path / "noise.png")
    chances = []
    for pair in (f"{BEFORE} {AFTER}", f"{tmp_path}/noise.png {tmp_path}/noise.png"):
        succeed(lab, f"caption {pair} --weights {WEIGHTS} --json --any-images")
        chances.append(json.loads(capsys.readouterr().out)["probability"])
    assert chances[1] < 0.01 < chances[0]


def test_a_calibration_of_other_weights_is_replaced(lab):
    own = (lab / PLACE).read_text()
    (lab / PLACE).write_text(json.dumps(json.loads(own) | {"weights": "b" * 64}))
    refuse(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS}", "other weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.captioning.calibrating.LEAST", 10)
        succeed(lab, f"calibrate --weights {WEIGHTS}")
    assert (lab / PLACE).read_text() == own


def test_a_changed_image_is_refused_by_name(lab, tmp_path):
    copied = shutil.copytree(lab, tmp_path / "lab", symlinks=True)
    image = copied / "data/raw/tabletop" / Path(BEFORE).relative_to("data/raw/tabletop")
    image.write_bytes(image.read_bytes() + b"x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.captioning.calibrating.LEAST", 10)
        refuse(copied, f"calibrate --weights {WEIGHTS}", image.name)


def test_a_table_has_probabilities_and_reasons(lab, capsys):
    wide = widened(lab, familiarity=None)
    (lab / "pairs.csv").write_text(f"before,after\n{BEFORE},{AFTER}\n{AFTER},{BEFORE}\n")
    table = f"caption --pairs pairs.csv --weights {WEIGHTS} {wide} --out"
    succeed(lab, f"{table} all.jsonl")
    lines = [json.loads(line) for line in (lab / "all.jsonl").read_text().splitlines()]
    assert all(line["caption"] and 0 <= line["probability"] <= 1 for line in lines)
    refuse(lab, f"{table} all.jsonl --at-least 0.5", "all.jsonl")
    succeed(lab, f"{table} none.jsonl --at-least 1")
    lines = [json.loads(line) for line in (lab / "none.jsonl").read_text().splitlines()]
    assert all(line["caption"] is None and line["reason"] for line in lines)
    (lab / "references.json").write_text(json.dumps({line["pair_id"]: ["a ball"] for line in lines}))
    alone = "--references references.json --out metrics.json"
    refuse(lab, f"score --captions none.jsonl {alone}", "none.jsonl")


def test_answers_in_python(lab):
    captioner = PairCaptioner.load(lab / WEIGHTS, lab)
    found = captioner.answer(lab / BEFORE, lab / AFTER, Limits(any_images=True))
    assert found.caption == captioner(lab / BEFORE, lab / AFTER)
    assert found.attended.caption == found.caption
    withheld = captioner.answer(lab / BEFORE, lab / AFTER, Limits(1.0, any_images=True))
    assert (withheld.caption, withheld.probability) == (None, found.probability)


def test_refitted_on_labelled_pairs(lab, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pipeline.captioning.calibrating.FEW", 2)
    item = {"size": "large", "color": "red", "material": "rubber", "shape": "cube", "x": 40, "y": 30}
    own = shutil.copytree(lab / "data/raw/tabletop", tmp_path / "own")
    one = {"objects": [item], "changed": 0, "gone": True}
    lines = [json.dumps({"scene": number} | one) for number in range(1, 6)]
    (own / "labels.jsonl").write_text("\n".join(lines[:4]))
    refuse(lab, f"calibrate --weights {WEIGHTS} --labelled {own} --out mine.json", "labels.jsonl")
    (own / "labels.jsonl").write_text("\n".join(lines))
    succeed(lab, f"calibrate --weights {WEIGHTS} --labelled {own} --out mine.json")
    assert "refitted" in capsys.readouterr().out
    mine = json.loads((lab / "mine.json").read_text())
    assert mine["refitted"] == 10
    succeed(lab, f"caption {BEFORE} {AFTER} --weights {WEIGHTS} --confidence mine.json --at-least 0.1")
    refuse(lab, f"calibrate --weights {WEIGHTS} --labelled {own}", "--out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (f"caption {BEFORE} {AFTER} --weights {WEIGHTS} --at-least 0.5 --beam 2", "--beam 1"),
        (f"caption {BEFORE} {AFTER} --weights {WEIGHTS} --confidence nowhere.json", "nowhere.json"),
        (f"calibrate --weights {WEIGHTS}", "validation pairs"),
        (f"calibrate --weights {WEIGHTS} --labelled nowhere --out o.json", "nowhere"),
    ],
)
def test_refused_arguments(lab, arguments, said):
    refuse(lab, arguments, said)


def test_without_a_calibration_at_least_is_refused(lab, capsys):
    add_weights(lab, "subtraction")
    weights = "--weights data/weights/tabletop/subtraction/1"
    refuse(lab, f"caption {BEFORE} {AFTER} {weights} --at-least 0.5", FILE)
    succeed(lab, f"caption {BEFORE} {AFTER} {weights}")
    assert "probability" not in capsys.readouterr().out
