"""Published rows next to our rows: numbered sources, and letters for the conditions that differ."""

import pytest

from pipeline.reporting import paper_comparison
from tests.report_page import undrawn


@pytest.fixture(scope="module")
def found(study):
    (_, other), params = study
    return paper_comparison.literature(other, params)


def test_each_subset_has_our_rows_and_the_papers_rows(found):
    total, color = found["parts"].values()
    assert list(found["parts"]) == ["total", "color"]
    assert total.headings == ["model", "source", "differs in", "BLEU-4", "CIDEr-D"]
    assert color.headings[3:] == ["CIDEr-D"]
    assert [row[0] for row in total.rows] == ["subtraction", "scorer", "SCORER", "DUDA"]
    assert [[*row[:2], *row[3:]] for row in total.rows[2:]] == [
        ["SCORER", "1", "55.8", "126.0"],
        ["DUDA", "2", "–", "112.3"],
    ]
    assert total.kinds == dict.fromkeys(range(2), "ours")
    assert color.rows[2][3] == "143.2"
    assert found["sources"] == ["One et al., 2023", "Two et al., 2024"]


def test_letters_mark_the_conditions_that_differ(found, study):
    _, params = study
    total, color = found["parts"].values()
    said = {row[0]: [found["marks"][letter] for letter in row[2].split()] for row in total.rows[2:]}
    assert f"iterations: 10000, ours {params.of('tabletop').train.iterations}" in said["SCORER"]
    assert "test pairs: 7970, ours 20" in said["SCORER"]
    assert not any("iterations: " in condition for condition in said["DUDA"])
    assert said["DUDA"][-1].startswith("not stated: ")
    assert "test pairs" not in " ".join(
        found["marks"][each].split(":")[0] for each in color.rows[2][2].split()
    )
    assert list(found["marks"]) == sorted(found["marks"])
    assert len(set(found["marks"].values())) == len(found["marks"])


def test_the_page_shows_published_rows(study):
    results, params = study
    html = undrawn(results, params)
    assert html.count("Compared with published figures") == 1
    assert html.index('id="other"') < html.index("Compared with published figures")
    assert f"iterations: 10000, ours {params.of('tabletop').train.iterations}" in html
    assert "One et al., 2023" in html
