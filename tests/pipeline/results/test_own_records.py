"""A user's own records: none replaces another one or a published one, and what is published belongs there."""

import shutil

import pytest

from pipeline.config.params import read_tree
from pipeline.io.errors import InputError
from pipeline.io.outputs import write_json_lines
from pipeline.results import own_records, records
from tests import project_params
from tests.study_lab import Fake, planned


def study(repository, **changes):
    """The records of rr's two seeds, with these changes of params.yaml."""
    project_params.write(repository, **changes)
    own = planned(repository)[0]
    fake = Fake(repository)
    for cell in own.cells:
        fake.run(cell)
    return [records.write(repository, cell, own.changes, fake.folder) for cell in own.cells]


def tree(repository):
    return read_tree(repository / "params.yaml")


def promote(repository, files):
    return own_records.promote(repository, tree(repository), files)


def other_data(repository, monkeypatch, images=False):
    """Another test pair, or other images of the same pairs."""
    if images:
        monkeypatch.setattr(
            "tests.study_lab.write_json_lines", lambda path, _: write_json_lines(path, [{"name": "a.png"}])
        )
    else:
        monkeypatch.setattr("tests.study_lab.PAIRS", 16)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("changed", ["settings", "pairs", "images", "nothing"])
def test_records_of_other_settings_or_data_lie_side_by_side(repository, monkeypatch, changed):
    first = study(repository)
    before = contents(repository / "results/own")
    if changed in ("pairs", "images"):
        other_data(repository, monkeypatch, changed == "images")
    short = {"dataset__tabletop__train__iterations": 60}
    second = study(repository, **(short if changed == "settings" else {}))
    after = contents(repository / "results/own")
    assert before.items() <= after.items()
    assert (set(first) & set(second) == set()) == (changed != "nothing")


def seeds(group):
    return sorted(record["seed"] for record in group.records)


def test_what_fits_today_is_read_with_what_is_published(repository):
    promoted = promote(repository, study(repository))
    (repository / "results/records/tabletop/rr-2.json").unlink()
    study(repository, decode__beam=3)
    found, left = own_records.read(repository, tree(repository), "tabletop")
    assert ([seeds(group) for group in found], left) == ([[1, 2]], [])
    first, _ = study(repository)
    first.unlink()
    found, left = own_records.read(repository, tree(repository), "tabletop")
    assert [seeds(group) for group in found] == [[1, 2]]
    assert sorted(found[0].records, key=lambda one: one["seed"])[0] == records.read(promoted[0])
    assert len(left) == 2, "those of the wider beam"


def test_a_published_record_of_other_pairs_is_none_of_the_cell(repository, monkeypatch):
    promote(repository, study(repository))
    cell = planned(repository)[0].cells[0]
    assert own_records.recorded(repository, cell, {})
    other_data(repository, monkeypatch)
    Fake(repository).run(cell)
    assert not own_records.recorded(repository, cell, {})


def test_a_promotion_moves_and_publishes_the_pairs(repository):
    own = study(repository)
    before = [path.read_bytes() for path in own]
    assert own_records.files(repository, tree(repository)) == own
    there = promote(repository, own)
    assert [path.read_bytes() for path in there] == before
    assert {path.name for path in there[0].parent.iterdir()} == {"rr-1.json", "rr-2.json", "pairs.json"}
    assert not any(path.exists() for path in own)
    again = study(repository)
    assert promote(repository, again) == there, "equal ones replace nothing"


def test_a_promotion_replaces_nothing(repository, monkeypatch):
    there = promote(repository, study(repository))
    there[1].unlink()
    monkeypatch.setattr("tests.study_lab.score_of", lambda *_: 0.123)
    own = study(repository)
    _refused(repository, own, rf"{there[0]} is published, and {own[0]} differs")


@pytest.mark.parametrize("what", ["settings", "published settings", "pairs", "elsewhere", "copy"])
def test_what_does_not_belong_there_is_not_published(repository, monkeypatch, what):
    own = study(repository)
    if what == "settings":
        project_params.write(repository, decode__beam=3)
        named = rf"{own[0]} is of other settings than params\.yaml"
    elif what == "published settings":
        promote(repository, own[:1])
        own = study(repository, decode__beam=3)[1:]
        named = r"params\.yaml has other settings than 1 of the 1 records .* first rr-1\.json"
    elif what == "pairs":
        promote(repository, own[:1])
        other_data(repository, monkeypatch)
        own = study(repository)[1:]
        named = rf"{own[0]} is of other test pairs than {repository}/results/records/tabletop/pairs\.json"
    elif what == "elsewhere":
        elsewhere = repository / "elsewhere" / own[0].parent.name
        shutil.copytree(own[0].parent, elsewhere)
        own = [elsewhere / own[0].name]
        named = rf"{own[0]} is not in {repository}/results/own/records/tabletop"
    else:
        copied = own[0].parent.with_name("0123456789abcdef")
        shutil.copytree(own[0].parent, copied)
        own = sorted(copied.glob("rr-*"))
        named = rf"{own[0]} is a copy"
    _refused(repository, own, named)


def _refused(repository, own, named):
    before = contents(repository / "results")
    with pytest.raises(InputError, match=named):
        promote(repository, own)
    assert contents(repository / "results") == before
