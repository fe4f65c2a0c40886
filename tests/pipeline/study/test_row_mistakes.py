"""The mistakes of a study file are reported together, each with its row and key."""

import pytest
import yaml

from pipeline.io.errors import InputError
from tests.study_lab import make_repository, planned


def test_the_mistakes_of_all_rows_are_listed_at_once(tmp_path):
    made = make_repository(tmp_path)
    study = {"title": "t", "source": "s", "datasets": ["tabletop"]}
    wrong = {"loss.lambda_x": 1.0, "features.size": 8, "model.scorer.switches.mtm": "summed"}
    study["rows"] = [
        {"label": "one", "model": "scorer", "set": wrong},
        {"label": "two", "model": "absent"},
        {"label": "three", "model": "rr"},
    ]
    (made / "studies/bad.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(InputError) as refused:
        planned(made, name="bad")
    lines = str(refused.value).splitlines()
    assert "studies/bad.yaml" in lines[0]
    assert len(lines) == 3
    assert all(part in lines[1] for part in ("'one'", "loss.lambda_x", "features.size"))
    assert all(part in lines[2] for part in ("'two'", "'absent'"))
