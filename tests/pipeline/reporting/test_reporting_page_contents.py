"""Contents of the page: tables, cards and learning curves."""

import re
from dataclasses import replace

from pipeline.reporting import curves, dataset_results
from pipeline.scoring.metric_names import CORPUS
from tests.report_lab import make_study
from tests.report_page import DATA, told, undrawn

QUARTILES = [f"viewpoint_iou_q{number}" for number in range(1, 5)]
SAID = ("the ball moved", "nothing has changed")


def test_tables_hold_the_metrics(study, read):
    (results, _), _ = study
    means, scores, _, *others = read.tables[:8]  # of the first dataset
    cider, meteor, captions, attributes, places = others[-5:]
    assert [cell.split()[0] for cell in scores[0]] == [
        "model", "seed", *CORPUS, "CIDEr-D/changed", "change",
    ]  # fmt: skip
    assert scores[0][-2] == "CIDEr-D/changed"
    for run, row in zip(results.runs[:2], scores[2:4], strict=True):
        total = run.metrics["total"]
        values = [
            *(total[name] for name in CORPUS),
            run.metrics["change"]["CIDEr-D"],
            run.metrics["change_accuracy"],
        ]
        assert tidy(row) == [run.model, str(run.seed), *(f"{100 * value:.1f}" for value in values)]
    assert tidy(scores[4])[:3] == ["subtraction", "mean", "51.8 ± 0.7"]
    assert [row[0] for row in means] == ["model", "constant", "subtraction", "scorer"]
    assert tidy(means[2])[:2] == ["subtraction", "51.8 ± 0.7"]
    parts = ["change", "no_change", "color", "texture", "add", "drop", "move", *QUARTILES]
    for table, metric in ((cider, "CIDEr-D"), (meteor, "METEOR")):
        assert [re.sub(r" \d+ pairs", "", c).replace(" ", "_") for c in table[0][1:]] == parts
        own = [run.metrics for run in results.runs[:2]]
        assert [cell.split(" ± ")[0] for cell in tidy(table[2])[1:]] == [
            f"{50 * (own[0][part][metric] + own[1][part][metric]):.1f}" for part in parts
        ]
    assert cider[0][1].endswith("10 pairs")
    assert tidy(captions[2]) == ["subtraction", "12.9 ± 0.2", "12.0 ± 0.0", "6.5 ± 0.0"]
    assert attributes[0][1:] == ["type", "color", "material", "shape", "size"]
    assert places[0][1:] == ["pointing", "coverage", "pointing at object"]
    assert tidy(places[1]) == ["constant", *["25.0"] * 3]


def tidy(row):
    return [" ".join(cell.split()) for cell in row]


def test_differences_have_intervals_and_significance(read):
    # every pair of scorer's scores 0.1 more by CIDEr-D; the numbers behind METEOR are the same
    differences = next(table for table in read.tables if table[0][0] == "models")
    assert differences[0][1:3] == ["BLEU-4", "METEOR"]
    row = dict(zip(differences[0], tidy(differences[1]), strict=True))
    assert row["models"] == "scorer − subtraction"
    assert row["METEOR"] == "0.0 [0.0, 0.0] p = 1.000, not significant"
    assert row["CIDEr-D"] == "+10.0 [+10.0, +10.0] p < 0.001"


def test_the_gallery_shows_images_references_and_captions(study, html):
    (results, _), _ = study
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", DATA.sub("", html)))
    assert html.count("<article") == 2 * 20
    for pair in results.test:
        assert html.count(f'alt="The scene before, pair {pair.pair_id}"') == 2
        assert all(caption in text for caption in pair.captions)
    assert [
        text.count(f"{said}, says {model} 1") for said in SAID for model in ("subtraction", "scorer")
    ] == [40, 20, 0, 20]
    assert "says scorer 2" not in text  # captions are of the first seed
    assert text.count("✓ right: says change; CIDEr-D&nbsp;51.0") == 20
    assert text.count("✓ right: says no change; CIDEr-D&nbsp;61.0") == 20
    assert text.count("✗ wrong: says change; CIDEr-D&nbsp;51.0") == 20


def test_cards_name_the_models_that_are_right(study, read):
    (results, _), _ = study
    cards = read.all("article")[:20]
    changed = {f"Pair {pair.pair_id}": pair.changed for pair in results.test}
    for card in cards:
        right, wrong = card["data-right"].split(), card["data-wrong"].split()
        assert (right, wrong) == (
            (["subtraction", "scorer"], []) if changed[card["aria-label"]] else (["scorer"], ["subtraction"])
        )
    options = [option.get("value") for option in read.all("option")]
    assert options[:7] == ["", "color", "texture", "add", "drop", "move", "no change"]


def test_nothing_is_marked_without_truth(study):
    (results, _), params = study
    blind = [replace(pair, change_type=None) for pair in results.test]
    found = [
        replace(
            run,
            metrics={"total": run.metrics["total"]},
            scores=dict.fromkeys(run.scores, told(0.5)),
        )
        for run in results.runs
    ]
    constant = found[0].metrics
    unknown = replace(results, test=blind, runs=found, constant=constant, gallery={None: blind}, evidence={})
    html = re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>|url.*?;", "", undrawn([unknown], params))
    assert not re.search(r"✓|✗|Change accuracy|Which differences|The numbers", html)
    assert re.findall("<h3>.*</h3>", html) == [
        f"<h3>{title}</h3>" for title in ("Scores", "Learning curves", "Test pairs")
    ]
    assert html.count("<table") == 2
    assert "kind of change unknown" in html


def test_change_boxes_are_outlined(study):
    (results, _), params = study
    assert "<rect x=" not in re.sub("(?s)<clipPath.*?</clipPath>", "", undrawn([results], params))
    boxed = [replace(pair, before_box=(1.0, 2.0, 30.0, 4.5)) for pair in results.test]
    html = undrawn([replace(results, test=boxed, gallery={"color": boxed})], params)
    box = (
        '<svg viewBox="0 0 48 32" aria-hidden="true"><rect x="1.0" y="2.0" width="30.0" height="4.5"/></svg>'
    )
    assert html.count(box) == 20
    assert "outline" in html


def test_panels_and_lines_of_learning_curves(study):
    (results, _), _ = study
    titles = [panel.title for panel in curves.captioning(results)]
    assert titles == ["Validation CIDEr-D × 100", "Training loss: caption", "Training loss: view-invariance"]
    validation, caption, view = curves.captioning(results)
    assert ["var(--line-0)" in panel.svg for panel in (validation, caption, view)] == [True, True, False]
    assert view.svg.count("var(--line-1)") == 2
    assert "scorer, seed 2: maximum 62.00, last 62.00" in validation.description
    assert "subtraction, seed 1: minimum 0.02, last 0.02" in caption.description
    assert "#0f0f" not in validation.svg + caption.svg + view.svg


def test_imported_weights_have_no_curves(tmp_path):
    params = make_study(tmp_path)
    for kind, seed in (("loss", 2), ("validation", 2), ("loss", 1), ("validation", 1)):
        path = tmp_path / f"results/curves/tabletop/scorer/{seed}/{kind}.csv"
        path.write_text(path.read_text().split("\n")[0] + "\n")
    (results,) = dataset_results.read(tmp_path, params)
    found = curves.captioning(results)
    assert [panel.title for panel in found] == ["Validation CIDEr-D × 100", "Training loss: caption"]
    assert "scorer" not in "".join(panel.description for panel in found)
    assert "Training loss" in undrawn([results], params)
    alone = replace(results, runs=[run for run in results.runs if run.model == "scorer"])
    assert curves.captioning(alone) == []
    assert "Learning curves" not in undrawn([alone], params)


PRETRAINING = """iteration,mlm,mvcl,fda,mlm_accuracy
50,5.0,nan,1.9,0.1
100,4.0,3.0,nan,0.2
"""
VALIDATED = """iteration,mlm_accuracy,mvcl_rank,fda_accuracy_change,fda_accuracy_no_change,mlm
100,0.25,0.4,0.5,nan,4.5
"""


def test_pretraining_has_panels_of_its_own(tmp_path):
    params = make_study(tmp_path)
    for seed in (1, 2):
        for folder in ("", "images") if seed == 2 else ("",):
            place = tmp_path / "results/curves/tabletop/scorer/pretrain" / str(seed) / folder
            place.mkdir(parents=True)
            (place / "loss.csv").write_text(PRETRAINING)
            (place / "validation.csv").write_text(VALIDATED)
    (results,) = dataset_results.read(tmp_path, params)
    found = {panel.title: panel for panel in curves.pretraining(results)}
    own = [
        "Training loss, masked words",
        "Training loss, masked cells",
        "Training loss, negatives",
        "Validation, masked words named",
        "Validation, rank of the masked cell, 0 the first",
        "Validation, own caption found, change pairs",
    ]
    assert list(found) == [title.replace(", ", ", on CUB’s images, ", 1) for title in own] + own
    words, cells, rank = (found[own[place]] for place in (0, 1, 4))
    assert "scorer, seed 1: minimum 4.00, last 4.00; scorer, seed 2: minimum 4.00" in words.description
    assert "minimum 3.00" in cells.description, "what no iteration measured is left out"
    assert rank.description.endswith("minimum 0.40, last 0.40. Chance: 0.5.")
    assert found[own[5]].description.endswith("Chance: 0.143.")
    assert "seed 1" not in found["Validation, on CUB’s images, masked words named"].description
    assert rank.svg.count("stroke-dasharray") > words.svg.count("stroke-dasharray")
    assert "#0f0f" not in rank.svg
    assert f"<figcaption>{own[0]}</figcaption>" in undrawn([results], params)
