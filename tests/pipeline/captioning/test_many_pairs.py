"""Captions of many pairs: one line per pair, errors of single pairs, and resuming a stopped run."""

import json
from dataclasses import replace

import pytest
from PIL import Image

from pipeline.captioning import many_pairs, pair_jobs
from pipeline.captioning.pair_captioner import Search
from pipeline.datasets.schema import read_pairs
from pipeline.io.errors import InputError
from tests.stage_commands import PAIRS

pytestmark = pytest.mark.slow

ROOT = "data/raw/tabletop"


@pytest.fixture
def table(lab):
    """Table of 20 pairs; an image of the fourth pair is missing."""
    pairs = read_pairs(lab / PAIRS)
    names = [[pair.before, pair.after] for pair in pairs]
    names[3][1] = "gone.png"
    path = lab / ROOT / "pairs.csv"
    path.write_text("\n".join(["before,after", *map(",".join, names)]) + "\n")
    yield path
    path.unlink()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_pair_has_its_caption_or_an_error(here, table, tmp_path):
    jobs = pair_jobs.jobs(table)
    many_pairs.caption(here, jobs, tmp_path / "out.jsonl", Search())
    assert many_pairs.errors_in(tmp_path / "out.jsonl") == 1
    found = lines(tmp_path / "out.jsonl")
    assert [(line["before"], line["after"]) for line in found] == [(job.before, job.after) for job in jobs]
    assert "gone.png cannot be read" in found[3]["error"]
    for line in (found[0], found[4], found[-1]):
        root = table.parent
        assert line["caption"] == here(root / line["before"], root / line["after"])


def test_a_stopped_run_continues_with_the_same_bytes(here, table, tmp_path, monkeypatch):
    monkeypatch.setattr(many_pairs, "BATCH", 4)
    monkeypatch.setattr(many_pairs, "SHARD", 8)
    jobs, out, whole = pair_jobs.jobs(table), tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    many_pairs.caption(here, jobs, whole, Search())
    loaded = []

    def load(captioner, job, warnings):
        loaded.append(job)
        if len(loaded) > 10:
            raise KeyboardInterrupt
        return original(captioner, job, warnings)

    original = many_pairs._load
    with monkeypatch.context() as patch:
        patch.setattr(many_pairs, "_load", load)
        with pytest.raises(KeyboardInterrupt):
            many_pairs.caption(here, jobs, out, Search())
    assert not out.exists()
    assert len([*tmp_path.glob(".out.jsonl.*.scratch/*.jsonl")]) == 1
    assert many_pairs.caption(here, jobs, out, Search())
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "whole.jsonl"]


def test_a_part_captions_only_its_own_shards(here, table, tmp_path, monkeypatch):
    monkeypatch.setattr(many_pairs, "BATCH", 4)
    monkeypatch.setattr(many_pairs, "SHARD", 8)
    jobs, out = pair_jobs.jobs(table), tmp_path / "out.jsonl"
    assert not many_pairs.caption(here, jobs, out, Search(), part=(0, 2))
    assert {path.name for path in tmp_path.glob("*/*.jsonl")} == {"0.jsonl", "16.jsonl"}
    assert many_pairs.caption(here, jobs, out, Search(), part=(1, 2))
    assert [line["before"] for line in lines(out)] == [job.before for job in jobs]


def test_the_output_of_another_run_is_refused_and_not_changed(here, table, tmp_path):
    jobs, out = pair_jobs.jobs(table), tmp_path / "out.jsonl"
    many_pairs.caption(here, jobs[:4], out, Search())
    before = out.read_bytes()
    assert many_pairs.caption(here, jobs[:4], out, Search())  # it is complete
    other = replace(here, sha256="0" * 64)
    for wrong in (
        lambda: many_pairs.caption(other, jobs[:4], out, Search()),
        lambda: many_pairs.caption(here, jobs[:4], out, Search(beam=2)),
        lambda: many_pairs.caption(here, jobs[1:5], out, Search()),
        lambda: many_pairs.caption(here, jobs, out, Search()),
        lambda: many_pairs.caption(here, jobs[:3], out, Search()),
    ):
        with pytest.raises(InputError, match=r"out\.jsonl, line \d.*; name another --out"):
            wrong()
    assert out.read_bytes() == before


def test_the_best_captions_of_each_pair(here, table, tmp_path):
    jobs = pair_jobs.jobs(table)[:4]
    many_pairs.caption(here, jobs, tmp_path / "out.jsonl", Search(beam=3), top=3)
    found = lines(tmp_path / "out.jsonl")
    assert "error" in found[3]
    for line in found[:3]:
        scores = [each["log_probability"] for each in line["top"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        assert line["caption"] == line["top"][0]["caption"]


def test_a_warning_counts_the_pairs_with_two_orientations(here, lab, tmp_path, capfd):
    picture = Image.open(lab / ROOT / read_pairs(lab / PAIRS)[0].before).convert("RGB")
    exif = Image.Exif()
    picture.save(tmp_path / "a.jpg")
    exif[0x0112] = 6
    picture.save(tmp_path / "b.jpg", exif=exif)
    rows = [{"pair_id": name, "before": "a.jpg", "after": f"{name}.jpg"} for name in "aab"]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    many_pairs.caption(here, pair_jobs.jobs(tmp_path), tmp_path / "out.jsonl", Search())
    said = capfd.readouterr().err
    assert "warning: 1 pair(s), one of them b: " in said
