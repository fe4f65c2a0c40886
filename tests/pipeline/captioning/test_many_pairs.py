"""Many pairs: a line a pair, a fault is its pair's own, and a stopped run goes on behind what it wrote."""

import json
from dataclasses import replace

import pytest
from PIL import Image

from pipeline.captioning import many_pairs, pair_jobs
from pipeline.captioning.picture_captioner import Search
from pipeline.datasets.schema import read_pairs
from pipeline.io.errors import InputError
from pipeline.io.scratch_folders import alone
from tests.stage_commands import PAIRS

pytestmark = pytest.mark.slow

ROOT = "data/raw/tabletop"


@pytest.fixture
def table(lab):
    """A table of 20 pairs, the fourth without its picture; removed afterwards."""
    pairs = read_pairs(lab / PAIRS)
    names = [[pair.before, pair.after] for pair in pairs]
    names[3][1] = "gone.png"
    path = lab / ROOT / "pairs.csv"
    path.write_text("\n".join(["before,after", *map(",".join, names)]) + "\n")
    yield path
    path.unlink()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_caption_is_the_pairs_own_and_a_missing_picture_its_lines_error(here, table, tmp_path):
    jobs = pair_jobs.jobs(table)
    assert many_pairs.caption(here, jobs, tmp_path / "out.jsonl", Search()) == 1
    found = lines(tmp_path / "out.jsonl")
    assert [(line["before"], line["after"]) for line in found] == [(job.before, job.after) for job in jobs]
    assert "gone.png cannot be read" in found[3]["error"]
    for line in (found[0], found[4], found[-1]):
        root = table.parent
        assert line["caption"] == here(root / line["before"], root / line["after"])


def test_a_stopped_run_goes_on_and_writes_the_same(here, table, tmp_path):
    """Cut lines of every length are in test_cut_lines.py."""
    jobs, out, whole = pair_jobs.jobs(table), tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    many_pairs.caption(here, jobs, whole, Search())
    written = whole.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(written[:4]) + written[4][:17])
    assert many_pairs.caption(here, jobs, out, Search()) == 1
    assert out.read_bytes() == whole.read_bytes()


def test_of_two_runs_at_one_file_the_second_is_refused(here, table, tmp_path):
    """Both appended their lines, and every pair was there twice."""
    jobs, out = pair_jobs.jobs(table), tmp_path / "out.jsonl"
    out.write_bytes(b"")
    with alone(out), pytest.raises(InputError, match=r"still works on .*out\.jsonl"):
        many_pairs.caption(here, jobs, out, Search())
    assert out.read_bytes() == b""


def test_lines_of_another_run_are_refused_and_stay(here, table, tmp_path):
    jobs, out = pair_jobs.jobs(table), tmp_path / "out.jsonl"
    many_pairs.caption(here, jobs[:4], out, Search())
    before = out.read_bytes()
    other = replace(here, identity="0" * 12)
    for wrong in (
        lambda: many_pairs.caption(other, jobs, out, Search()),
        lambda: many_pairs.caption(here, jobs, out, Search(beam=2)),
        lambda: many_pairs.caption(here, jobs[1:], out, Search()),
        lambda: many_pairs.caption(here, jobs[:3], out, Search()),
    ):
        with pytest.raises(InputError, match=r"out\.jsonl, line \d.*; name another --out"):
            wrong()
    assert out.read_bytes() == before
    out.write_text("no line of ours\n")
    with pytest.raises(InputError, match="line 1 is no caption of a pair"):
        many_pairs.caption(here, jobs, out, Search())


def test_the_best_captions_of_each(here, table, tmp_path):
    jobs = pair_jobs.jobs(table)[:4]
    many_pairs.caption(here, jobs, tmp_path / "out.jsonl", Search(beam=3), top=3)
    found = lines(tmp_path / "out.jsonl")
    assert "error" in found[3]
    for line in found[:3]:
        scores = [each["log_probability"] for each in line["top"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        assert line["caption"] == line["top"][0]["caption"]


def test_pairs_whose_orientations_differ_are_counted_and_named(here, lab, tmp_path, capfd):
    picture = Image.open(lab / ROOT / read_pairs(lab / PAIRS)[0].before).convert("RGB")
    exif = Image.Exif()
    picture.save(tmp_path / "a.jpg")
    exif[0x0112] = 6
    picture.save(tmp_path / "b.jpg", exif=exif)
    rows = [{"pair_id": name, "before": "a.jpg", "after": f"{name}.jpg"} for name in "aab"]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert many_pairs.caption(here, pair_jobs.jobs(tmp_path), tmp_path / "out.jsonl", Search()) == 0
    said = capfd.readouterr().err
    assert "warning: 1 pair(s), one of them b: " in said
