"""A user's own records: no record replaces another one, and only fitting records are published."""

import pytest

from pipeline.config.params import read_tree
from pipeline.io.errors import InputError
from pipeline.io.outputs import write_json_lines
from pipeline.results import own_records, records
from tests import project_params
from tests.study_lab import Fake, planned


def study(repository, **changes):
    """Write the records of the two seeds of rr, with these changes of params.yaml. Return their paths."""
    project_params.write(repository, **changes)
    planned_row = planned(repository)[0]
    fake = Fake(repository)
    for run in planned_row.runs:
        fake.do(run)
    return [records.write(repository, run, planned_row.changes, fake.folder) for run in planned_row.runs]


def tree(repository):
    return read_tree(repository / "params.yaml")


def promote(repository):
    return own_records.promote(repository, tree(repository))


def read(repository):
    """Seeds of the groups, and the number of files that are left out."""
    own, left_out = own_records.read(repository, tree(repository), "tabletop")
    return [[*group.runs["seed"]] for group in own.groups], len(left_out)


def other_data(monkeypatch, images=False):
    """Make the next study use another test pair, or other images of the same pairs."""
    if images:
        monkeypatch.setattr(
            "tests.study_lab.write_json_lines", lambda path, _: write_json_lines(path, [{"name": "a.png"}])
        )
    else:
        monkeypatch.setattr("tests.study_lab.PAIRS", 16)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("changed", ["settings", "pairs", "images", "nothing"])
def test_records_of_other_settings_or_data_are_kept(repository, monkeypatch, changed):
    first = study(repository)
    before = contents(repository / "results/own")
    if changed in ("pairs", "images"):
        other_data(monkeypatch, changed == "images")
    short = {"dataset__tabletop__train__iterations": 60}
    second = study(repository, **(short if changed == "settings" else {}))
    assert before.items() <= contents(repository / "results/own").items()
    assert set(first).isdisjoint(second) == (changed != "nothing")


def test_a_gate_that_labels_open_gives_another_record_and_captions_in_both_orders_do_not(repository):
    first = study(repository)
    assert study(repository, decode__both_ways=True) == first
    assert set(first).isdisjoint(study(repository, decode__labelled_gate=True))


def test_fitting_records_are_read_and_published_ones_fill_the_gaps(repository):
    study(repository)
    promote(repository)
    (repository / "results/records/tabletop/rr-2.json").unlink()
    study(repository, decode__beam=3)
    assert read(repository) == ([[1, 2]], 0)
    study(repository)[0].unlink()
    assert read(repository) == ([[1, 2]], 2)


def test_a_published_record_of_other_pairs_does_not_count(repository, monkeypatch):
    study(repository)
    promote(repository)
    run = planned(repository)[0].runs[0]
    assert own_records.recorded(repository, run, {})
    other_data(monkeypatch)
    Fake(repository).do(run)
    assert not own_records.recorded(repository, run, {})


def test_promotion_moves_records_and_pairs(repository):
    own_paths = study(repository)
    before = [path.read_bytes() for path in own_paths]
    published = promote(repository)
    assert [path.read_bytes() for path in published] == before
    assert {path.name for path in published[0].parent.iterdir()} == {
        *("rr-1.json", "rr-1.csv", "rr-2.json", "rr-2.csv", "pairs.json")
    }
    assert not any(path.exists() for path in own_paths)
    study(repository)
    assert promote(repository) == published, "equal records replace nothing"


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("scores", r"rr-1\.json is published, and .* differs"),
        ("settings", r"params\.yaml has other settings than 2 of the records .* first rr-1\.json"),
        ("pairs", r"other test pairs than .*results/records/tabletop/pairs\.json"),
    ],
)
def test_a_promotion_that_would_change_published_records_is_refused(repository, monkeypatch, what, named):
    study(repository)
    promote(repository)
    if what == "scores":
        monkeypatch.setattr("tests.study_lab.score_of", lambda *_: 0.123)
    elif what == "pairs":
        other_data(monkeypatch)
    study(repository, **({"decode__beam": 3} if what == "settings" else {}))
    before = contents(repository / "results")
    with pytest.raises(InputError, match=named):
        promote(repository)
    assert contents(repository / "results") == before
