"""Results of the runs that params.yaml lists; each damaged file is named."""

import json
import shutil

import pytest

from pipeline.io.errors import InputError
from pipeline.reporting import dataset_results, overview_table, page
from tests.report_lab import make_study, write_hashed

RUN = "results/runs/tabletop/scorer/2"
FIRST = "results/runs/tabletop/scorer/1"
CURVES = "results/curves/tabletop/scorer/2"
FILES = [
    f"{RUN}/captions.json",
    f"{RUN}/metrics.json",
    f"{RUN}/pairs.jsonl",
    f"{CURVES}/loss.csv",
    f"{CURVES}/validation.csv",
    "results/runs/tabletop/constant/captions.json",
    "results/runs/tabletop/constant/metrics.json",
    "data/pairs/tabletop.jsonl",
    "data/images/tabletop.jsonl",
    f"{FIRST}/attention.npz",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return root, make_study(root)


@pytest.fixture
def study(made, tmp_path):
    """A copy that a test may damage."""
    root, params = made
    shutil.copytree(root, tmp_path / "study")
    return tmp_path / "study", params


def test_a_dataset_has_its_test_pairs_and_the_listed_runs(made):
    (results,) = dataset_results.read(*made)
    assert {pair.split for pair in results.test} == {"test"}
    assert len(results.test) == 20
    assert results.constant_caption == "no change"
    assert [(run.model, run.seed) for run in results.runs] == [
        ("subtraction", 1),
        ("subtraction", 2),
        ("scorer", 1),
        ("scorer", 2),
    ]
    last = results.runs[-1]
    said = {"the ball moved, says scorer 2", "nothing has changed, says scorer 2"}
    assert set(last.captions.values()) == said
    assert last.metrics["scorers"] == {"METEOR": "1.5", "SPICE": "unavailable (no jar)"}
    curves = last.phases["train"]
    assert list(curves.losses) == ["iteration", "cap", "cv"]
    assert curves.validation == {"iteration": [150, 300], "CIDEr-D": [0.31, 0.62]}
    assert {(score.cider_d, score.right) for score in last.scores.values()} == {(0.62, True)}
    assert {score.right for score in results.runs[0].scores.values()} == {True, False}
    own = results.scores[(results.scores["run"] == "scorer/2") & (results.scores["subset"] == "total")]
    assert dict(zip(own["metric"], own["value"], strict=True)) == last.metrics["total"] | {
        "change_accuracy": 0.31, "exact_match": 0.155, "distinct_captions": 12, "mean_length": 6.5,
    }  # fmt: skip
    assert {model: evidence.seeds for model, evidence in results.evidence.items()} == {
        "subtraction": 2,
        "scorer": 2,
    }


def test_the_retrieval_phase_searches_the_changed_validation_pairs(study):
    path = study[0] / "data/pairs/tabletop.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    changed = [
        line
        for line in lines
        if (pair := json.loads(line))["split"] == "val" and pair["change_type"] != "none"
    ]
    path.write_text("".join(line for line in lines if line not in changed[:3]))
    (results,) = dataset_results.read(*study)
    assert results.searched == len(changed) - 3 != sum(pair.changed for pair in results.test)


def test_attention_is_read_for_the_first_seed_only(made):
    (results,) = dataset_results.read(*made)
    first = results.runs[2]
    shown = [pair.pair_id for pairs in results.gallery.values() for pair in pairs]
    assert [run.seed for run in results.runs if run.attended] == [1, 1]
    assert list(first.attended) == shown
    assert all(own.caption == first.captions[pair] for pair, own in first.attended.items())
    assert all(own.alignment is not None for own in first.attended.values())
    assert all(own.alignment is None for own in results.runs[0].attended.values())


@pytest.mark.parametrize("text", [None, "\x00\n", '{"total": 1}\n'])
@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_damaged_file_is_named(study, name, text):
    (study[0] / name).unlink()
    if text:
        (study[0] / name).write_text(text)
    with pytest.raises(InputError, match=name if text else rf"{name} is missing; run `dvc repro") as raised:
        dataset_results.read(*study)
    assert "\n" not in str(raised.value)


def test_every_test_pair_needs_its_caption(study):
    path = study[0] / RUN / "captions.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:-1]))
    with pytest.raises(InputError, match=f"{RUN}/captions.json lacks the test pair"):
        dataset_results.read(*study)


@pytest.mark.parametrize("value", ["NaN", "1e999", '"unavailable"', "null"])
def test_a_score_of_the_table_must_be_a_number(study, value):
    path = study[0] / RUN / "metrics.json"
    tree = json.loads(path.read_text())
    tree["total"]["METEOR"] = json.loads(value)
    write_hashed(path, tree)
    with pytest.raises(InputError, match=f"{RUN}/metrics.json"):
        dataset_results.read(*study)


def test_scores_that_were_not_computed_are_left_out(study):
    path = study[0] / RUN / "metrics.json"
    tree = json.loads(path.read_text())
    total = tree["total"] | {"SPICE": "unavailable (no jar)"}
    write_hashed(path, {"total": total, "scorers": tree["scorers"]})
    scores = dataset_results.read(*study)[0].scores
    own = scores[scores["run"] == "scorer/2"]
    assert {*own["subset"]} == {"total"}
    assert [*own["metric"]] == [name for name in total if name != "SPICE"]


SCORED = {"pairs": 10, "left_out": 2, "left_out_because": "2 without a caption", "references": "r.json"}
SCORED |= {"references_sha256": "a" * 64, "tokeniser": "ptb"}
REPEATED = {"pairs": 10, "distinct": 2, "commonest": "a ball moved", "share": 0.9}


def describe(root, run, **changes):
    path = root / run / "metrics.json"
    tree = json.loads(path.read_text())
    constant = {"caption": "it is gone", "BLEU-1": 0.5, "CIDEr-D": 0.125}
    tree |= {"scored": SCORED | changes, "repetition": REPEATED, "best_constant": constant}
    write_hashed(path, tree)


def test_lines_below_the_table_name_pairs_left_out_and_repeated_captions(study):
    describe(study[0], RUN)
    results = dataset_results.read(*study)
    assert "best_constant" not in {*results[0].scores["subset"]}
    assert overview_table.notes(results[0]) == [
        "10 pairs scored; left out: 2 without a caption; references: r.json, sha256 aaaaaaaaaaaa…",
        "best constant caption, all pairs: “it is gone” (BLEU-1 50.0, CIDEr-D 12.5)",
        "scorer 2: distinct captions: 2 of 10 pairs; commonest: “a ball moved”, 90.0 % of the pairs",
        "scorer 2: warning: one caption has 90.0 % of the pairs (limit: 20 %); such captions may have high "
        "scores whatever the images show",
    ]
    assert "left out: 2 without a caption" in page.render(results, study[1])


@pytest.mark.parametrize("changes", [{"tokeniser": "none"}, {"references_sha256": "b"}])
def test_runs_that_were_not_scored_alike_are_in_no_table(study, changes):
    describe(study[0], FIRST)
    describe(study[0], RUN, **changes)
    with pytest.raises(InputError, match="scorer/1 and scorer/2 were scored with different"):
        dataset_results.read(*study)
