"""What `render` and `prepare` leave, a fifth of its captions with a relation: judged from the files."""

import pytest

from pipeline.datasets.negatives import read_negatives
from pipeline.datasets.schema import read_pairs
from pipeline.scoring.truth import judge
from tests import shipped
from tests.running import set_params, succeed
from tests.stage_commands import CARD, PAIRS, PREPARE

SMALL = {"scenes": 24, "width": 48, "height": 32}
NEGATIVES = f"negatives --dataset tabletop --pairs {PAIRS} --out negatives.jsonl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A rendered dataset, prepared, with negatives of its train and val pairs."""
    folder = tmp_path_factory.mktemp("rendered")
    set_params(folder, **{f"tabletop__{key}": value for key, value in SMALL.items()})
    for command in (f"render --dataset tabletop --out data/raw/tabletop --card {CARD}", PREPARE, NEGATIVES):
        succeed(folder, command)
    return folder


def test_every_reference_is_true(folder):
    pairs = read_pairs(folder / PAIRS)
    assert shipped.settings().tabletop.relations == 0.2
    assert len(pairs) == 2 * SMALL["scenes"]
    changes = [caption for pair in pairs if pair.changed for caption in pair.captions]
    assert 0.05 < sum("that is" in caption for caption in changes) / len(changes) < 0.4
    for pair in pairs:
        for caption in pair.captions:
            assert judge(caption, pair).true, (caption, pair)


def test_each_of_the_six_negatives_is_false(folder):
    pairs = {pair.pair_id: pair for pair in read_pairs(folder / PAIRS)}
    found = read_negatives(folder / "negatives.jsonl")
    assert set(found) == {key for key, pair in pairs.items() if pair.split != "test"}
    for key, captions in found.items():
        assert len(captions) == 6
        for caption in captions:
            assert not judge(caption, pairs[key]).true, (caption, pairs[key])
