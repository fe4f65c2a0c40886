"""Captions of many pairs: one line per pair, errors of single pairs, and resuming a stopped run.

An output names the files that it was made of, and is not resumed from other files, weights or settings.
"""

import copy
import hashlib
import json
import shutil
from dataclasses import replace

import pytest
from PIL import Image

from pipeline.captioning import many_pairs, pair_jobs
from pipeline.captioning.pair_captioner import Search
from pipeline.datasets.schema import read_pairs
from pipeline.io.errors import InputError
from pipeline.weights.model_description import Trained
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


@pytest.fixture
def sites(lab, tmp_path):
    """Two folders, a and b, whose six pairs have the same names and other images."""
    pairs = [pair for pair in read_pairs(lab / PAIRS) if pair.change_type != "none"]
    for number, pair in enumerate(pairs[:9]):
        sites = [("a", number)] * (number < 6) + [("b", number - 3)] * (number >= 3)
        for site, position in sites:
            for side in ("before", "after"):
                target = tmp_path / f"{site}/{side}/{position}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(lab / ROOT / getattr(pair, side), target)
    return tmp_path


def captions(here, folder, out):
    many_pairs.caption(here, pair_jobs.jobs(folder), out, Search())
    return [line["caption"] for line in lines(out)]


def overwrite(sites):
    """Copy the images of the folder b over those of a: other images under the same names."""
    for path in (sites / "b").rglob("*.png"):
        shutil.copy(path, sites / "a" / path.relative_to(sites / "b"))


def test_a_line_names_its_files_by_content(here, sites, tmp_path):
    captions(here, sites / "a", tmp_path / "out.jsonl")
    for line in lines(tmp_path / "out.jsonl"):
        for side in ("before", "after"):
            data = (sites / "a" / line[side]).read_bytes()
            assert line[f"{side}_sha256"] == hashlib.sha256(data).hexdigest()


def test_the_output_of_other_images_with_the_same_names_is_refused(here, sites, tmp_path):
    out, other = tmp_path / "out.jsonl", tmp_path / "other.jsonl"
    first = captions(here, sites / "a", out)
    assert captions(here, sites / "b", other) != first
    whole = out.read_bytes()
    with pytest.raises(InputError, match=r"out\.jsonl, line 1 "):
        captions(here, sites / "b", out)
    (sites / "a").rename(sites / "moved")
    assert captions(here, sites / "moved", out) == first
    shutil.copy(sites / "b/after/5.png", sites / "moved/after/4.png")
    with pytest.raises(InputError, match=r"out\.jsonl, line 5 "):
        captions(here, sites / "moved", out)
    assert out.read_bytes() == whole


def stop_after(count, here, folder, out, monkeypatch):
    """Stop a run when `count` pairs were loaded."""
    original, loaded = many_pairs._load, []

    def load(captioner, job, warnings):
        loaded.append(job)
        if len(loaded) > count:
            raise KeyboardInterrupt
        return original(captioner, job, warnings)

    with monkeypatch.context() as patch:
        patch.setattr(many_pairs, "_load", load)
        with pytest.raises(KeyboardInterrupt):
            captions(here, folder, out)


@pytest.mark.parametrize("change", ["overwritten", "another folder", "one image"])
def test_a_stopped_run_is_not_resumed_with_other_images(here, sites, tmp_path, monkeypatch, capfd, change):
    monkeypatch.setattr(many_pairs, "BATCH", 2)
    monkeypatch.setattr(many_pairs, "SHARD", 2)
    monkeypatch.setattr(many_pairs.os, "cpu_count", lambda: 1)
    out, expected = tmp_path / "out.jsonl", tmp_path / "expected.jsonl"
    stop_after(4, here, sites / "a", out, monkeypatch)
    assert len([*tmp_path.glob(".out.jsonl.*.scratch/*.jsonl")]) > 0
    folder = sites / ("b" if change == "another folder" else "a")
    if change == "overwritten":
        overwrite(sites)
    elif change == "one image":
        shutil.copy(sites / "b/after/0.png", sites / "a/after/0.png")
    captions(here, folder, out)
    captions(here, folder, expected)
    assert out.read_bytes() == expected.read_bytes()
    assert "finished pairs are captioned again" in capfd.readouterr().err
    assert not [*tmp_path.glob(".*.scratch")]


def test_a_part_does_not_join_the_old_shards_of_another_part(here, sites, tmp_path, monkeypatch):
    monkeypatch.setattr(many_pairs, "BATCH", 2)
    monkeypatch.setattr(many_pairs, "SHARD", 2)
    out = tmp_path / "out.jsonl"
    assert not many_pairs.caption(here, pair_jobs.jobs(sites / "a"), out, Search(), part=(0, 2))
    overwrite(sites)
    assert not many_pairs.caption(here, pair_jobs.jobs(sites / "a"), out, Search(), part=(1, 2))
    assert many_pairs.caption(here, pair_jobs.jobs(sites / "a"), out, Search(), part=(0, 2))
    assert captions(here, sites / "b", tmp_path / "other.jsonl") == [each["caption"] for each in lines(out)]


def test_a_pair_is_captioned_when_its_missing_image_has_come(here, sites, tmp_path):
    out, image = tmp_path / "out.jsonl", sites / "a/after/2.png"
    (sites / "a/pairs.csv").write_text(f"before,after\nbefore/2.png,{image.relative_to(sites / 'a')}\n")
    image.rename(tmp_path / "kept.png")
    many_pairs.caption(here, pair_jobs.jobs(sites / "a"), out, Search())
    assert many_pairs.errors_in(out) == 1
    assert lines(out)[0]["after_sha256"] is None
    assert many_pairs.caption(here, pair_jobs.jobs(sites / "a"), out, Search())  # still missing
    (tmp_path / "kept.png").rename(image)
    with pytest.raises(InputError, match=r"out\.jsonl, line 1 "):
        many_pairs.caption(here, pair_jobs.jobs(sites / "a"), out, Search())


def changed_model(here, part):
    """Captioner with the same file of weights, and another description, vocabulary or statistics."""
    if part == "description":
        return replace(here, trained=Trained(**vars(here.trained) | {"iteration": 2}))
    if part == "words":
        vocabulary = here.vocabulary
        return replace(here, vocabulary=replace(vocabulary, words=vocabulary.words[::-1]))
    features = copy.copy(here.features)
    features.network = copy.deepcopy(features.network)
    features.network.standardise.mean += 1
    return replace(here, features=features)


@pytest.mark.parametrize("part", ["description", "words", "statistics"])
def test_the_output_of_a_changed_model_is_refused(here, sites, tmp_path, part):
    captions(here, sites / "a", tmp_path / "out.jsonl")
    with pytest.raises(InputError, match=r"out\.jsonl, line 1 "):
        captions(changed_model(here, part), sites / "a", tmp_path / "out.jsonl")
