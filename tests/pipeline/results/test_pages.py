"""Pages of results: blocks are filled, sentences stay, and the committed pages fit the committed records."""

from pathlib import Path

import pytest

from commands import results
from pipeline.io.errors import InputError
from pipeline.reporting.tables import Table
from pipeline.results import own_records, pages, record_tables, records, results_figures
from tests import project_params, shipped
from tests.recorded import write
from tests.running import refuse, succeed

TABLES = {"a": Table("A", ["model", "x"], [["rr", "1.0"]]), "b": Table("B", ["model", "x"], [])}
PAGE = """# Title

By hand.
<!-- table: a -->
<!-- end -->
<!-- table: b -->
old
<!-- end -->
More.
"""


@pytest.fixture
def page(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path / "page.md"


def test_blocks_are_filled_and_the_rest_stays(page):
    text = pages.filled(page, TABLES)
    table = "<!-- table: a -->\n| model | x |\n|---|---:|\n| rr | 1.0 |\n<!-- end -->\n"
    assert text == (f"# Title\n\nBy hand.\n{table}<!-- table: b -->\n{pages.NO_RECORD}<!-- end -->\nMore.\n")
    page.write_text(text)
    assert pages.filled(page, TABLES) == text
    assert pages.blocks(text) == ["a", "b"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("old\n<!-- end -->", "old", "'b' has no end"),
        ("<!-- end -->\n<!-- table: b", "<!-- table: b", "'a' has no end"),
        ("table: b", "table: c", "no table 'c'; there are a, b"),
    ],
)
def test_a_wrong_block_is_named(page, old, new, said):
    page.write_text(PAGE.replace(old, new, 1))
    with pytest.raises(InputError, match=rf"page\.md: .*{said}"):
        pages.filled(page, TABLES)


def test_other_records_make_other_tables_and_other_figures(root, tmp_path):
    settings = project_params.settings()

    def made():
        found = record_tables.read(root, "tabletop")
        figures = results_figures.write(tmp_path / "out", [found], settings)
        drawn = [path.read_bytes() for path in sorted((tmp_path / "out").iterdir())]
        return results.tables({"tabletop": found}, settings)["scores tabletop"], figures, drawn

    (table, figures, drawn), again = made(), made()
    assert (table, figures, drawn) == again
    write(root, "rr", 2, 30)
    other, same, redrawn = made()
    assert (other != table, same) == (True, figures)
    assert all(one != two for one, two in zip(drawn, redrawn, strict=True))


def test_a_record_of_other_settings_is_on_no_page(tmp_path, capsys):
    changes = {"model.rr.dropout": 0.2}
    project_params.write(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in results.PAGES:
        (tmp_path / "docs" / name).write_text("")
    for row_changes in ({}, changes):
        write(tmp_path, "rr", 1, 4, changes=row_changes)
        file = tmp_path / "results/records/tabletop" / records.name("rr", row_changes, 1)
        settings = own_records.current_settings(project_params.tree(), records.read(file))
        file.write_text(file.read_text().replace('"settings": ""', f'"settings": "{settings}"'))
    succeed(tmp_path, "results")
    assert "no page has cameras, " in capsys.readouterr().out
    assert (tmp_path / "docs/results-seeds.svg").exists()
    project_params.write(tmp_path, decode__beam=3)
    message = refuse(tmp_path, "results", "params.yaml has other settings than 2 of the records")
    assert "results/records/tabletop, the first rr-1.json" in message


@pytest.mark.skipif(not shipped.in_git(), reason="there is no commit to read pages from")
def test_the_committed_pages_fit_the_committed_records(tmp_path, monkeypatch):
    shipped.copy(tmp_path, "docs", "results/records")
    project_params.copy(tmp_path)
    monkeypatch.chdir(tmp_path)
    docs, settings = tmp_path / "docs", project_params.settings()
    for dataset in settings.tabletop.viewpoint:  # else the command refuses them
        first = [group.runs["record"].iloc[0] for group in record_tables.read(Path(), dataset).groups]
        own_records.check(Path(), project_params.tree(), dataset, first)
    results.write(tmp_path / "written")
    written = [*(tmp_path / "written").glob("results*")]
    assert {path.name for path in written} == {path.name for path in docs.glob("results*")}
    for path in written:
        assert (docs / path.name).read_bytes() == path.read_bytes(), path.name
    assert (docs / results.PAGES[0]).read_text().count("\n") <= 200
    none = {name: record_tables.of_records(name, {}, {}) for name in settings.tabletop.viewpoint}
    named_tables = results.tables(none, settings)
    on_pages = [name for page in results.PAGES for name in pages.blocks((docs / page).read_text())]
    assert sorted(on_pages) == sorted(named_tables), "each table is on one page, once"
