"""The page of bad inputs says what the tests try, and no more."""

from tests import bad_inputs


def test_the_page_is_made_of_the_tests():
    said = "docs/bad_inputs.md is not what the tests try; run `python -m tests.bad_inputs`"
    assert bad_inputs.PAGE.read_text(encoding="utf-8") == bad_inputs.page(), said


def test_there_are_many_and_all_are_refused_in_one_line():
    """By `refused` of tests/hostile.py, which every test of these files goes through."""
    modules = sorted((bad_inputs.ROOT / "tests").rglob("test_hostile_*.py"))
    assert len(modules) > 5
    assert all("refused(lambda" in path.read_text(encoding="utf-8") for path in modules)
    assert bad_inputs.page().count("\n| ") > 200
