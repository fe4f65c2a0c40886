"""Fixtures of the tests of studies and results."""

import pytest

from tests.recorded import three_seeds
from tests.study_lab import make_models_once, make_repository


@pytest.fixture(autouse=True)
def made_once(monkeypatch):
    make_models_once(monkeypatch)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)


@pytest.fixture
def root(tmp_path):
    """A folder of records of two models."""
    return three_seeds(tmp_path)
