"""A small laboratory with trained weights, shared by the tests of captioning."""

from pathlib import Path

import pytest

from pipeline.captioning import PairCaptioner
from tests.small_lab import add_weights, make_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lab(tmp_path_factory.mktemp("lab"), "scorer_cbr")


def weights_of(lab: Path, model: str) -> Path:
    """Folder with weights of a model in the laboratory."""
    folder = lab / f"data/weights/tabletop/{model}/1"
    return folder if folder.exists() else add_weights(lab, model)


@pytest.fixture(scope="session")
def here(lab: Path) -> PairCaptioner:
    """Captioner with the laboratory's weights."""
    return PairCaptioner.load(lab / "data/weights/tabletop/scorer_cbr/1", lab)
