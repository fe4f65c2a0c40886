"""What the tests of studies share: a repository of their own, and the models' files hashed once."""

from functools import cache

import pytest

from pipeline.recipes import config
from tests.studying import make_repository

CODE_OF = cache(config.code_of)


@pytest.fixture(autouse=True)
def code_hashed_once(monkeypatch):
    monkeypatch.setattr(config, "code_of", CODE_OF)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)
