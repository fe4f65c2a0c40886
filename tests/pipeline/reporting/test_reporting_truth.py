"""Truth comes first on the page: columns, tables, curves, and the verdict on each caption."""

import json
import re
from dataclasses import replace

import pytest

from pipeline.datasets.schema import NO_CHANGE, Placed, SceneFacts
from pipeline.judging.verdicts import marks
from pipeline.reporting import curves, dataset_results, page
from pipeline.reporting.dataset_results import Curves
from tests.report_lab import make_study, write_lines
from tests.report_page import DATA, Reader, undrawn

CUBE = Placed(0, "large", "red", "metal", "cube", 0.0, 0.0)
SPHERE = Placed(1, "small", "blue", "rubber", "sphere", 2.0, 1.0)
EYE = (7.0, -7.0, 5.0)
TURNED = SceneFacts((CUBE, SPHERE), (replace(CUBE, color="green"), SPHERE), EYE, EYE, 0)
STILL = SceneFacts((CUBE, SPHERE), (CUBE, SPHERE), EYE, EYE, None)
TRUE_CAPTION = "the big red metal cube turned green"
TRUTH = {"true": [0.5, 0.6], "true/changed": [0.1, 0.3]}  # at two iterations
WRONG_CAPTION = "the big yellow metal cube turned green"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return root, make_study(root, seeds=(1,))


def judged(made, key):
    """Return the results with the score `key`: a quarter for subtraction, three quarters for scorer."""
    root, params = made
    (results,) = dataset_results.read(root, params)
    shares = {"constant": 0.0, "subtraction": 0.25, "scorer": 0.75}

    def with_key(metrics, share):
        truth = {f"{key}/changed": share, f"{key}/unchanged": share}
        return {
            name: {key: share} | own | (truth if name == "total" else {})
            if isinstance(own, dict) and name != "scorers"
            else own
            for name, own in metrics.items()
        }

    runs = [
        replace(
            run,
            metrics=with_key(run.metrics, shares[run.model]),
            scores={
                name: score.model_copy(update={key: run.model == "scorer"})
                for name, score in run.scores.items()
            },
        )
        for run in results.runs
    ]
    return replace(results, constant=with_key(results.constant, 0.0), runs=runs), params


def saying(results):
    """Return results in which subtraction names a wrong colour of every pair, and scorer is correct."""
    test = [
        replace(
            pair, change_type="color" if pair.changed else NO_CHANGE, scene=TURNED if pair.changed else STILL
        )
        for pair in results.test
    ]
    own = {
        "subtraction": {pair.pair_id: WRONG_CAPTION for pair in test},
        "scorer": {pair.pair_id: TRUE_CAPTION if pair.changed else "nothing has changed" for pair in test},
    }
    runs = [
        replace(
            run,
            captions=own[run.model],
            scores={
                name: score.model_copy(update={"true": own[run.model][name] != WRONG_CAPTION})
                for name, score in run.scores.items()
            },
        )
        for run in results.runs
    ]
    gallery = {kind: [p for p in test if p.change_type == kind] for kind in ("color", NO_CHANGE)}
    return replace(results, test=test, runs=runs, gallery=gallery)


@pytest.mark.parametrize("key", ["true", "agrees"])
def test_the_first_columns_are_of_known_truth(made, key):
    results, params = judged(made, key)
    first, *_ = Reader(undrawn([results], params)).tables
    headings = [" ".join(cell.split()) for cell in first[0]]
    assert headings[2:5] == [f"{key}/changed", f"{key}/unchanged", "BLEU-4"]
    assert [row[2].strip() for row in first[1:]] == ["0.0", "25.0", "75.0"]


def test_tables_of_truth_come_before_those_of_scores(made):
    results, params = judged(made, "true")
    html = undrawn([results], params)
    captions = re.findall(r"<caption><span>([^<]*)</span>", html)
    parts = [caption for caption in captions if "each part of the test split" in caption]
    assert parts[0].startswith("Captions that are true")
    assert "Captions that agree" not in html


def test_cards_have_verdicts_and_mark_wrong_words(made):
    results, params = judged(made, "true")
    html = undrawn([saying(results)], params)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", DATA.sub("", html)))
    changed = sum(pair.changed for pair in results.test)
    assert text.count("✗ not true: “yellow”") == changed
    assert text.count("✗ not true: “turned green”") == len(results.test) - changed
    assert text.count("✓ true") == len(results.test)
    marked = re.findall(r'class="untrue" aria-description="not true"[^>]*>([^<]*)<', html)
    assert marked.count("yellow") == changed
    assert set(marked) == {"yellow", "turned", "green"}
    card = next(card for card in Reader(html).all("article"))
    assert (card["data-true"], card["data-untrue"]) == ("scorer", "subtraction")
    options = [option.get("value") for option in Reader(html).all("option")]
    assert {"true", "untrue"} <= set(options)


def test_captions_of_real_pairs_agree_or_disagree(made):
    results, params = judged(made, "agrees")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", DATA.sub("", undrawn([results], params))))
    assert text.count("✓ agrees with the references") == len(results.test)
    assert text.count("✗ does not agree with the references") == len(results.test)


def test_differences_in_truth_come_first(made):
    root, params = made
    (results,) = dataset_results.read(root, params)
    changed = {pair.pair_id: pair.changed for pair in results.test}
    kept = {}
    for model in ("subtraction", "scorer"):
        path = root / f"results/runs/tabletop/{model}/1/pairs.jsonl"
        kept[path] = path.read_text()
        rows = [json.loads(line) for line in kept[path].splitlines()]
        own = {"true": model == "scorer"}
        write_lines(path, [row | own | {"changed": changed[row["pair_id"]]} for row in rows])
    (known,) = dataset_results.read(root, params)
    for path, text in kept.items():
        path.write_text(text)
    found = page.significance(known)
    assert found.headings[:3] == ["models", "true/changed", "true"]
    assert found.rows[0][1].startswith("+100.0 [")


def test_curves_of_truth_come_before_cider(made):
    results, _ = judged(made, "true")
    runs = [
        replace(run, phases={"train": Curves(curve.losses, curve.validation | TRUTH)})
        for run in results.runs
        for curve in [run.phases["train"]]
    ]
    panels = curves.captioning(replace(results, runs=runs))
    assert [panel.title for panel in panels][:3] == [
        "Validation, true captions of changed pairs, percent",
        "Validation, true captions of all pairs, percent",
        "Validation CIDEr-D × 100",
    ]
    assert "scorer, seed 1: maximum 30.00, last 30.00" in panels[0].description


@pytest.mark.parametrize(
    ("caption", "wrong", "marked"),
    [
        ("the red cube turned red", ["red"], [1]),
        ("the red cube turned red", ["turned red"], [3, 4]),
        ("the red cube turned red", ["cube", "turned red"], [2, 3, 4]),
        ("the red cube", [], []),
        ("the red cube", ["the red cube"], [0, 1, 2]),
        ("the red cube", ["blue"], []),
        ("", [""], []),
        ("cube", ["cube moved"], []),
    ],
)
def test_which_words_are_marked(caption, wrong, marked):
    words = caption.split()
    assert marks(words, wrong) == [place in marked for place in range(len(words))]
