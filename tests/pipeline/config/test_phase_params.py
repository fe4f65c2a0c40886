"""What params.yaml may say of a phase: incomplete settings are named by their key."""

import pytest
from pydantic import ValidationError

from pipeline.config.dataset_params import Pretrain
from tests import project_params

GIVEN = project_params.settings().of("tabletop").own["idc_pcl"].pretrain.model_dump()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schedule": "noam", "warm_up": None}, "the schedule noam needs warm_up"),
        ({"schedule": "halves"}, "the schedule halves needs milestones"),
        ({"schedule": "tenths"}, "the schedule tenths needs milestones"),
        ({"select_after": 9999}, "select_after is not below iterations"),
        ({"select": "last", "patience": 3}, "patience needs a best score, which select: last does not have"),
        (
            {"select": "last", "keep": "later"},
            "keep decides between equal scores, which select: last does not use",
        ),
        ({"keep": "later"}, "keep must be null"),
        ({"max_tokens": 3}, "max_tokens"),
        ({"tasks": {"mlm": 1.0}}, "tasks must have weights of mlm, mvcl and fda"),
        ({"tasks": {"mlm": 1.0, "mvcl": 0.0, "fda": 1.0}}, "greater than 0"),
        ({"processes": 2}, "processes must be 1"),
    ],
)
def test_what_is_incomplete_is_named(change, said):
    Pretrain.model_validate(GIVEN)
    with pytest.raises(ValidationError, match=said):
        Pretrain.model_validate(GIVEN | change)
