"""Numbers out of range, and outputs that are also inputs, are refused before a command begins."""

import argparse

import pytest

from pipeline.cli.arguments import PORTS, SEEDS, check_apart, whole
from pipeline.io.errors import InputError
from tests.command_options import COMMANDS, options
from tests.running import stage


@pytest.mark.parametrize(
    ("least", "most", "text", "right"),
    [
        *((1, 3000000, text, True) for text in ("1", "3000000")),
        *((1, 3000000, text, False) for text in ("3000001", "0", "-1", "1.5", "", "x", "²", "9" * 5000)),
        (*SEEDS, "2147483647", True),
        (*SEEDS, "2147483648", False),
        (*PORTS, "65535", True),
        (*PORTS, "0", False),
    ],
)
def test_whole_numbers(least, most, text, right):
    if right:
        assert whole(least, most)(text) == int(text)
    else:
        with pytest.raises(argparse.ArgumentTypeError, match=f"is not a whole number from {least} "):
            whole(least, most)(text)


@pytest.mark.parametrize("command", ["demo --port 0", "caption a.png b.png --weights w --beam 0"])
def test_commands_refuse_them(tmp_path, command):
    done = stage(tmp_path, command)
    assert done.returncode == 2
    assert "is not a whole number from" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "caption a b --weights w --overlay a",
        "caption a link --weights w --overlay b",
        "caption a b --weights w --overlay folder/../b",
        "caption --pairs a --weights w --out a",
        "score --captions a --references b --out a",
        "score --captions a --references b --out c --summary c",
        "score --captions a --references b --out c --per-pair b",
        "sensitivity --pairs a --out b --figure b",
        "sensitivity --pairs b --out c --write c --figure a",
        "sensitivity --pairs a --write a",
    ],
)
def test_an_output_that_is_read_or_written_twice_is_refused(tmp_path, command):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_text("mine")
    (tmp_path / "b").write_text("mine, too")
    (tmp_path / "link").symlink_to("b")
    done = stage(tmp_path, command)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is named twice and would be overwritten" in done.stderr
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["mine", "mine, too"]
    assert not (tmp_path / "c").exists()


def test_a_wrong_argument_is_one_line(tmp_path):
    done = stage(tmp_path, "caption --weights w a.png b.png --at-least 1.5")
    assert done.returncode == 2
    assert "--at-least" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_output_may_replace_a_link_to_what_is_read(tmp_path):
    """DVC links outputs into its cache: the link is replaced, not the file."""
    (tmp_path / "a").write_text("mine")
    (tmp_path / "link").symlink_to("a")
    check_apart([tmp_path / "link"], [tmp_path / "a"])


# numbers that no option may accept
HUGE = ("9" * 19, "9" * 400, "3000000000", "1e300", "inf", "nan", "-1", "-1.5", "0/3000000000")


def is_number(kind, text):
    try:
        return isinstance(kind(text), (int, float, tuple)) if kind else False
    except (ValueError, TypeError, argparse.ArgumentTypeError, InputError):
        return False


@pytest.mark.parametrize("name", COMMANDS)
def test_every_number_of_a_command_line_has_bounds(name):
    accepted = [
        (action.dest, text)
        for action in options(name).values()
        for text in HUGE
        if is_number(action.type, text)
    ]
    assert accepted == []
