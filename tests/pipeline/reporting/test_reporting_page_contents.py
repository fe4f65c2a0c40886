"""What the page shows: tables, pairs and who is right of them, learning curves and bars."""

import re
from dataclasses import replace

import pytest

from models import MODELS
from pipeline.reporting import curves, dataset_results, figures, overview_table
from pipeline.scoring.metric_names import CORPUS
from pipeline.statistics.seeds import MeanSd
from tests.report_lab import make_study
from tests.report_page import DATA, Reader, alone, saying, told, undrawn

QUARTILES = [f"viewpoint_iou_q{number}" for number in range(1, 5)]
SAID = ("the ball moved", "nothing has changed")


def test_tables_hold_the_metrics(study, read):
    (results, _), _ = study
    means, scores, _, *others = read.tables[:8]  # the second dataset's stand behind
    cider, meteor, captions, attributes, places = others[-5:]
    assert [cell.split()[0] for cell in scores[0]] == [
        "model", "seed", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "CIDEr-D,", "change",
    ]  # fmt: skip
    assert scores[0][-2] == "CIDEr-D, changed"
    for run, row in zip(results.cells[:2], scores[2:4], strict=True):
        total = run.metrics.subsets["total"]
        values = [
            *(total[name] for name in CORPUS),
            run.metrics.subsets["change"]["CIDEr-D"],
            run.metrics.whole["change_accuracy"],
        ]
        assert tidy(row) == [run.model, str(run.seed), *(f"{100 * value:.1f}" for value in values)]
    assert tidy(scores[4])[:3] == ["subtraction", "mean", "51.8 ± 0.7"]
    assert [row[0] for row in means] == ["model", "constant", "subtraction", "scorer"]
    assert tidy(means[2])[:2] == ["subtraction", "51.8 ± 0.7"]
    parts = ["change", "no_change", "color", "texture", "add", "drop", "move", *QUARTILES]
    for table, metric in ((cider, "CIDEr-D"), (meteor, "METEOR")):
        assert [re.sub(r" \d+ pairs", "", c).replace(" ", "_") for c in table[0][1:]] == parts
        own = [cell.metrics.subsets for cell in results.cells[:2]]
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


def test_what_the_pairs_cannot_tell_apart_is_said_so_in_words(study, read):
    text = " ".join("".join(read.text).split())
    # every pair of scorer's scores 0.1 more by CIDEr-D; the numbers behind METEOR are the same
    assert "scorer is better than subtraction by 10.0 CIDEr-D (scorer − subtraction: " in text
    differences = next(table for table in read.tables if table[0][0] == "models")
    assert differences[0][1:3] == ["BLEU-4", "METEOR"]
    row = dict(zip(differences[0], tidy(differences[1]), strict=True))
    assert row["models"] == "scorer − subtraction"
    assert row["METEOR"] == "0.0 [0.0, 0.0] p = 1.000, not significant"
    assert row["CIDEr-D"] == "+10.0 [+10.0, +10.0] p < 0.001"


def test_one_model_alone_is_compared_with_none(study):
    (results, _), params = study
    alone = replace(results, evidence={"scorer": results.evidence["scorer"]})
    assert "Which differences are sure" not in undrawn([alone], params)


def test_the_gallery_shows_pictures_references_and_every_models_caption(study, html):
    (results, _), _ = study
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", DATA.sub("", html)))
    assert html.count("<article") == 2 * 20
    for pair in results.test:
        assert html.count(f'alt="The scene before, pair {pair.pair_id}"') == 2
        assert all(caption in text for caption in pair.captions)
    assert [
        text.count(f"{said}, says {model} 1") for said in SAID for model in ("subtraction", "scorer")
    ] == [40, 20, 0, 20]
    assert "says scorer 2" not in text  # the first seed alone
    assert text.count("✓ right: says change; CIDEr-D&nbsp;51.0") == 20
    assert text.count("✓ right: says no change; CIDEr-D&nbsp;61.0") == 20
    assert text.count("✗ wrong: says change; CIDEr-D&nbsp;51.0") == 20


@pytest.mark.parametrize(
    ("caption", "says"), [("there is no change", "no change"), ("", "change"), ("it moved", "change")]
)
def test_what_a_caption_says_stands_beneath_it(study, caption, says):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", saying(study, caption)))
    assert text.count(f": says {says}; CIDEr-D&nbsp;51.0") == 20
    assert text.count("(nothing)") == (0 if caption else 20)


def test_cards_name_who_is_right_and_who_is_wrong(study, read):
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


def test_without_the_truth_nothing_is_marked(study):
    (results, _), params = study
    blind = [replace(pair, change_type=None) for pair in results.test]
    found = [
        replace(
            cell,
            metrics=dataset_results.Metrics({"total": cell.metrics.subsets["total"]}, {}, {}),
            told=dict.fromkeys(cell.told, told(0.5)),
        )
        for cell in results.cells
    ]
    constant = replace(results.constant, subsets=found[0].metrics.subsets, whole={})
    unknown = replace(results, test=blind, cells=found, constant=constant, gallery={None: blind}, evidence={})
    html = re.sub(r"(?s)<style>.*?</style>|<script>.*?</script>|url.*?;", "", undrawn([unknown], params))
    assert not re.search(r"rightly|✓|✗|Change accuracy|Which differences|The numbers|By kind", html)
    assert re.findall("<h3>.*</h3>", html) == [
        f"<h3>{title}</h3>" for title in ("Scores", "Learning curves", "Test pairs")
    ]
    assert html.count("<table") == 2
    assert "kind of change unknown" in html


def test_boxes_are_outlined_in_the_files_own_pixels(study):
    (results, _), params = study
    assert "<rect x=" not in re.sub("(?s)<clipPath.*?</clipPath>", "", undrawn([results], params))
    boxed = [replace(pair, before_box=(1.0, 2.0, 30.0, 4.5)) for pair in results.test]
    html = undrawn([replace(results, test=boxed, gallery={"color": boxed})], params)
    box = (
        '<svg viewBox="0 0 48 32" aria-hidden="true"><rect x="1.0" y="2.0" width="30.0" height="4.5"/></svg>'
    )
    assert html.count(box) == 20
    assert "outline" in html


def test_different_scorers_are_both_told(study):
    (results, _), params = study
    last = replace(results.cells[-1], metrics=replace(results.constant, scorers={"METEOR": "2"}))
    html = undrawn([replace(results, cells=[*results.cells[:-1], last])], params)
    assert "METEOR: 1.5 and 2" in html


def test_a_panel_for_each_loss_and_a_line_for_each_run(study):
    (results, _), _ = study
    titles = [panel.title for panel in curves.captioning(results)]
    assert titles == ["Validation CIDEr-D × 100", "Training loss: caption", "Training loss: view-invariance"]
    validation, caption, view = curves.captioning(results)
    assert [panel.svg.count("var(--line-0)") > 0 for panel in (validation, caption, view)] == [
        True,
        True,
        False,
    ]
    assert view.svg.count("var(--line-1)") == 2
    assert "scorer, seed 2: maximum 62.00, last 62.00" in validation.told
    assert "subtraction, seed 1: minimum 0.02, last 0.02" in caption.told
    assert "#0f0f" not in validation.svg + caption.svg + view.svg


def test_cells_whose_weights_were_imported_have_no_curves(tmp_path):
    params = make_study(tmp_path)
    for kind, seed in (("loss", 2), ("validation", 2), ("loss", 1), ("validation", 1)):
        path = tmp_path / f"results/curves/tabletop/scorer/{seed}/{kind}.csv"
        path.write_text(path.read_text().split("\n")[0] + "\n")
    (results,) = dataset_results.read(tmp_path, params)
    found = curves.captioning(results)
    assert [panel.title for panel in found] == ["Validation CIDEr-D × 100", "Training loss: caption"]
    assert "scorer" not in "".join(panel.told for panel in found)
    assert "Training loss" in undrawn([results], params)
    alone = replace(results, cells=[cell for cell in results.cells if cell.model == "scorer"])
    assert curves.captioning(alone) == []
    assert "Learning curves" not in undrawn([alone], params)


PRETRAINING = """iteration,mlm,mvcl,fda,mlm_accuracy
50,5.0,nan,1.9,0.1
100,4.0,3.0,nan,0.2
"""
VALIDATED = """iteration,mlm_accuracy,mvcl_rank,fda_accuracy_change,fda_accuracy_no_change,mlm
100,0.25,0.4,0.5,nan,4.5
"""


def test_the_pre_training_has_panels_of_its_own(tmp_path):
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
    assert "scorer, seed 1: minimum 4.00, last 4.00; scorer, seed 2: minimum 4.00" in words.told
    assert "minimum 3.00" in cells.told, "what no iteration measured is left out"
    assert rank.told.endswith("minimum 0.40, last 0.40. Chance: 0.5.")
    assert found[own[5]].told.endswith("Chance: 0.143.")
    assert "seed 1" not in found["Validation, on CUB’s images, masked words named"].told
    assert rank.svg.count("stroke-dasharray") > words.svg.count("stroke-dasharray")
    assert "#0f0f" not in rank.svg
    html = undrawn([results], params)
    assert "<h3>Learning curves of the pre-training</h3>" in html
    without = replace(results, cells=[alone(cell) for cell in results.cells])
    assert "of the pre-training" not in undrawn([without], params)


def test_a_bar_for_each_model_and_a_mark_for_the_constant_caption(study):
    (results, _), _ = study
    models = overview_table.of_models(overview_table.rows(overview_table.records([results]), "tabletop"))
    styles = figures.styles(cell.model for cell in results.cells)
    groups = {"color": ("color", "CIDEr-D"), "never": ("never", "CIDEr-D")}
    panel = figures.bars("Scores", "tabletop", groups, models, styles)
    assert (
        panel.told == "Scores. constant: color 28.6; subtraction: color 55.1 ± 0.7; scorer: color 65.1 ± 0.7."
    )
    assert [panel.svg.count(f"fill: var(--line-{number})") for number in range(3)] == [1, 1, 0]
    assert panel.svg.count("stroke: var(--quiet)") == 1
    del groups["color"]
    assert figures.bars("Scores", "tabletop", groups, models, styles) is None


def test_bars_of_zeros_stand_on_an_axis_from_0_to_1():
    row = overview_table.Row("scorer", 1, 1, {("color", "CIDEr-D"): MeanSd(0.0, None, 1)})
    panel = figures.bars(
        "Scores", "tabletop", {"color": ("color", "CIDEr-D")}, [row], figures.styles(["scorer"])
    )
    assert "0.05" not in panel.svg
    assert "1.0" in re.sub(r"<path.*?/>", "", panel.svg)


def test_of_one_seed_there_is_no_table_of_runs_and_the_seed_may_be_0(tmp_path):
    params = make_study(tmp_path, seeds=(0,))
    first, *others = Reader(undrawn(dataset_results.read(tmp_path, params), params)).tables
    assert [row[:2] for row in first] == [
        ["model", "seed"],
        ["constant", ""],
        ["subtraction", "0"],
        ["scorer", "0"],
    ]
    assert len(others) == 6


def test_many_models_still_have_a_style_each():
    looks = {(style.colour, style.dashes) for style in (figures.Style("m", n) for n in range(40))}
    assert len(looks) == 40


def test_a_look_in_a_file_belongs_to_the_name_whatever_models_stand_beside_it():
    names = list(MODELS)
    chosen = figures.looks(names)
    assert len({repr(look) for look in chosen.values()}) == len(names)
    more = figures.looks([*names[:3], "another_model", *reversed(names[3:])])
    assert {name: more[name] for name in names} == chosen
    many = figures.looks([f"m{number}" for number in range(150)])  # more than there are
    assert len({repr(look) for look in many.values()}) == 108
