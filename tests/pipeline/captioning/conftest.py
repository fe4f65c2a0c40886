"""One small laboratory for the tests of this room."""

from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from models import backbone
from pipeline.captioning import Captioner, random_weights
from tests.small_lab import add_weights, make_lab

DRAWN = cache(backbone.untrained_backbone)


@pytest.fixture(scope="session", autouse=True)
def drawn_once():
    """The random filters of a seed, of which drawing 44 million takes a second."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            random_weights, "untrained_backbone", lambda layer, seed: deepcopy(DRAWN(layer, seed))
        )
        yield


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_lab(tmp_path_factory.mktemp("lab"))
    add_weights(folder, "scorer_cbr")
    return folder


def weights_of(lab: Path, model: str) -> Path:
    """A model's folder of weights in the session's laboratory, added once."""
    folder = lab / f"data/weights/tabletop/{model}/1"
    return folder if folder.exists() else add_weights(lab, model)


@pytest.fixture(scope="session")
def here(lab: Path) -> Captioner:
    """The laboratory's own."""
    return Captioner.load(lab / "data/weights/tabletop/scorer_cbr/1", lab)
