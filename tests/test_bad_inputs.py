"""docs/bad_inputs.md, "Bad inputs", lists the messages that tests of untrusted files expect."""

import pytest

from tests import bad_inputs


@pytest.fixture(scope="module")
def listed():
    return bad_inputs.listed_messages(bad_inputs.PAGE.read_text(encoding="utf-8"))


def test_the_page_lists_every_message_that_a_test_expects(listed):
    expected = bad_inputs.expected_messages()
    missing = {
        tried: said
        for tried, said in expected.items()
        if not any(bad_inputs.alike(message, said) for message in listed)
    }
    assert missing == {}, "add a row to docs/bad_inputs.md"


def test_the_page_lists_no_message_without_a_test(listed):
    expected = bad_inputs.expected_messages().values()
    stale = [message for message in listed if not any(bad_inputs.alike(message, said) for said in expected)]
    assert stale == [], "remove it from docs/bad_inputs.md, or add a test"


def test_all_are_refused_in_one_line():
    """Each of these tests calls `refused` (tests/hostile.py), which checks that the message has one line."""
    modules = sorted((bad_inputs.ROOT / "tests").rglob("test_hostile_*.py"))
    assert len(modules) > 3
    assert all("refused(lambda" in path.read_text(encoding="utf-8") for path in modules)
    assert len(bad_inputs.expected_messages()) > 100
