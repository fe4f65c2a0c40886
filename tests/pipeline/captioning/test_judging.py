"""The table of judged captions: a row for all changes wherever several kinds of change were judged."""

import pytest

from pipeline.captioning.judging import summary
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.scoring.truth import Verdict

PAIR = Pair("0.png", "0", "test", "a", "b", ("x",))


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [
        (["color"], ["color"]),
        ([NO_CHANGE], ["no change"]),
        (["color", NO_CHANGE], ["color", "no change"]),
        (["color", "drop"], ["all changes", "color", "drop"]),
        (["color", "drop", NO_CHANGE], ["all changes", "color", "drop", "no change"]),
    ],
    ids=lambda names: "-".join(names),
)
def test_all_changes_have_a_row_where_there_are_several_kinds(kinds, rows):
    found = [(kind, PAIR, "a caption", Verdict(kind == "color", "")) for kind in kinds]
    _, *lines = summary(found)
    assert [line[:24].strip() for line in lines] == rows
    numbers = [int(line[24:30]) for line in lines]
    assert numbers == [2 if row == "all changes" else 1 for row in rows]
