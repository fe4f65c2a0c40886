"""References of a rendered dataset are true by its files."""

from pipeline.datasets.schema import read_pairs
from pipeline.scoring.truth import judge
from tests import project_params
from tests.running import set_params, succeed
from tests.stage_commands import CARD, PAIRS, PREPARE

SMALL = {"scenes": 24, "width": 48, "height": 32}


def test_every_reference_is_true(tmp_path):
    set_params(tmp_path, **{f"tabletop__{key}": value for key, value in SMALL.items()})
    for command in (f"render --dataset tabletop --out data/raw/tabletop --card {CARD}", PREPARE):
        succeed(tmp_path, command)
    pairs = read_pairs(tmp_path / PAIRS)
    assert project_params.settings().tabletop.relations == 0.2
    assert len(pairs) == 2 * SMALL["scenes"]
    changes = [caption for pair in pairs if pair.changed for caption in pair.captions]
    assert 0.05 < sum("that is" in caption for caption in changes) / len(changes) < 0.4
    for pair in pairs:
        for caption in pair.captions:
            assert judge(caption, pair).true, (caption, pair)
