"""`results` writes single files into a folder."""

import pytest

from pipeline.config import params
from pipeline.io.errors import InputError
from pipeline.results import results_figures
from tests.folders import contents
from tests.running import ROOT


def test_a_folder_named_as_a_figure_of_the_results_is_left(tmp_path):
    name = results_figures.SEEDS
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine").write_text("somebody's")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="is a folder, which a file does not replace"):
        results_figures.write(tmp_path, [], params.load(ROOT / "params.yaml"))
    assert contents(tmp_path) == before
