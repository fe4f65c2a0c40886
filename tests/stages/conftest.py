"""A small dataset, raw and with every stage up to training run."""

from tests.stage_fixtures import copy, leaves, raw, trained  # noqa: F401
