"""One table for the terminal and Markdown; the report's page prints it in test_reporting_page_contents.py."""

from pipeline.reporting.tables import NONE, Table, number, show

TABLE = Table("A title", ["model", "true/unchanged"], [["rr", "51.8 ± 0.7\nof 2"], ["[b]x", "–"]], ["Note."])


def test_markdown_has_numbers_on_the_right_and_ends_its_last_line():
    assert TABLE.markdown.splitlines() == [
        "| model | true/unchanged |",
        "|---|---:|",
        "| rr | 51.8 ± 0.7 of 2 |",
        "| [b]x | – |",
    ]
    assert TABLE.markdown.endswith("|\n")
    assert Table("", ["a", "b", "c"], [], texts=2).markdown.splitlines()[1] == "|---|---|---:|"


def test_the_terminal_has_narrow_columns_and_no_markup(capsys):
    show([TABLE])
    said = capsys.readouterr().out
    assert "51.8±0.7" in said
    assert "[b]x" in said
    assert said.splitlines()[-1] == "Note."
    assert max(map(len, said.splitlines())) <= 20


def test_a_number_is_a_percentage_with_one_decimal_or_unknown():
    assert [number(0.1234), number(0.1234, 1), number(None)] == ["12.3", "0.1", NONE]
