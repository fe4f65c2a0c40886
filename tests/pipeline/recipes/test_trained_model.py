"""Trained models and recipes whose files were edited are refused by name."""

import pytest
import torch
import yaml

from pipeline.errors import InputError
from pipeline.recipes import recipe_file, trained_model
from pipeline.recipes.trained_model import Trained
from tests.pipeline.training.test_loop import recipe

MODEL = r"model\.yaml does not describe a model "


@pytest.fixture
def folder(tmp_path):
    chosen = recipe()
    model = recipe_file.build(chosen, chosen.sizes_for((6, 3, 3), 10, 8))
    trained_model.save(tmp_path / "1", Trained(chosen, 1, (6, 3, 3), 10, 8, 4, 0.5), model.state_dict())
    return tmp_path / "1"


def test_what_was_saved_is_loaded(folder):
    model, trained = trained_model.load(folder)
    assert (trained.shape, trained.recipe) == ((6, 3, 3), recipe())
    assert isinstance(next(model.parameters()), torch.nn.Parameter)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "recipe.sizes.heads",
            3,
            MODEL + r"\(width 8 is not a multiple of heads \(3\)\); run `dvc repro train`",
        ),
        ("recipe.sizes.heads", 0, MODEL + r"\(heads is 0, not a whole number from 1 on\)"),
        ("recipe.sizes.width", "8", MODEL + r"\(width is '8', not a whole number"),
        (
            "recipe.sizes",
            {"width": 9} | dict.fromkeys(("heads", "layers", "decoder_layers", "word_width"), 1),
            MODEL + r"\(width 9 is not even\)",
        ),
        ("recipe.sizes.word_width", 5, MODEL + r"\(word_width 5 is not even\)"),
        ("recipe.sizes.depth", 5, MODEL + r"\(its sizes are width, .*, depth, not width,"),
        ("recipe.settings.colour", 1, r"model\.yaml: unknown key model\.scorer_cbr\.colour"),
        ("recipe.sizes.layers", 2, r"weights\.safetensors does not load \(.*Missing key"),
        ("shape", [6, 3], MODEL + r"\(its shape is not that of"),
        ("vocabulary", "ten", MODEL + r"\('ten' is no size\)"),
    ],
)
def test_an_edited_model_is_refused_by_name(folder, path, value, said):
    tree = yaml.safe_load((folder / "model.yaml").read_text())
    *parents, last = path.split(".")
    branch = tree
    for key in parents:
        branch = branch[key]
    branch[last] = value
    (folder / "model.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    with pytest.raises(InputError, match=said) as caught:
        trained_model.load(folder)
    assert "\n" not in str(caught.value)


def test_a_key_that_stands_twice(folder):
    text = (folder / "model.yaml").read_text()
    (folder / "model.yaml").write_text(text + "seed: 1\n")
    with pytest.raises(InputError, match=r"model\.yaml, line \d+: the key 'seed' stands in line \d+ already"):
        trained_model.load(folder)


def test_a_recipe_of_sizes_that_make_no_model(tmp_path):
    recipe_file.save(tmp_path / "r.yaml", recipe())
    text = (tmp_path / "r.yaml").read_text()
    (tmp_path / "r.yaml").write_text(text.replace("heads: 2", "heads: 3"))
    with pytest.raises(InputError, match=r"r\.yaml is not a recipe \(width 8 is not a multiple of heads"):
        recipe_file.load(tmp_path / "r.yaml")
