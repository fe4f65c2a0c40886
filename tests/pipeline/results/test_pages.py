"""Pages of results: blocks are filled, sentences stay, and the committed pages are those of the records."""

from pathlib import Path

import pytest

from commands import results
from pipeline.config import params, resolving
from pipeline.config.params import Params
from pipeline.io.errors import InputError
from pipeline.reporting.tables import Table
from pipeline.results import own_records, pages, record_comparisons, records, results_figures
from pipeline.study.study_cells import Cell
from tests import project_params
from tests.recorded import write
from tests.running import refuse, succeed

# the committed records' images, where a run left other settings in params.yaml
RENDERED = {"tabletop__scenes": 3000, "tabletop__width": 320, "tabletop__height": 214}
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
    assert pages.blocks(page) == ["a", "b"]


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
        found = record_comparisons.read(root, "tabletop")
        figures = results_figures.write(tmp_path / "out", [found], settings)
        drawn = [path.read_bytes() for path in sorted((tmp_path / "out").iterdir())]
        return results.tables({"tabletop": found}, settings)["scores tabletop"], figures, drawn

    (table, figures, drawn), again = made(), made()
    assert (table, figures, drawn) == again
    write(root, "rr", 2, 30)
    other, same, redrawn = made()
    assert (other != table, same) == (True, figures)
    assert all(one != two for one, two in zip(drawn, redrawn, strict=True))


def test_without_a_record_the_tables_say_so_and_figures_are_removed(root, monkeypatch):
    project_params.write(root)
    monkeypatch.chdir(root)
    (root / "docs").mkdir()
    for name in results.PAGES:
        (root / "docs" / name).write_text("By hand.\n<!-- table: scores tabletop -->\n<!-- end -->\n")
    results.write(root / "docs")
    drawn = {f"results-{name}.svg" for name in ("seeds", "viewpoint", "judges", "false-words")}
    assert {path.name for path in (root / "docs").glob("results*")} == {*results.PAGES, *drawn}
    assert "| subtraction | 3 |" in (root / "docs/results.md").read_text()
    for path in (root / "results/records/tabletop").iterdir():
        path.unlink()
    results.write(root / "docs")
    assert {path.name for path in (root / "docs").glob("results*")} == {*results.PAGES}
    text = (root / "docs/results.md").read_text()
    assert text == f"By hand.\n<!-- table: scores tabletop -->\n{pages.NO_RECORD}<!-- end -->\n"


def test_a_record_of_other_settings_is_on_no_page(tmp_path, capsys):
    write(tmp_path, "rr", 1, 4, changes={"model.rr.dropout": 0.2})
    write(tmp_path, "rr", 1, 5)
    project_params.write(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in results.PAGES:
        (tmp_path / "docs" / name).write_text("")
    tree = project_params.tree()
    for changes, dropout in (({}, None), ({"model.rr.dropout": 0.2}, 0.2)):
        tree["model"]["rr"]["dropout"] = dropout or tree["model"]["rr"]["dropout"]
        file = tmp_path / "results/records/tabletop" / records.name("rr", changes, 1)
        recipe = resolving.resolve(Params.model_validate(tree), "tabletop", "rr")
        own = records.settings(Cell("", "tabletop", "rr", 1, tree, recipe, ""))
        file.write_text(file.read_text().replace('"settings": ""', f'"settings": "{own}"'))
    succeed(tmp_path, "results")
    assert "no page has cameras, " in capsys.readouterr().out
    project_params.write(tmp_path, decode__beam=3)
    (tmp_path / "docs/results-seeds.svg").unlink()
    said = refuse(tmp_path, "results", "params.yaml has other settings than 2 of the 2 records")
    assert "results/records/tabletop, the first rr-1.json" in said
    assert not (tmp_path / "docs/results-seeds.svg").exists()


def test_the_committed_pages_are_those_of_the_committed_records(tmp_path, monkeypatch):
    docs = project_params.FILE.parent / "docs"
    monkeypatch.chdir(docs.parent)
    for dataset in params.load().tabletop.viewpoint:  # else the command refuses them
        first = [group.records[0] for group in record_comparisons.read(Path(), dataset)]
        own_records.check(Path(), project_params.tree(**RENDERED), dataset, first)
    results.write(tmp_path)
    made = [*tmp_path.glob("results*")]
    assert {path.name for path in made} == {path.name for path in docs.glob("results*")}
    for path in made:
        assert (docs / path.name).read_bytes() == path.read_bytes(), path.name
    assert (docs / results.PAGES[0]).read_text().count("\n") <= 200
    known = results.tables(dict.fromkeys(params.load().tabletop.viewpoint, ()), params.load())
    shown = [name for page in results.PAGES for name in pages.blocks(docs / page)]
    assert sorted(shown) == sorted(known), "each table is on one page, once"


def test_the_page_of_own_records_has_the_tables_with_rows():
    text = pages.own_page(TABLES.values(), ["![x](x.svg)"])
    assert "## A\n\n| model | x |" in text
    assert "![x](x.svg)\n" in text
    assert "## B" not in text
