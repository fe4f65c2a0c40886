"""The stage `score` with pairs, with references under a German locale, and with parts of either."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from pipeline.datasets import manifest
from pipeline.datasets.images import Indexed, write_index
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import ChangedObject, Look, Pair, Placed, SceneFacts, images_of, write_pairs
from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import Attended
from pipeline.scoring import meteor, table_notes
from pipeline.scoring.attention_localisation import MEASURES
from pipeline.scoring.metric_names import BY_CHANGE
from tests import light_meteor, project_params
from tests.running import ROOT, stage

BALL = Look("small", "red", "rubber", "sphere")
PLACED = (
    Placed(0, "small", "red", "rubber", "sphere", 1.0, 1.0),
    Placed(1, "large", "red", "metal", "cube", -1, -1),
)
CAMERAS = ((7.0, -6.0, 5.0), (7.5, -6.5, 5.5))
PAIRS = [
    Pair(
        *("7.png", "7", "test", "7.png", "7a.png", ("the red ball moved", "a ball has moved"), "move"),
        viewpoint_iou=0.5,
        changed_object=ChangedObject(BALL, BALL),
        scene=SceneFacts(PLACED, (replace(PLACED[0], x=-2.0), PLACED[1]), *CAMERAS, 0),
    ),
    Pair(
        *("7.png_n", "7", "test", "7.png", "7b.png", ("no change was made", "the scene is the same")),
        change_type="none",
        viewpoint_iou=0.75,
        scene=SceneFacts(PLACED, PLACED, *CAMERAS, None),
    ),
    Pair(
        *("8.png", "8", "test", "8.png", "8a.png", ("the tiny ball turned blue",), "color"),
        viewpoint_iou=0.25,
        changed_object=ChangedObject(BALL, BALL),
    ),
    Pair("8.png_n", "8", "test", "8.png", "8b.png", ("nothing has changed",), "none", viewpoint_iou=1.0),
    Pair("9.png", "9", "test", "9.png", "9a.png", ("the cube left",), None),
    Pair("1.png", "1", "train", "1.png", "1a.png", ("a cube is gone",), "drop"),
]
CAPTIONS = {
    "7.png": "The  ball\u2028has been moved.",
    "7.png_n": "there is no change",
    "8.png": "nothing has changed",
    "8.png_n": "nothing has changed",
    "9.png": "",
}
BOXED = [replace(PAIRS[0], before_box=(0, 0, 6, 4), after_box=(6, 4, 6, 4)), *PAIRS[1:]]
WORDS = {pair: tuple(caption.split()) for pair, caption in CAPTIONS.items()}
# the attention of every word is in the upper left of 2 x 2 cells
ATTENDED = {
    pair: Attended(words, np.array([[[1, 0], [0, 0]]] * len(words), np.float16).reshape(-1, 1, 2, 2))
    for pair, words in WORDS.items()
}
JUDGED = ["true", "fits", "agrees"]
GERMAN = dict.fromkeys(("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"), "-Duser.language=de -Duser.country=DE")
GERMAN["LC_ALL"] = "de_DE.UTF-8"


def write_captions(path: Path, captions: list[tuple[Any, str]]) -> str:
    path.write_text(json.dumps([{"image_id": key, "caption": text} for key, text in captions]))
    return str(path)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scores of the same captions with pairs, pipeline.json(l), and with references, alone.json(l)."""
    folder = tmp_path_factory.mktemp("score")
    captions = ["--captions", write_captions(folder / "captions.json", [*CAPTIONS.items()])]
    write_pairs(folder / "pairs.file", BOXED)
    write_index(folder / "images", [Indexed(name, 12, 8, 1, "") for name in images_of(PAIRS)])
    attention_maps.write(folder / "attention.npz", ATTENDED)
    attending = ["--attention", str(folder / "attention.npz"), "--images", str(folder / "images")]
    read = ["--dataset", "clevr_change"]  # its references are parsed if no scene is known
    references = {pair.pair_id: pair.captions for pair in PAIRS if pair.split == "test"}
    (folder / "references.json").write_text(json.dumps(references))
    pipeline = ["--pairs", str(folder / "pairs.file"), "--split", "test", *read, *attending]
    against = ["--references", str(folder / "references.json")]
    out = {
        name: ["--out", str(folder / f"{name}.json"), "--per-pair", str(folder / f"{name}.jsonl")]
        for name in ("pipeline", "alone")
    }
    command = [sys.executable, "-m", "tests.light_meteor", *captions, *against, *out["alone"]]
    environment = os.environ | {"PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)} | GERMAN
    with (
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment) as process,
        (folder / "pipeline.said").open("w") as said,
        redirect_stdout(said),
        patch.object(meteor, "ARGUMENTS", light_meteor.arguments(folder)),
    ):
        (folder / "lab").mkdir()
        project_params.write(folder / "lab")
        done = stage(folder / "lab", ["score", *captions, *pipeline, *out["pipeline"]])
        said.write(done.stderr)
        assert done.returncode == 0, done.stderr
        assert process.wait(timeout=120) == 0, process.stderr.read()
    return folder


@pytest.fixture
def refused(leaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return the error message of a score that fails."""
    project_params.write(tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        out = tmp_path / "out.json"
        code, said, err = leaves("score", *arguments, "--out", str(out))
        assert (code, said, out.exists()) == (2, "", False)
        return err

    return run


def test_metrics_of_the_pipeline(folder: Path) -> None:
    metrics = json.loads((folder / "pipeline.json").read_text())
    parts = {"total", "change", "no_change", "color", "move"}
    parts |= {f"viewpoint_iou_q{number}" for number in (1, 2, 3, 4)}
    wording = {"exact_match", "distinct_captions", "mean_length"}
    said = {"change_accuracy", "attributes", "localisation", "scorers", "hashes", "scored"}
    said |= {"repetition", "repetition_changed", "best_constant", "best_constant_changed"}
    assert set(metrics) == parts | wording | said
    assert set(metrics["hashes"]) == {"captions", "attention", "pairs", "per_pair", "record"}
    names = {"BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D"}
    names |= {"CIDEr-D/corpus-df", "SPICE"}
    by_change = {name for name in BY_CHANGE if not name.startswith("reversed")}
    assert set(metrics["total"]) == names | {*JUDGED, "unreadable"} | by_change
    assert all(set(metrics[part]) == names | {*JUDGED, "unreadable"} for part in parts - {"total"})
    for name, subset in (("changed", "change"), ("unchanged", "no_change")):
        assert metrics["total"][f"true/{name}"] == metrics[subset]["true"]
        assert metrics["total"][f"agrees/{name}"] == metrics[subset]["agrees"]
    assert metrics["total"]["unreadable"] == 0
    assert {part: tuple(metrics[part][name] for name in JUDGED) for part in parts if "iou" not in part} == {
        "total": (1.0, 1.0, 0.5),
        "change": (1.0, 1.0, 0.0),
        "no_change": (1.0, 1.0, 1.0),
        "color": (None, None, 0.0),  # "nothing has changed" of a scene that is not known
        "move": (1.0, 1.0, None),
    }
    assert {name: metrics[name] for name in wording} == {
        "exact_match": 0.2,  # of 5, "nothing has changed" where nothing has
        "distinct_captions": 4,
        "mean_length": 3.0,
    }
    named = {"type": 0.5, "size": None, "color": None, "material": None, "shape": 1.0}
    assert metrics["attributes"] == named
    assert metrics["change_accuracy"] == 0.75
    assert metrics["no_change"]["CIDEr-D"] > metrics["total"]["CIDEr-D"] > 0
    assert metrics["scorers"]["CIDEr-D document frequencies"] == "subset"


def test_localisation_of_the_pairs_with_boxes(folder: Path) -> None:
    metrics = json.loads((folder / "pipeline.json").read_text())
    measures = {"pointing": 1.0, "coverage": 1.0, "pointing_at_object": 1.0, "coverage_at_object": 1.0}
    assert metrics["localisation"] == measures | {"chance": 0.5, "pairs": 1, "pairs_at_object": 1}
    lines = read_lines(folder / "pipeline.jsonl")
    assert {name: lines[0][name] for name in measures} == measures
    assert {name: lines[1][name] for name in measures} == dict.fromkeys(measures)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--references r --attention a --images i", "--attention needs --pairs and --images"),
        ("--pairs p --attention a", "--attention needs --pairs and --images"),
        ("--references r --dataset tabletop", "--dataset and --reader free need --pairs"),
        ("--references r --reader free", "--dataset and --reader free need --pairs"),
        ("--pairs p --predicted-only", "--predicted-only needs --references"),
    ],
)
def test_arguments_that_need_others(refused, arguments: str, said: str) -> None:
    assert said in refused("--captions", "c", *arguments.split())


def test_scores_of_each_pair(folder: Path) -> None:
    lines = read_lines(folder / "pipeline.jsonl")
    names = ["pair_id", "scene_id", "caption", "changed", *JUDGED, "faults", "unreadable"]
    names += ["BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE", "bleu", "meteor", "right"]
    assert all(list(line) == [*names, *MEASURES, "scored", "references"] for line in lines)
    assert [line["right"] for line in lines] == [True, True, False, True, None]
    assert [line["changed"] for line in lines] == [True, False, True, False, None]
    assert [tuple(line[name] for name in JUDGED) for line in lines] == [
        (True, True, None),
        (True, True, None),
        (None, None, False),
        (None, None, True),
        (None, None, None),  # "the cube left" names no kind of change
    ]
    assert [line["faults"] for line in lines] == ["", "", None, None, None]
    counts = {"matches": [4, 1, 0, 0], "guesses": [5, 4, 3, 2]}
    assert lines[0]["bleu"] == counts | {"length": 5, "reference_length": 4}
    assert all(len(line["meteor"]) == 23 for line in lines)
    assert [line["scene_id"] for line in lines] == ["7", "7", "8", "8", "9"]
    assert [(line["pair_id"], line["caption"]) for line in lines] == [*CAPTIONS.items()]
    assert lines[3]["ROUGE-L"] == 1
    assert lines[4]["METEOR"] == 0


def test_with_references_under_a_german_locale_the_numbers_are_the_same(folder: Path) -> None:
    metrics, alone = (json.loads((folder / f"{name}.json").read_text()) for name in ("pipeline", "alone"))
    shared = ("total", "exact_match", "distinct_captions", "mean_length", "scorers")
    judged = {*JUDGED, *BY_CHANGE, "unreadable"}
    plain = {name: value for name, value in metrics["total"].items() if name not in judged}
    assert alone.pop("hashes").keys() == {"captions", "per_pair", "record"}
    assert {alone["scored"].pop(key) for key in ("references", "reader")} == {
        "references.json",
        None,
    }
    scored = {key: metrics["scored"][key] for key in alone["scored"]}
    shared += ("repetition", "best_constant")
    assert alone == {name: metrics[name] for name in shared} | {"total": plain, "scored": scored}
    lines, expected = (read_lines(folder / f"{name}.jsonl") for name in ("alone", "pipeline"))
    unknown = dict.fromkeys(("scene_id", "changed", *JUDGED, "faults", "unreadable", "right"))
    unknown |= {"scored": lines[0]["scored"]}
    assert lines == [
        {name: value for name, value in (line | unknown).items() if name not in MEASURES} for line in expected
    ]


def test_a_table_and_warnings_are_printed(folder: Path) -> None:
    said = (folder / "pipeline.said").read_text()
    metrics = json.loads((folder / "pipeline.json").read_text())
    assert f"{100 * metrics['total']['METEOR']:.1f}" in said
    assert "warning: move: CIDEr-D is 0 by definition" in said
    assert "75.0 %" in said
    header = next(line.split() for line in said.splitlines() if "BLEU-1" in line)
    assert header[:5] == [*JUDGED, "readable", "BLEU-1"]
    assert "shape named correctly: 100.0 %" in said
    assert "size named correctly: never named" in said
    assert table_notes.WORDS_ONLY not in said  # truth is known


def test_a_split_without_pairs_and_an_unknown_dataset_are_refused(tmp_path: Path, refused) -> None:
    given = write_captions(tmp_path / "captions.json", [("1.png", "a")])
    write_pairs(tmp_path / "pairs", PAIRS)
    chosen = ["--captions", given, "--pairs", str(tmp_path / "pairs")]
    assert "no pair of the split val" in refused(*chosen, "--split", "val")
    said = refused(*chosen, "--split", "train", "--dataset", "tabeltop")
    assert said.startswith("error: unknown dataset 'tabeltop'; params.yaml has tabletop")


@pytest.mark.usefixtures("made_up_meteor")
def test_references_of_more_than_the_predicted_ids(tmp_path: Path, leaves) -> None:
    """Some programs' files hold the references of all splits, and some of these are empty."""
    given = write_captions(tmp_path / "captions.json", [("1", "a car"), (2, "a man")])
    found = {"1": ["a car"], "2": ["a man"], "3": ["a dog"], "4": []}
    (tmp_path / "references.json").write_text(json.dumps(found))
    out = tmp_path / "out.json"
    command = ["--captions", given, "--references", str(tmp_path / "references.json"), "--tokeniser", "none"]

    def score(*arguments: str) -> str:
        return leaves("score", *command, *arguments, "--out", str(out))

    code, _, said = score()
    assert (code, out.exists()) == (2, False)
    assert "--predicted-only" in said
    assert "3: has no prediction" in said
    code, printed, said = score("--predicted-only")
    assert code == 0, said
    assert "2 pairs scored; left out: 2 without a caption; references: references.json, sha256 " in printed
    scored = json.loads(out.read_text())["scored"]
    assert (scored["pairs"], scored["left_out"]) == (2, 2)
    assert json.loads(out.read_text())["exact_match"] == 1.0
    del found["2"]
    (tmp_path / "references.json").write_text(json.dumps(found))
    code, _, said = score("--predicted-only")
    assert code == 2
    assert "2: is predicted but has no references" in said
    assert "--predicted-only" not in said  # it was given


@pytest.mark.parametrize("name", ["score", "constant"])
def test_part_of_the_prepared_pairs_is_refused(tmp_path, leaves, monkeypatch, name) -> None:
    project_params.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    given = write_captions(tmp_path / "captions.json", [*CAPTIONS.items()][:3])
    test = [pair for pair in PAIRS if pair.split == "test"]
    pairs, out = tmp_path / "pairs", tmp_path / "out.json"
    write_pairs(pairs, test[:3])
    manifest.write(tmp_path / "manifest", Manifest("table", None, {}, {"test": {"pairs": len(test)}}))
    command = [*("--pairs", pairs, "--manifest", tmp_path / "manifest"), "--captions", given, "--out", out]
    code, _, said = leaves(name, *command, *(["--dataset", "tabletop"] if name == "constant" else []))
    assert (code, out.exists()) == (2, False)
    assert f"{pairs} has 3 pairs of the split test, and its manifest says 5" in said
