"""import_checkpoint of MCCFormers' and CARD's files: the command as its user types it."""

import pytest

from pipeline.weights import trained_model
from tests import project_params
from tests.pipeline.authors_checkpoints import test_card_checkpoints as card
from tests.pipeline.authors_checkpoints import test_mccformers_checkpoints as mccformers
from tests.running import refuse, succeed

COMMAND = "import_checkpoint their.pt --vocab vocab.json --heads 2 --longest 9"


@pytest.fixture
def folder(tmp_path):
    project_params.write(tmp_path, features__size=256)
    return tmp_path


@pytest.mark.parametrize("name", ["mccformers_d", "mccformers_s"])
def test_mccformers(folder, name):
    mccformers.write(folder, name)
    succeed(folder, f"{COMMAND} --seed 3")
    kept = folder / f"data/imported/clevr_change/{name}/3/train"
    _, trained = trained_model.load(kept / "weights")
    assert (trained.recipe.model, trained.seed, trained.longest) == (name, 3, 9)
    assert trained.shape == (1024, 16, 16)
    assert (kept / "curves/loss.csv").read_text() == "iteration,cap\n"


def test_card(folder):
    card.write(folder)
    refuse(
        folder,
        f"{COMMAND} --dataset spot_the_diff",
        "features.size is 256, the checkpoint was trained with 224",
    )
    project_params.write(folder)
    succeed(folder, f"{COMMAND} --dataset spot_the_diff")
    kept = folder / "data/imported/spot_the_diff/card/1/train"
    _, trained = trained_model.load(kept / "weights")
    assert (trained.recipe.model, trained.recipe.dataset, trained.longest) == ("card", "spot_the_diff", 7)
    assert (kept / "curves/loss.csv").read_text() == "iteration,cap,con,ind\n"
