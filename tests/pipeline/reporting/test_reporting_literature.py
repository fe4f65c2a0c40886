"""Published rows beside ours: per subset, numbered sources, letters for the conditions that differ."""

import pytest

from pipeline.reporting import overview_table, paper_comparison
from tests.report_page import undrawn


@pytest.fixture(scope="module")
def found(study):
    (_, other), params = study
    rows = overview_table.of_models(overview_table.rows(overview_table.records([other]), "other"))
    return paper_comparison.literature(other, rows, params)


def test_each_subset_holds_what_papers_print_of_it(found):
    assert [(part["subset"], part["metrics"]) for part in found["parts"]] == [
        ("total", ["BLEU-4", "CIDEr-D"]),
        ("color", ["CIDEr-D"]),
    ]
    total, color = (part["theirs"] for part in found["parts"])
    assert [(line.method, line.source, line.printed("CIDEr-D")) for line in total] == [
        ("SCORER", 1, "126.0"),
        ("DUDA", 2, "112.3"),
    ]
    assert [line.printed("BLEU-4") for line in total] == ["55.8", "–"]
    assert [line.printed("CIDEr-D") for line in color] == ["143.2"]
    assert found["sources"] == ["One et al., 2023", "Two et al., 2024"]


def test_letters_stand_for_the_conditions_that_differ(found, study):
    _, params = study
    total, color = (part["theirs"] for part in found["parts"])
    said = {line.method: [found["marks"][letter] for letter in line.marks.split()] for line in total}
    assert f"iterations: 10000, ours {params.of('tabletop').train.iterations}" in said["SCORER"]
    assert "test pairs: 7970, ours 20" in said["SCORER"]
    assert not any("iterations: " in condition for condition in said["DUDA"])
    assert said["DUDA"][-1].startswith("not stated: ")
    assert "test pairs" not in " ".join(
        found["marks"][letter].split(":")[0] for letter in color[0].marks.split()
    )
    assert list(found["marks"]) == sorted(found["marks"])
    assert len(set(found["marks"].values())) == len(found["marks"])


def test_there_are_letters_for_any_number_of_conditions():
    assert [paper_comparison._letter(place) for place in (0, 25, 26, 52)] == ["a", "z", "aa", "aaa"]


def test_the_page_shows_them_where_there_are_any(study):
    results, params = study
    html = undrawn(results, params)
    assert html.count("Beside published figures") == 1
    assert html.index('id="other"') < html.index("Beside published figures")
    assert f"iterations: 10000, ours {params.of('tabletop').train.iterations}" in html
    assert "One et al., 2023" in html
