"""Numbers of command lines: what is out of range is refused before anything is read."""

import argparse

import pytest

from stages.arguments import PORTS, SEEDS, whole
from tests.running import stage


@pytest.mark.parametrize(
    ("least", "most", "good", "bad"),
    [
        (1, None, ["1", "3000000"], ["0", "-1", "1.5", "", "x", "\N{SUPERSCRIPT TWO}", "9" * 5000]),
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
        "compare a.jsonl --against b.jsonl --seed -1",
        "compare a.jsonl --against b.jsonl --resamples 0",
        "demo --port 70000",
        "demo --port 0",
        "import_checkpoint a.pt --vocab v.json --out out --heads 0",
        "import_checkpoint a.pt --vocab v.json --out out --seed -1",
        "import_checkpoint a.pt --vocab v.json --out out --intra -1",
        "caption a.png b.png --weights w --beam 0",
    ],
)
def test_commands_refuse_them(tmp_path, command):
    done = stage(tmp_path, command)
    assert done.returncode == 2
    assert "is not a whole number from" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
