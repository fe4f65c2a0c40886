"""What the tests of studies share: a repository of their own; a model's files hashed, it made, once."""

import pytest

from tests.study_lab import make_models_once, make_repository


@pytest.fixture(autouse=True)
def made_once(monkeypatch):
    make_models_once(monkeypatch)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)
