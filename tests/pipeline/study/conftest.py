"""Fixtures: a repository, and records."""

from tests.study_fixtures import made_once, repository, root  # noqa: F401
