"""The report of models that read pixels: retrieval, and the attention of their image encoders."""

import base64
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from pipeline.io.errors import InputError
from pipeline.reporting import curves, dataset_results, retrieval_results
from pipeline.reporting.paper_results import PublishedRetrieval
from tests.report_lab import PATCHES, make_study
from tests.report_page import DATA, Reader, undrawn

PAPER = PublishedRetrieval(
    method="CLIP4IDC",
    source="a",
    model="clip4idc",
    text_to_pair={"R@1": 26.8, "R@20": 70.0},
    pair_to_text={"R@1": 46.4},
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    root = tmp_path_factory.mktemp("lab")
    params = make_study(root, models=("scorer", "clip4idc", "clip4idc_again"))
    return root, params


@pytest.fixture(scope="module")
def study(lab):
    root, params = lab
    (results,) = dataset_results.read(root, params)
    split = PAPER.model_copy(update={"method": "CLIP4IDC 6/6", "ablation": True})
    return replace(results, published_retrieval=[PAPER, split]), params


@pytest.fixture(scope="module")
def html(study):
    results, params = study
    return undrawn([results], params)


def test_the_retrieval_phase_has_its_loss_and_validation(study, html):
    results, _ = study
    assert results.searched == 10, "of 20 validation pairs; in the others nothing changed"
    loss, found = curves.adaptation(results)
    assert loss.description.startswith(
        "Training loss, retrieval over iterations. clip4idc, seed 1: minimum 7.25, last"
    )
    assert "scorer" not in loss.description
    assert found.title == "Validation, R@1: a sentence’s own pair found first of 10"
    assert found.description.endswith("clip4idc_again, seed 2: maximum 0.50, last 0.50. Chance: 0.1.")
    assert f"<figcaption>{found.title}</figcaption>" in html


def test_a_missing_curve_of_the_retrieval_phase_is_named(tmp_path):
    params = make_study(tmp_path, models=("scorer", "clip4idc"))
    (tmp_path / "results/curves/tabletop/clip4idc/pretrain/2/loss.csv").unlink()
    with pytest.raises(InputError, match=r"curves/tabletop/clip4idc/pretrain/2/loss\.csv is missing; run"):
        dataset_results.read(tmp_path, params)


def test_retrieval_scores_have_chance_and_the_papers_scores(html):
    tables = [
        table for table in Reader(html).tables if table[0][:2] == ["model", "seed"] and "MdR" in table[0]
    ]
    rows = [[[" ".join(cell.split()) for cell in row] for row in table] for table in tables]
    assert len(rows) == 3
    assert rows[0][0] == ["model", "seed", "R@1", "R@5", "R@10", "MdR", "MnR", "R@20"]
    assert rows[0][1] == ["chance", "", "10.0", "50.0", "100.0", "5.5", "5.5", "–"]
    assert rows[0][2][:4] == ["clip4idc", "mean of 2", "61.5 ± 0.7", "80.0 ± 0.0"]
    assert rows[0][4] == ["CLIP4IDC published", "", "26.8", "–", "–", "–", "–", "70.0"]
    assert len(rows[0]) == 5
    assert [row[0] for row in rows[1]] == ["model", "chance", "clip4idc", "clip4idc_again"]
    assert rows[2][4][2] == "46.4"


def test_blocks_of_the_encoder_are_chosen_like_words(html):
    read = Reader(html)
    named = re.findall(r'data-model="clip4idc" data-place="\d">(block \d)</button>', html)
    assert named[:2] == ["block 3", "block 5"]
    assert len(named) == 2 * 20
    assert not re.search(r'data-model="scorer" data-place="\d">block', html)
    assert "4 × 4 or 2 × 3 cells per image" in " ".join("".join(read.text).split())
    maps = json.loads(DATA.search(html)[0].split(">", 1)[1].rsplit("<", 1)[0])
    assert "blocks" not in maps["scorer"]
    assert maps["clip4idc"]["grid"] == list(PATCHES)
    coded = np.frombuffer(base64.b64decode(maps["clip4idc"]["blocks"]), np.uint8).reshape(2, 2, *PATCHES)
    assert [tuple(np.argwhere(each == 255)[0]) for each in coded.reshape(4, *PATCHES)] == [
        (0, 1), (1, 2), (1, 2), (0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), [("{}", "the key pairs is missing"), (None, "is missing; run")])
def test_a_damaged_file_is_named(lab, tmp_path, text, said):
    root, _ = lab
    own = tmp_path / "tabletop/clip4idc/pretrain/1"
    shutil.copytree(root / "results/curves/tabletop/clip4idc/pretrain/1", own)
    (own / "retrieval.json").unlink()
    if text:
        (own / "retrieval.json").write_text(text)
    with pytest.raises(InputError, match=f"retrieval.json:? {said}"):
        retrieval_results.read(own, root / "data/pairs/tabletop.jsonl")
