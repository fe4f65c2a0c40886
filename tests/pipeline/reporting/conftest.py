"""Fixtures: made-up runs on two datasets, and their page."""

import pytest

from pipeline.reporting import dataset_results
from tests.report_lab import make_study
from tests.report_page import Reader, render


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    params = make_study(root, ("tabletop", "other"))
    return dataset_results.read(root, params), params


@pytest.fixture(scope="session")
def html(study):
    return render(*study)


@pytest.fixture(scope="session")
def read(html):
    return Reader(html)
