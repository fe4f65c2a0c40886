"""The matrix: shares that are kept, how often a score falls, tables, sentences, and the command's outputs."""

import json
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from pipeline.datasets.schema import write_pairs
from pipeline.reporting.figures import svg_file
from pipeline.scoring import meteor
from pipeline.sensitivity import caption_metrics, figure, matrix
from pipeline.sensitivity.edited_captions import of_pairs
from tests import light_meteor, shipped
from tests.running import refuse, succeed
from tests.tabletop_pairs import draw_pairs

OF_WORDS = ("BLEU-1", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "exact match")


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(3, 8)


@pytest.fixture(scope="module")
def scored(pairs, tmp_path_factory):
    """Edited captions against themselves, with the scores of all metrics; METEOR without paraphrases."""
    captions = of_pairs(pairs, 8, "itself")
    arguments = light_meteor.arguments(tmp_path_factory.mktemp("meteor"))
    with patch.object(meteor, "ARGUMENTS", arguments):
        scores, reason = caption_metrics.scores(captions, 200, with_spice=False)
    assert reason == "left out"
    return captions, scores


def test_a_caption_that_equals_its_reference_keeps_all_of_every_score(scored):
    captions, scores = scored
    made = matrix.of_scores("x", "itself", captions, scores)
    assert made.metrics == [
        *OF_WORDS,
        "change accuracy",
        "agrees, grammar",
        "agrees, free English",
        "truth, grammar",
        "truth, free English",
    ]
    (same,) = (row for row in made.rows if row.edit == "same words")
    assert {cell.kept.value for cell in same.metrics.values()} == {1.0}
    assert {cell.below.value for cell in same.metrics.values()} == {0.5}
    equal = [one.caption in one.references for one in captions.scored.values()]
    for name in ("BLEU-1", "ROUGE-L", "exact match", "METEOR"):
        assert scores[name][equal] == pytest.approx(1.0), name
    for row in made.rows:
        cell = row.metrics["truth, free English"]
        assert (cell.kept.value, cell.below.value) == ((0.0, 1.0) if row.is_wrong else (1.0, 0.5)), row.edit


def test_the_numbers_are_those_of_a_plain_loop(scored):
    captions, scores = scored
    made = matrix.of_scores("x", "itself", captions, scores)
    positions = {key: n for n, key in enumerate(captions.scored)}
    for row in (*made.rows, *made.kinds):
        cases = [
            case
            for case in captions.cases
            if case.edit == row.edit and (not row.kinds[1] or case.kinds == row.kinds)
        ]
        assert len(cases) == row.cases
        for name, values in scores.items():
            couples = [(values[positions[case.edited]], values[positions[case.right]]) for case in cases]
            falls = [1.0 if low < high else 0.5 if low == high else 0.0 for low, high in couples]
            cell = row.metrics[name]
            assert cell.below.value == pytest.approx(np.mean(falls), abs=1e-4)
            assert cell.below.low <= cell.below.value <= cell.below.high
            if right := sum(high for _, high in couples):
                assert cell.kept.value == pytest.approx(sum(low for low, _ in couples) / right, abs=1e-4)
            else:
                assert cell.kept is None


def test_tables_sentences_and_figure(scored):
    captions, scores = scored
    blind = {"blind": np.ones(len(captions.scored)), "none": np.zeros(len(captions.scored))}
    made = matrix.of_scores("x", "itself", captions, scores | blind)
    wrong, right = (matrix.table(made, "kept", part) for part in (True, False))
    assert len(wrong.rows) + len(right.rows) == len(made.rows)
    assert all(row[-2:] == ["1.00", "–"] for row in (*wrong.rows, *right.rows))
    said = matrix.sentences(made)
    assert len(said) == len(made.metrics)
    assert "truth, free English sees every mistake; it accepts every right caption." in said
    assert all(row.edit in said[-2] for row in made.rows if row.is_wrong)
    assert not {"sees", "accepts"} & {*said[-1].split()}  # without a score, nothing is known
    of_blind = matrix.metric_table(made, "blind")
    assert {tuple(row[3:]) for row in of_blind.rows} == {("1.00 (1.00 to 1.00)", ".50 (.50 to .50)")}
    kinds = matrix.kinds_table(made, "blind")
    assert {row[0] for row in kinds.rows} == {*kinds.headings[1:]}
    drawing = svg_file(lambda axes: figure.draw(made, axes), figure.size(made))
    assert all(f">{row.edit}<" in drawing for row in made.rows)
    assert matrix.Matrix.model_validate_json(made.model_dump_json()) == made


@pytest.fixture
def folder(tmp_path, pairs, monkeypatch, made_up_meteor):
    """Pairs in a folder. Java is not called."""
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    tokenize = lambda sentences, timeout: [text.lower().replace(".", "") for text in sentences]  # noqa: E731
    monkeypatch.setattr(caption_metrics.tokenizer, "tokenize", tokenize)
    return tmp_path


def test_another_program_scores_the_captions(folder, capsys):
    succeed(folder, "sensitivity --pairs pairs.jsonl --write captions.jsonl")
    lines = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
    assert all(line["references"] and line["caption"] for line in lines)
    rows = [{"id": line["id"], "score": len(line["caption"])} for line in lines]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = "--out results/sensitivity/own.json --figure own.svg --without-spice"
    succeed(folder, f"sensitivity --pairs pairs.jsonl --scores letters own.jsonl {files}")
    said = capsys.readouterr().out
    assert "letters keeps" in said
    made = json.loads((folder / "results/sensitivity/own.json").read_text())
    assert made["rows"][0]["metrics"]["letters"]["kept"]["value"] > 0
    assert "letters" in (folder / "own.svg").read_text()
    (folder / "docs").mkdir()
    page = folder / "docs/evaluation.md"
    page.write_text("![a](sensitivity-own.svg)\n<!-- table: own kept wrong -->\n<!-- end -->\nb\n")
    succeed(folder, "sensitivity --fill")
    assert "| kind of change |" in page.read_text()
    assert (folder / "docs/sensitivity-own.svg").exists()
    (folder / "own.jsonl").write_text(json.dumps(rows[0]) + "\n")
    refuse(folder, "sensitivity --pairs pairs.jsonl --scores letters own.jsonl", lines[1]["id"])


def test_the_published_page_has_the_published_matrices(tmp_path):
    shipped.copy(tmp_path, "docs/evaluation.md", "results/sensitivity")
    succeed(tmp_path, "sensitivity --fill")
    assert (tmp_path / "docs/evaluation.md").read_text() == shipped.text("docs/evaluation.md")
    (drawing,) = (tmp_path / "docs").glob("*.svg")
    assert drawing.read_text() == shipped.text(f"docs/{drawing.name}")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--fill", "results/sensitivity has no matrix"),
        ("--pairs single.jsonl", "--against itself"),
        ("--pairs pairs.jsonl --split test", "the split test"),
        ("--pairs pairs.jsonl --protocol per_entry", "--protocol needs --layout"),
        ("--layout spot_the_diff here", "here is missing"),
        ("--layout spot_the_diff . --protocol x", "'x'"),
    ],
)
def test_mistakes_are_named(folder, pairs, command, said):
    write_pairs(folder / "single.jsonl", [replace(pair, captions=pair.captions[:1]) for pair in pairs])
    refuse(folder, f"sensitivity {command}", said)


def test_an_outside_metric_needs_a_name_of_its_own(folder):
    succeed(folder, "sensitivity --pairs pairs.jsonl --write captions.jsonl")
    lines = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
    (folder / "own.jsonl").write_text("".join(f'{{"id": "{line["id"]}", "score": 1}}\n' for line in lines))
    command = "sensitivity --pairs pairs.jsonl --without-spice --scores METEOR own.jsonl"
    refuse(folder, command, "--scores METEOR")
