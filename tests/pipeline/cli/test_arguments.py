"""Numbers of command lines that are out of range, and outputs that are inputs: refused before all else."""

import argparse
from unittest.mock import patch

import pytest

from pipeline.cli.arguments import PORTS, SEEDS, check_apart, whole
from pipeline.io.errors import InputError
from tests.running import ROOT, script, stage


@pytest.mark.parametrize(
    ("least", "most", "good", "bad"),
    [
        (
            1,
            3000000,
            ["1", "3000000"],
            ["3000001", "0", "-1", "1.5", "", "x", "\N{SUPERSCRIPT TWO}", "9" * 5000],
        ),
        (*SEEDS, ["0", "2147483647"], ["-1", "2147483648"]),
        (*PORTS, ["1", "65535"], ["0", "65536", "-1"]),
    ],
)
def test_whole_numbers(least, most, good, bad):
    assert [whole(least, most)(text) for text in good] == list(map(int, good))
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=f"is not a whole number from {least} "):
            whole(least, most)(text)


@pytest.mark.parametrize(
    "command",
    [
        "demo --port 0",
        "caption a.png b.png --weights w --beam 0",
    ],
)
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
    ],
)
def test_an_output_that_is_read_or_written_twice_is_refused(tmp_path, command):
    """`--overlay before.png` drew over the picture."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_text("mine")
    (tmp_path / "b").write_text("mine, too")
    (tmp_path / "link").symlink_to("b")
    done = stage(tmp_path, command)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is named twice and would be overwritten" in done.stderr
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["mine", "mine, too"]
    assert not (tmp_path / "c").exists()


def test_an_output_may_replace_a_link_to_what_is_read(tmp_path):
    """DVC links outputs into its cache: the link is replaced, not the file."""
    (tmp_path / "a").write_text("mine")
    (tmp_path / "link").symlink_to("a")
    check_apart([tmp_path / "link", None], [tmp_path / "a", None])


HUGE = ("9" * 19, "9" * 400, "3000000000", "1e300", "inf", "nan", "-1", "-1.5", "0/3000000000")
COMMANDS = sorted(path.stem for folder in ("stages", "commands") for path in (ROOT / folder).glob("[!_]*.py"))


class ParsedError(Exception):
    """A command has made its parser, and would now begin."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_number_of_a_command_line_has_bounds(name):
    found = []

    def parse(parser, args=None, namespace=None):
        found.append(parser)
        raise ParsedError

    module = script(name)
    # docstrings are gone where PYTHONOPTIMIZE is 2
    with (
        patch.object(argparse.ArgumentParser, "parse_args", parse),
        patch.object(module, "__doc__", None),
        pytest.raises(ParsedError),
    ):
        module.main()
    taken = [
        (action.dest, text) for action in found[0]._actions for text in HUGE if _is_number(action.type, text)
    ]
    assert taken == []


def _is_number(kind, text: str) -> bool:
    try:
        return isinstance(kind(text), (int, float, tuple)) if kind else False
    except (ValueError, TypeError, argparse.ArgumentTypeError, InputError):
        return False
