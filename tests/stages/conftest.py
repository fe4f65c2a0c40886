"""A small dataset, raw and with every stage up to training run."""

import shutil

import pytest

from pipeline.tabletop.dataset_card import write_card
from tests.running import set_params, succeed
from tests.stage_commands import CARD, EXTRACT, MAKE_RECIPE, MAKE_VOCAB, PREPARE, train_with
from tests.synthetic import make_clevr_change


@pytest.fixture
def raw(tmp_path):
    """A folder with params.yaml and raw images."""
    write_card(tmp_path / CARD, make_clevr_change(tmp_path / "data/raw/tabletop", scenes=10), "tabletop", [])
    set_params(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which every stage up to training has run."""
    folder = tmp_path_factory.mktemp("trained")
    write_card(folder / CARD, make_clevr_change(folder / "data/raw/tabletop", scenes=20), "tabletop", [])
    set_params(folder)
    for command in (PREPARE, EXTRACT, MAKE_VOCAB, MAKE_RECIPE, train_with(1, "weights/1")):
        succeed(folder, command)
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of `trained`, to damage."""
    return shutil.copytree(trained, tmp_path / "copy")
