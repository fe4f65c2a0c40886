"""Extraction and captions in parts: the bytes of one process."""

import json

import pytest

from pipeline.captioning import many_pairs
from tests.folders import contents
from tests.running import ROOT, stage, succeed
from tests.small_lab import make_lab
from tests.stage_commands import EXTRACT, PREPARE, STORE

pytestmark = pytest.mark.slow
WEIGHTS = "--weights data/weights/tabletop/subtraction/1"
NAMES = [
    [
        f"data/raw/tabletop/images/CLEVR_default_{n:06}.png",
        f"data/raw/tabletop/sc_images/CLEVR_semantic_{n:06}.png",
    ]
    for n in (1, 2, 3, 4, 5)
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = make_lab(tmp_path_factory.mktemp("parts"), "subtraction")
    (folder / "pairs.csv").write_text("\n".join(["before,after", *map(",".join, NAMES), ""]))
    return folder


def test_captions_of_two_parts_are_joined_in_order(lab, monkeypatch):
    monkeypatch.setattr(many_pairs, "BATCH", 2)
    monkeypatch.setattr(many_pairs, "SHARD", 2)
    succeed(lab, f"caption --pairs pairs.csv --out one.jsonl {WEIGHTS}")
    command = f"caption --pairs pairs.csv --out parts.jsonl {WEIGHTS} --part"
    succeed(lab, f"{command} 1/2")
    assert not (lab / "parts.jsonl").exists()
    succeed(lab, f"{command} 0/2")
    assert (lab / "parts.jsonl").read_bytes() == (lab / "one.jsonl").read_bytes()
    said = [json.loads(line) for line in (lab / "parts.jsonl").read_text().splitlines()]
    assert [each["pair_id"] for each in said] == ["+".join(names) for names in NAMES]
    assert "2/2 is not I/N" in stage(lab, f"{command} 2/2").stderr


def test_the_parts_of_a_command_are_jobs(lab):
    for name in ("pipeline", "stages", "commands", "models"):
        (lab / name).symlink_to(ROOT / name)
    succeed(lab, f"caption --pairs pairs.csv --out alone.jsonl {WEIGHTS}")
    given = f"caption --pairs pairs.csv --out jobs.jsonl {WEIGHTS}"
    succeed(lab, f"parts --parts 2 {given}")
    assert (lab / "jobs.jsonl").read_bytes() == (lab / "alone.jsonl").read_bytes()
    assert not list((lab / ".scratch/parts").iterdir())


def test_a_store_of_two_parts_is_the_one_of_one_process(raw):
    succeed(raw, PREPARE)
    succeed(raw, EXTRACT.replace(STORE, "whole.zarr"))
    command = EXTRACT.replace(STORE, "parts.zarr")
    succeed(raw, f"{command} --part 1/2")
    succeed(raw, f"{command} --part 0/2")
    assert contents(raw / "parts.zarr") == contents(raw / "whole.zarr")
    assert json.loads((raw / "extract.json").read_text())["images"] == 30
