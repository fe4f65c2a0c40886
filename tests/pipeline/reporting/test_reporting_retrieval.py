"""The page of models of pixels beside one of features: retrieval, and where their image encoders look."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from pipeline.io.errors import InputError
from pipeline.reporting import curves, dataset_results, retrieval_results
from pipeline.reporting.paper_results import PublishedRetrieval
from tests.report_lab import PATCHES, make_study
from tests.report_page import DATA, Reader, alone, undrawn

PAPER = PublishedRetrieval(
    "CLIP4IDC", "a paper", "clip4idc", {"R@1": 0.268, "R@20": 0.7}, {"R@1": 0.464}, False
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
    split = replace(PAPER, method="CLIP4IDC 6/6", ablation=True)
    return replace(results, published_retrieval=[PAPER, split]), params


@pytest.fixture(scope="module")
def html(study):
    results, params = study
    return undrawn([results], params)


def test_the_adaptation_has_its_loss_and_what_it_finds_beside_chance(study, html):
    results, params = study
    assert results.searched == 10, "of 20 validation pairs; in the others nothing changed"
    loss, found = curves.adaptation(results)
    assert loss.told.startswith(
        "Training loss, retrieval over iterations. clip4idc, seed 1: minimum 7.25, last"
    )
    assert "scorer" not in loss.told
    assert found.title == "Validation, R@1: a sentence’s own pair found first of 10"
    assert found.told.endswith("clip4idc_again, seed 2: maximum 0.50, last 0.50. Chance: 0.1.")
    heading = "<h3>Learning curves of the adaptation</h3>"
    assert heading in html
    unadapted = replace(results, cells=[alone(cell) for cell in results.cells])
    assert heading not in undrawn([unadapted], params)


def test_an_adaptation_s_missing_curve_is_named(tmp_path):
    params = make_study(tmp_path, models=("scorer", "clip4idc"))
    (tmp_path / "results/curves/tabletop/clip4idc/pretrain/2/loss.csv").unlink()
    with pytest.raises(InputError, match=r"curves/tabletop/clip4idc/pretrain/2/loss\.csv is missing; run"):
        dataset_results.read(tmp_path, params)


def test_figures_stand_beside_chance_and_the_papers(html):
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


def test_models_are_compared_by_a_bootstrap(html):
    text = " ".join("".join(Reader(html).text).split())
    # the shares of a pair's sentences that find it first: 0.7 and 0.8 with both seeds
    assert "clip4idc_again is better than clip4idc by 10.0 R@1 by a sentence" in text
    assert "clip4idc_again − clip4idc: 0.0 R@1 by a pair, not significant" in text


def test_examples_show_the_pairs_that_a_sentence_finds(html, study):
    results, _ = study
    (example,) = results.retrieval["clip4idc"][1].figures.examples
    assert html.count('<figure class="search">') == 1
    assert "“it &lt;moved&gt;”" in html
    assert [f": {name}</small>" in html for name in example.found] == [True] * 3
    assert html.count("✓ its own pair") == 1


def test_blocks_of_the_encoder_are_chosen_like_words(html):
    read = Reader(html)
    named = re.findall(r'data-model="clip4idc" data-place="\d">(block \d)</button>', html)
    assert named[:2] == ["block 3", "block 5"]
    assert len(named) == 2 * 20
    assert not re.search(r'data-model="scorer" data-place="\d">block', html)
    assert "4 × 4 or 2 × 3 cells over either picture" in " ".join("".join(read.text).split())
    maps = json.loads(DATA.search(html)[0].split(">", 1)[1].rsplit("<", 1)[0])
    assert "blocks" not in maps["scorer"]
    assert maps["clip4idc"]["grid"] == list(PATCHES)
    coded = np.frombuffer(base64.b64decode(maps["clip4idc"]["blocks"]), np.uint8).reshape(2, 2, *PATCHES)
    assert [tuple(np.argwhere(each == 255)[0]) for each in coded.reshape(4, *PATCHES)] == [
        (0, 1), (1, 2), (1, 2), (0, 1),
    ]  # fmt: skip


def test_without_adapted_models_there_is_no_retrieval(tmp_path):
    params = make_study(tmp_path)
    found = undrawn(dataset_results.read(tmp_path, params), params)
    assert "Retrieval after" not in found
    assert "image encoder" not in re.sub(r"(?s)<script>.*?</script>", "", found)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("retrieval.json", "{}", "retrieval.json: the key pairs is missing"),
        ("retrieved.jsonl", "", "retrieved.jsonl lacks the ranks of a pair"),
        (
            "retrieved.jsonl",
            '{"pair_id": "a", "text_to_pair": []}\n',
            "line 1: the key pair_to_text is missing",
        ),
        ("retrieval.json", None, "retrieval.json is missing; run `dvc repro pretrain`"),
    ],
)
def test_files_that_are_wrong_are_named(lab, tmp_path, name, text, said):
    root, _ = lab
    own = root / "results/curves/tabletop/clip4idc/pretrain/1"
    for each in ("retrieval.json", "retrieved.jsonl"):
        (tmp_path / each).write_bytes((own / each).read_bytes())
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=re.escape(said)):
        retrieval_results.read(tmp_path)


def test_a_pair_of_another_test_split_is_named(study):
    results, params = study
    with pytest.raises(InputError, match=r"retrieval\.json names .*, which is no test pair"):
        undrawn(
            [replace(results, test=[pair for pair in results.test if not pair.changed], gallery={})], params
        )
