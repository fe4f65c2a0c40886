"""The commands caption and export: what they print, write and refuse."""

import json

import pytest
from PIL import Image

from tests.running import refuse, stage, succeed
from tests.small_lab import AFTER, BEFORE, make_lab

pytestmark = pytest.mark.slow

WEIGHTS = "--weights data/weights/tabletop/subtraction/1"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return make_lab(tmp_path_factory.mktemp("lab"), "subtraction")


def test_one_pair_printed_packed_and_drawn(lab, capsys):
    succeed(lab, f"caption {BEFORE} {AFTER} {WEIGHTS} --overlay drawn.png")
    said = capsys.readouterr().out.strip()
    succeed(lab, f"export {WEIGHTS} --out shared.zip")
    assert "shared.zip: 0." in capsys.readouterr().out
    succeed(lab, f"caption {BEFORE} {AFTER} --weights shared.zip --json --top 3")
    record = json.loads(capsys.readouterr().out)
    assert len(record["top"]) == 3
    assert record["caption"] == " ".join(record["words"]) == record["top"][0]["caption"]
    succeed(lab, f"caption {BEFORE} {AFTER} --weights shared.zip --json")
    assert json.loads(capsys.readouterr().out)["caption"] == said
    with Image.open(lab / "drawn.png") as drawn:
        assert drawn.height >= 100 * len(said.split())


def test_many_pairs_and_an_exit_code_for_errors(lab, capsys):
    (lab / "pairs.csv").write_text(f"before,after\n{BEFORE},{AFTER}\n{BEFORE},gone.png\n")
    done = stage(lab, f"caption --pairs pairs.csv --out out.jsonl {WEIGHTS}")
    assert done.returncode == 1
    assert "out.jsonl: 2 pairs, 1 of them with an error" in capsys.readouterr().out
    assert len((lab / "out.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (f"{BEFORE} {WEIGHTS}", "name a before and an after image"),
        (f"{BEFORE} {AFTER} {WEIGHTS} --top 3 --beam 2", "--top 3 needs a --beam of at least 3"),
        (f"{BEFORE} {AFTER} {WEIGHTS} --out x.jsonl", "--out is for --pairs"),
        (f"--pairs pairs.csv {WEIGHTS}", "--pairs needs --out"),
        (f"{BEFORE} {AFTER} --pairs pairs.csv {WEIGHTS}", "--pairs cannot be combined with two images"),
        (
            f"{BEFORE} {AFTER} --weights nowhere",
            "nowhere does not exist; name a folder of weights",
        ),
    ],
)
def test_refused_arguments(lab, arguments, said):
    refuse(lab, f"caption {arguments}", said)
