"""The fixtures of the stages' tests."""

from tests.stage_fixtures import copy, leaves, raw, trained  # noqa: F401
