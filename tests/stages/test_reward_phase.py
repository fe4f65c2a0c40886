"""The stage `train` with a reward: the weights that it starts from, kills, and wrong settings."""

import shutil

import pytest

from pipeline.config import recipe_file
from pipeline.training import resuming
from tests.killed import KilledError
from tests.running import refuse, set_params, stage, succeed
from tests.stage_commands import MAKE_RECIPE, RECIPE, train_with, trained

pytestmark = pytest.mark.slow
REWARD = {
    "reinforce__reward": "CIDEr-D",
    "reinforce__iterations": 4,
    "reinforce__validate_every": 2,
    "reinforce__samples": 2,
    "reinforce__learning_rate": 1e-2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained run in `plain`, and the recipe of the same run with a reward."""
    made = trained(tmp_path_factory.mktemp("reward"), "plain")
    shutil.copy(made / RECIPE, made / "plain.yaml")
    set_params(made, **REWARD)
    succeed(made, MAKE_RECIPE)
    succeed(made, train_with(1, "whole"))
    return made


def test_it_writes_the_folder_of_the_run(folder):
    place = "data/weights/tabletop/scorer_cbr/1"
    (folder / place).parent.mkdir(parents=True)
    succeed(folder, train_with(1, place))
    assert weights(folder, place) == weights(folder, "whole")


def weights(folder, name):
    return (folder / name / "weights.safetensors").read_bytes()


def test_given_weights_end_as_weights_that_it_trains_first(folder):
    succeed(folder, f"{train_with(1, 'later')} --trained plain")
    assert weights(folder, "later") == weights(folder, "whole") != weights(folder, "plain")
    plain, curves = (folder / "curves" / name for name in ("plain", "whole"))
    assert (curves / "train/loss.csv").read_bytes() == (plain / "loss.csv").read_bytes()
    assert (curves / "loss.csv").read_text().startswith("iteration,policy,cap,cv,cbr,reward,sample_entropy,")
    assert not list(folder.glob(".whole.*"))


def test_a_kill_in_the_phase_keeps_the_weights_before_it(folder, monkeypatch):
    save, saved = resuming.save, []

    def dying(state, history, *given):
        save(state, history, *given)
        saved.append(history.iteration)
        if len(saved) == 3:  # the first in the reward phase
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(resuming, "save", dying)
        with pytest.raises(KilledError):
            stage(folder, train_with(1, "killed"))
        succeed(folder, train_with(1, "killed"))
    assert saved == [2, 4, 2, 4]  # nothing was trained twice
    assert weights(folder, "killed") == weights(folder, "whole")


def test_weights_of_another_run_are_refused(folder):
    refuse(
        folder, f"{train_with(2, 'wrong')} --trained plain", "plain holds weights of tabletop/scorer_cbr/1"
    )
    recipe = (folder / RECIPE).read_text()
    (folder / RECIPE).write_text(recipe.replace("batch: 4", "batch: 5"))
    refuse(folder, f"{train_with(1, 'wrong')} --trained plain", "plain/model.yaml: recipe.phases")
    (folder / RECIPE).write_text(recipe)
    assert not (folder / "wrong").exists()


def test_trained_weights_need_a_reward_phase(folder):
    command = train_with(1, "wrong").replace(RECIPE, "plain.yaml")
    refuse(folder, f"{command} --trained plain", "plain.yaml lacks a reward phase")
    assert not (folder / "wrong").exists()


@pytest.mark.parametrize(("reward", "default"), [("truth", True), ("random", True), ("CIDEr-D", False)])
def test_both_orders_are_rewarded_unless_the_reward_compares_with_references(tmp_path, reward, default):
    set_params(tmp_path, reinforce__reward=reward)
    succeed(tmp_path, MAKE_RECIPE)
    assert recipe_file.load(tmp_path / RECIPE).phases["reinforce"]["both_ways"] is default
    set_params(tmp_path, reinforce__reward=reward, reinforce__both_ways=False)
    succeed(tmp_path, MAKE_RECIPE)
    assert recipe_file.load(tmp_path / RECIPE).phases["reinforce"]["both_ways"] is False


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"reinforce__reward": "praise"}, "reinforce.reward"),
        ({"reinforce__samples": 1}, "reinforce"),
        ({"reinforce__partial_credit": 1.0}, "reinforce.partial_credit"),
        ({"reinforce__false_alarm": -0.5}, "reinforce.false_alarm"),
        ({"reinforce__tries": 3}, "reinforce.tries"),
        ({"reinforce__reward": "CIDEr-D", "reinforce__both_ways": True}, "both_ways"),
        ({"reinforce__reward": "agrees", "negatives__grammar__tabletop": None}, "reinforce.reward"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, changes, named):
    set_params(tmp_path, **changes)
    refuse(tmp_path, MAKE_RECIPE, named)
