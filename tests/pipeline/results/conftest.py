"""A repository, records; a model's files hashed, it made, once."""

from tests.study_fixtures import made_once, repository, root  # noqa: F401
