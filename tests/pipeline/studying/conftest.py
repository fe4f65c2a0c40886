"""What the tests of studies share: a repository of their own, and the models' files hashed once."""

from functools import cache

import pytest

from pipeline import resolving
from tests.studying import make_repository

CODE_OF = cache(resolving.code_of)


@pytest.fixture(autouse=True)
def code_hashed_once(monkeypatch):
    monkeypatch.setattr(resolving, "code_of", CODE_OF)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)
