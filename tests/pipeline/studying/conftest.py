"""What the tests of studies share: a repository of their own; a model's files hashed, it made, once."""

from functools import cache

import pytest

from pipeline.recipes import config, recipe_file
from tests.studying import make_repository

CODE_OF = cache(config.code_of)
BUILT = {}


def built_once(recipe, sizes):
    """All that `build` looks at is in the key, and of the model on "meta" only the terms are read."""
    key = repr((recipe.model, recipe.settings, sizes))
    if key not in BUILT:
        BUILT[key] = recipe_file.build(recipe, sizes)
    return BUILT[key]


@pytest.fixture(autouse=True)
def made_once(monkeypatch):
    monkeypatch.setattr(config, "code_of", CODE_OF)
    monkeypatch.setattr(config, "build", built_once)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)
