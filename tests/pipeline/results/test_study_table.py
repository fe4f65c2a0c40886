"""The table of a study: its numbers by hand, its comparisons, and what it says of what is missing."""

import json
import re
import shutil
from pathlib import Path
from statistics import mean, stdev

import pytest

from pipeline.config import params
from pipeline.io.errors import InputError
from pipeline.results import printing, study_table
from pipeline.statistics import comparisons, pair_scores
from pipeline.study import study_cells, study_file
from tests.scored import line, write
from tests.study_lab import PAIRS, ROOT, STAGES, STUDY, Fake, make_repository, planned, score_of, write_cell

# what the row that multiplies by 0.1 is called
TENTH = f"λ = {params.load(ROOT / 'params.yaml').dataset['tabletop'].loss['lambda_cv'] / 10:g}"


def made(root: Path, seeds=(1, 2, 4)):
    """A study all of whose cells are made up, and its record."""
    own = planned(root, seeds)
    for _, cell in study_cells.each(own):
        fake = Fake(root / "work")
        fake.run(cell)
        study_cells.keep(root, cell, fake.folder)
    return own, record(root, own)


def record(root: Path, own):
    study = study_file.read("two", root / "studies")
    return study_table.record(root, "two", study, "tabletop", own, params.load(root / "params.yaml"))


def test_mean_and_deviation_by_hand(repository):
    _, found = made(repository)
    for row in found["rows"]:
        values = [score_of(row["model"], seed) for seed in (1, 2, 4)]
        spread = row["scores"]["total"]["CIDEr-D"]
        assert spread["mean"] == pytest.approx(mean(values), abs=1e-6)
        assert spread["sd"] == pytest.approx(stdev(values), abs=1e-6)  # n - 1
        assert spread["runs"] == 3
        assert "SPICE" not in row["scores"]["total"]
    table = printing.tables(found)[0]
    assert table.headings == [
        *(
            "",
            "seeds",
            "true, changed",
            "true, unchanged",
            "BLEU-4",
            "METEOR",
            "ROUGE-L",
            "CIDEr-D",
            "change accuracy",
        ),
        *(f"paper {metric}" for metric in ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE")),
    ]
    assert table.rows[0] == [
        *(
            "RR",
            "3/3",
            "57.0 ± 7.9",
            "57.0 ± 7.9",
            "10.0 ± 0.0",
            "20.0 ± 0.0",
            "30.0 ± 0.0",
            "57.0 ± 7.9",
            "50.0 ± 0.0",
        ),
        *("55.1", "40.5", "73.6", "123.8", "32.5"),
    ]
    assert [row[0] for row in table.rows[1:]] == ["SCORER", "SCORER again", TENTH]
    assert table.rows[3][-1] == "–"
    assert "figures are of clevr_change, ours of tabletop" in table.notes[0]


def test_neighbours_are_compared_on_their_own_pairs(repository):
    own, found = made(repository)
    compared = {(one["a"], one["metric"]): one for one in found["comparisons"]}
    assert list(compared) == [
        (label, metric)
        for label in ("SCORER", "SCORER again", TENTH)
        for metric in ("true_changes", "CIDEr-D", "change_accuracy")
    ]
    # of ten changes rr tells 6, 6 and 7 truly, of seeds 1, 2 and 4; scorer 10, 10 and 10
    told = [
        [n < PAIRS * score_of(m, s) for n in range(0, PAIRS, 2)] for m in ("rr", "scorer") for s in (1, 2, 4)
    ]
    shares = [mean(own) for own in told]
    truth = compared["SCORER", "true_changes"]
    assert truth["difference"] == pytest.approx(mean(shares[3:]) - mean(shares[:3]), abs=1e-6)
    assert truth["difference"] > 0.3
    one = compared["SCORER", "CIDEr-D"]
    assert one["b"] == "RR"
    assert one["difference"] == pytest.approx(0.4)
    assert one["significant"]
    alone = comparisons.compare(
        *(
            pair_scores.read([repository / cell.folder / "pairs.jsonl" for cell in row.cells])
            for row in (own[1], own[0])
        )
    )["CIDEr-D"]
    assert (one["low"], one["high"]) == (alone.low, alone.high)
    assert one["p"] == pytest.approx(3 * alone.p, abs=1e-6)  # Holm: the least of three neighbours
    table = printing.tables(found)[1]
    assert table.rows[0][:2] == ["SCORER − RR", "true, changed"]
    assert table.rows[0][2].startswith("+3")
    assert table.rows[1] == ["SCORER − RR", "CIDEr-D", "+40.0", "+40.0 to +40.0", "p < 0.001", "yes"]
    same = ["SCORER again − SCORER", "CIDEr-D", "0.0", "0.0 to 0.0", "p = 1.000", "the same runs"]
    assert table.rows[4] == same
    assert "Holm's correction for 3 comparisons" in table.notes[1]


def test_a_record_is_the_same_bytes_again(repository):
    own, found = made(repository)
    assert json.dumps(record(repository, own), sort_keys=True) == json.dumps(found, sort_keys=True)
    cell = own[0].cells[0]
    write_cell(repository / "work" / cell.made, 0.1)
    study_cells.keep(repository, cell, repository / "work")
    assert json.dumps(record(repository, own), sort_keys=True) != json.dumps(found, sort_keys=True)


@pytest.mark.parametrize("copied", ["pairs.jsonl", "metrics.json", "*"])
def test_a_cell_that_is_a_copy_of_another_one_is_named(repository, copied):
    """As a whole, or in one of its files."""
    own, _ = made(repository, (1, 2))
    one, two = (repository / cell.folder for cell in own[0].cells)
    for path in one.glob(copied):
        shutil.copy(path, two)
    with pytest.raises(InputError, match=re.escape(f"{two} is not of RR, seed 2 as it was made")):
        record(repository, own)


def test_what_is_not_finished_is_left_open(repository):
    made(repository, (1,))
    own = planned(repository, (1, 2))
    found = record(repository, own)
    assert printing.tables(found)[0].rows[0][:2] == ["RR", "1/2"]
    assert found["rows"][0]["scores"]["total"]["CIDEr-D"]["sd"] is None
    (repository / own[0].cells[0].folder / "pairs.jsonl").unlink()
    found = record(repository, own)
    assert printing.tables(found)[0].rows[0][1:3] == ["0/2", "–"]
    assert "RR" not in [one["b"] for one in found["comparisons"]]


def test_a_subset_is_compared_on_its_pairs_alone(repository):
    text = STUDY.replace("rows:", "subsets: [change]\nrows:")
    (repository / "studies/two.yaml").write_text(text)
    own = planned(repository, (1,))
    pairs = [pair_of(n) for n in range(20)]
    write(repository / "data/pairs/tabletop.jsonl", pairs)
    for row, gain in zip(own, (0.0, 1.0, 1.0, 1.0), strict=True):
        folder = repository / "work" / row.cells[0].made
        write_cell(folder, 0.5)
        # the gain is in the changed pairs, which are the even ones
        write(
            folder / "pairs.jsonl",
            [line(n) | {"CIDEr-D": gain * (n % 2 == 0), "true": gain > n % 2} for n in range(20)],
        )
        study_cells.keep(repository, row.cells[0], repository / "work")
    found = record(repository, own)
    assert [one["metric"] for one in found["comparisons"][:3]] == ["true", "CIDEr-D", "METEOR"]
    assert [one["difference"] for one in found["comparisons"][:2]] == [1.0, 1.0]
    assert printing.tables(found)[0].headings[2:4] == ["true", "BLEU-4"]
    assert "document frequencies of all test pairs" in printing.tables(found)[1].notes[-1]
    assert ", change pairs: " in printing.tables(found)[0].title


def pair_of(number: int) -> dict:
    kind = "color" if number % 2 == 0 else "none"
    own = {"pair_id": f"{number}.png", "scene_id": str(number), "split": "test", "before": "a", "after": "b"}
    rest = ("before_box", "after_box", "viewpoint_iou", "changed_object")
    return own | {"captions": ["x"], "change_type": kind} | dict.fromkeys(rest)


def test_which_conditions_differ_is_said_of_the_papers_own_dataset(repository):
    _, found = made(repository, (1,))
    own = printing.tables(found | {"dataset": "clevr_change"})[0].notes[0]
    assert own.startswith("The paper's figures differ from ours in: resize: opencv_bicubic, ours pil_bicubic")
    found["published"]["differs"] = []
    assert printing.tables(found | {"dataset": "clevr_change"})[0].notes == []


TABLE_6 = """
title: Retrieval
source: A paper, Table 6
datasets: [clevr_change]
rows:
  - {label: CLIP4IDC, model: clip4idc, published: CLIP4IDC}
  - {label: 2/3, model: clip4idc, set: {'dataset.{dataset}.own.clip.sizes.intra': 2}}
"""
PIXELS = {"outs": [{"path": "data/features/tabletop/pixels.zarr", "md5": "p1"}]}


def test_the_retrieval_of_adapted_rows_stands_beneath(tmp_path):
    """Mean ± sd by hand, chance, and the figures of the paper's own row."""
    make_repository(tmp_path, {"six": TABLE_6})
    (tmp_path / "dvc.lock").write_text(json.dumps({"stages": STAGES | {"extract@tabletop-pixels": PIXELS}}))
    (tmp_path / PIXELS["outs"][0]["path"]).mkdir(parents=True)
    own = planned(tmp_path, (1, 2), "six")
    assert len({cell.key for each in own for cell in each.cells}) == 4
    for number, (_, cell) in enumerate(study_cells.each(own)):
        fake = Fake(tmp_path / f"work{number}")
        fake.run(cell)
        with pytest.raises(FileNotFoundError, match=r"retrieval\.json"):
            study_cells.keep(tmp_path, cell, fake.folder)
        assert not study_cells.finished(tmp_path, cell)
        figures = {"R@1": 0.1 * number, "R@5": 0.5, "R@10": 1.0, "MdR": 3.0, "MnR": 4.5}
        ways = dict.fromkeys(("text_to_pair", "text_to_pair_shared", "pair_to_text", "chance"), figures)
        made = fake.folder / "results/curves/tabletop/clip4idc/pretrain" / str(cell.seed) / "retrieval.json"
        made.parent.mkdir(parents=True)
        made.write_text(json.dumps({"pairs": 10, "examples": []} | ways))
        study_cells.keep(tmp_path, cell, fake.folder)
        assert study_cells.finished(tmp_path, cell)
    study = study_file.read("six", tmp_path / "studies")
    settings = params.load(tmp_path / "params.yaml")
    found = study_table.record(tmp_path, "six", study, "tabletop", own, settings)
    captions, *_, by_sentence, shared, by_pair = printing.tables(found)
    assert captions.rows[0][0] == "CLIP4IDC"
    figures = ["R@1", "R@5", "R@10", "MdR", "MnR"]
    assert by_sentence.headings == ["", "seeds", *figures, "paper R@1", "paper R@5", "paper R@10"]
    assert by_sentence.rows[0] == ["chance", "", "0.0", "50.0", "100.0", "3.0", "4.5", "–", "–", "–"]
    assert by_sentence.rows[1][:4] == ["CLIP4IDC", "2/2", "10.0 ± 14.1", "50.0 ± 0.0"]  # 0 and 0.2
    assert by_sentence.rows[1][-3:] == ["26.8", "58.7", "70.0"]
    assert by_sentence.rows[2][-1] == "–"
    assert by_pair.rows[1][-3:] == ["46.4", "83.0", "86.6"]
    assert shared.headings == ["", "seeds", *figures]
    assert "found by a sentence" in by_sentence.title


def test_markdown(repository):
    _, found = made(repository, (1,))
    lines = printing.markdown(found).splitlines()
    assert lines[0].startswith("**Two models (A paper, Table 1) on tabletop")
    assert lines[2].startswith("|  | seeds | true, changed | true, unchanged | BLEU-4 |")
    assert lines[4].startswith("| RR | 1/1 | 51.0 | 51.0 | 10.0 |")
    assert {line.count("|") for line in lines[2:8]} == {15}
