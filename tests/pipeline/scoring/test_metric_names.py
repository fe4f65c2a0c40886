"""The names of metrics are spelled in one module."""

from pathlib import Path

from pipeline.reporting import curves
from pipeline.scoring.metric_names import ACCURACY, HEADINGS, PLACES
from pipeline.training import validation

ROOT = Path(__file__).parents[3]


def test_names_are_spelled_in_one_module():
    names = {f'"{name}"' for name in (*PLACES, ACCURACY, *HEADINGS.values())}
    found = {
        str(path.relative_to(ROOT))
        for folder in ("pipeline", "stages", "commands")
        for path in (ROOT / folder).rglob("*.py")
        if any(name in path.read_text() for name in names)
    }
    assert found == {"pipeline/scoring/metric_names.py"}


def test_the_report_draws_the_columns_that_validation_writes():
    assert {own.column for own in curves.VALIDATED} == {
        validation.TRUE_CHANGES,
        validation.TRUE,
        validation.CIDER,
    }
