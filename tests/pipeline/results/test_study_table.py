"""The tables of a study: its numbers by hand, its comparisons, and unfinished runs."""

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from pipeline.config import params
from pipeline.results import study_table
from pipeline.statistics import comparisons, pair_scores
from pipeline.study import study_file, study_runs
from tests import project_params
from tests.scored import line, write
from tests.study_lab import PAIRS, STAGES, STUDY, Fake, make_repository, planned, score_of, write_run

# what the row that multiplies by 0.1 is called
TENTH = f"λ = {project_params.settings().of('tabletop').loss['lambda_cv'] / 10:g}"


def make_study(root: Path, seeds=(1, 2, 4)):
    """The runs of a study, all of them made up, and its tables."""
    planned_rows = planned(root, seeds)
    for _, run in study_runs.distinct_runs(planned_rows):
        fake = Fake(root / "work")
        fake.do(run)
        study_runs.keep_scores(root, run, fake.folder)
    return planned_rows, tables(root, planned_rows)


def tables(root: Path, planned_rows, name="two", dataset="tabletop"):
    study = study_file.read(name, root / "studies")
    return study_table.tables(root, study, dataset, planned_rows, params.load(root / "params.yaml"))


def test_mean_and_deviation_by_hand(repository):
    _, tables_of_study = make_study(repository)
    values = [score_of("rr", seed) for seed in (1, 2, 4)]
    assert tables_of_study[0].rows[0][7] == f"{100 * mean(values):.1f} ± {100 * stdev(values):.1f}"
    table = tables_of_study[0]
    assert table.headings == [
        *(
            "",
            "seeds",
            "true/changed",
            "true/unchanged",
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
    planned_rows, tables_of_study = make_study(repository)
    table = tables_of_study[1]
    assert [row[0] for row in table.rows[::3]] == [
        "SCORER − RR",
        "SCORER again − SCORER",
        f"{TENTH} − SCORER again",
    ]
    assert [row[1] for row in table.rows[:3]] == ["true/changed", "CIDEr-D", "change accuracy"]
    # of ten changes rr describes 6, 6 and 7 correctly, with seeds 1, 2 and 4; scorer 10, 10 and 10
    truths = [
        [n < PAIRS * score_of(m, s) for n in range(0, PAIRS, 2)] for m in ("rr", "scorer") for s in (1, 2, 4)
    ]
    shares = [mean(run_truths) for run_truths in truths]
    assert table.rows[0][2] == f"+{100 * (mean(shares[3:]) - mean(shares[:3])):.1f}"
    alone = comparisons.compare(
        *(
            pair_scores.read([repository / run.folder / "pairs.jsonl" for run in row.runs])
            for row in (planned_rows[1], planned_rows[0])
        )
    )["true/changed"]
    assert table.rows[0][3] == f"{comparisons.signed(alone.low)} to {comparisons.signed(alone.high)}"
    assert table.rows[1] == ["SCORER − RR", "CIDEr-D", "+40.0", "+40.0 to +40.0", "p < 0.001", "yes"]
    same = ["SCORER again − SCORER", "CIDEr-D", "0.0", "0.0 to 0.0", "p = 1.000", "the same runs"]
    assert table.rows[4] == same
    assert "Holm's correction for 3 comparisons" in table.notes[1]


def test_unfinished_runs_are_left_out(repository):
    make_study(repository, (1,))
    planned_rows = planned(repository, (1, 2))
    assert tables(repository, planned_rows)[0].rows[0][:2] == ["RR", "1/2"]
    (repository / planned_rows[0].runs[0].folder / "pairs.jsonl").unlink()
    scores, differences = tables(repository, planned_rows)
    assert scores.rows[0][1:3] == ["0/2", "–"]
    assert not [row for row in differences.rows if "RR" in row[0]]


def test_a_subset_is_compared_on_its_pairs_alone(repository):
    text = STUDY.replace("rows:", "subsets: [change]\nrows:")
    (repository / "studies/two.yaml").write_text(text)
    planned_rows = planned(repository, (1,))
    pairs = [pair_of(n) for n in range(20)]
    write(repository / "data/pairs/tabletop.jsonl", pairs)
    for row, gain in zip(planned_rows, (0.0, 1.0, 1.0, 1.0), strict=True):
        folder = repository / "work" / row.runs[0].scores_folder
        write_run(folder, 0.5)
        # the gain is in the changed pairs, which are the even ones
        write(
            folder / "pairs.jsonl",
            [line(n) | {"CIDEr-D": gain * (n % 2 == 0), "true": gain > n % 2} for n in range(20)],
        )
        study_runs.keep_scores(repository, row.runs[0], repository / "work")
    scores, differences = tables(repository, planned_rows)
    assert [row[1] for row in differences.rows[:3]] == ["true", "CIDEr-D", "METEOR"]
    assert [row[2] for row in differences.rows[:2]] == ["+100.0", "+100.0"]
    assert scores.headings[2:4] == ["true", "BLEU-4"]
    assert "document frequencies of all test pairs" in differences.notes[-1]
    assert ", change pairs: " in scores.title


def pair_of(number: int) -> dict:
    kind = "color" if number % 2 == 0 else "none"
    fields = {
        "pair_id": f"{number}.png",
        "scene_id": str(number),
        "split": "test",
        "before": "a",
        "after": "b",
    }
    rest = ("before_box", "after_box", "viewpoint_iou", "changed_object")
    return fields | {"captions": ["x"], "change_type": kind} | dict.fromkeys(rest)


def test_differing_conditions_are_named_on_the_papers_dataset(repository):
    planned_rows = planned(repository, (1,))
    note = tables(repository, planned_rows, dataset="clevr_change")[0].notes[0]
    assert note.startswith(
        "The paper's figures differ from ours in: resize: opencv_bicubic, ours pil_bicubic"
    )


TABLE_6 = """
title: Retrieval
source: A paper, Table 6
datasets: [clevr_change]
rows:
  - {label: CLIP4IDC, model: clip4idc, published: CLIP4IDC}
  - {label: 2/3, model: clip4idc, set: {'dataset.{dataset}.models.clip.sizes.intra': 2}}
"""
PIXELS = {"outs": [{"path": "data/features/tabletop/pixels.zarr", "md5": "p1"}]}


def test_retrieval_has_tables_of_its_own(tmp_path):
    """Mean ± sd by hand, chance, and the figures of the paper's own row."""
    make_repository(tmp_path, {"six": TABLE_6})
    (tmp_path / "dvc.lock").write_text(json.dumps({"stages": STAGES | {"extract@tabletop-pixels": PIXELS}}))
    (tmp_path / PIXELS["outs"][0]["path"]).mkdir(parents=True)
    planned_rows = planned(tmp_path, (1, 2), "six")
    assert len({run.key for row in planned_rows for run in row.runs}) == 4
    for number, (_, run) in enumerate(study_runs.distinct_runs(planned_rows)):
        fake = Fake(tmp_path / f"work{number}")
        fake.do(run)
        with pytest.raises(FileNotFoundError, match=r"retrieval\.json"):
            study_runs.keep_scores(tmp_path, run, fake.folder)
        assert not study_runs.finished(tmp_path, run)
        figures = {"R@1": 0.1 * number, "R@5": 0.5, "R@10": 1.0, "MdR": 3.0, "MnR": 4.5}
        directions = dict.fromkeys(("text_to_pair", "text_to_pair_shared", "pair_to_text", "chance"), figures)
        retrieval_file = (
            fake.folder / "results/curves/tabletop/clip4idc/pretrain" / str(run.seed) / "retrieval.json"
        )
        retrieval_file.parent.mkdir(parents=True)
        retrieval_file.write_text(json.dumps({"pairs": 10} | directions))
        study_runs.keep_scores(tmp_path, run, fake.folder)
        assert study_runs.finished(tmp_path, run)
    captions, *_, by_sentence, shared, by_pair = tables(tmp_path, planned_rows, "six")
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
    _, tables_of_study = make_study(repository, (1,))
    lines = study_table.markdown(tables_of_study).splitlines()
    assert lines[0].startswith("**Two models (A paper, Table 1) on tabletop")
    assert lines[2].startswith("|  | seeds | true/changed | true/unchanged | BLEU-4 |")
    assert lines[4].startswith("| RR | 1/1 | 51.0 | 51.0 | 10.0 |")
    assert {line.count("|") for line in lines[2:8]} == {15}
