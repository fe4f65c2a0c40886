"""commands.compare prints a sentence for each metric, and refuses results that were not scored alike."""

import pytest

from tests.scored import SCORED, line, write


def test_a_sentence_for_each_metric(tmp_path, leaves):
    good = [line(n) | {"CIDEr-D": 1.0 + n / 100, "ROUGE-L": 0.5} for n in range(20)]
    bad = [line(n) | {"CIDEr-D": 0.5, "ROUGE-L": 0.5} for n in range(20)]
    paths = [str(write(tmp_path / f"{n}.jsonl", rows)) for n, rows in enumerate((good, good, bad))]
    code, said, _ = leaves("compare", *paths[:2], "--against", paths[2], "--resamples", "500")
    assert code == 0
    out = said.splitlines()
    assert out[0] == "20 test pairs; A: 2 seed(s), B: 1 seed(s)"
    assert ["not significant" in sentence for sentence in out[1:]] == [True, True, True, False]
    assert out[4].startswith("A is better than B by 59.5 CIDEr-D (A − B: 95 % interval +5")


def test_names_cannot_steer_the_terminal(tmp_path, leaves):
    path = write(tmp_path / "a.jsonl", [line(n) for n in range(3)])
    code, said, _ = leaves(
        "compare", path, "--against", path, "--names", "\x1b[2J", "[red]b[/]", "--resamples", "9"
    )
    assert code == 0
    assert "\x1b" not in said
    assert "\\u001b[2J − [red]b[/]" in said


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"scored": SCORED | {"tokeniser": "none"}}, ["tokenisers", "'made up'", "'none'"]),
        ({"scored": SCORED | {"reader": "free"}}, ["readers", "'strict'", "'free'"]),
        ({"references": "other"}, ["references", "20 of 20 pairs", "'0.png'"]),
        ({"pair_id": "x.png"}, ["not of the same pairs"]),
        ({"scored": None}, ["line 1: scored"]),
        ({"references": None}, ["line 1: references"]),
    ],
)
@pytest.mark.parametrize("seeds", [False, True], ids=["two models", "two seeds"])
def test_results_that_were_not_scored_alike(tmp_path, leaves, other, named, seeds):
    rows = [line(n) for n in range(20)]
    others = [row | other for row in rows[: 1 if "pair_id" in other else None]] + rows[1:]
    others = others[:20]
    a, b = write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.jsonl", others)
    command = [a, b, "--against", a] if seeds else [a, "--against", b]
    code, said, err = leaves("compare", *command, "--resamples", "9")
    assert (code, said) == (2, "")
    assert all(word in err for word in (*named, str(b)))


def test_one_other_reference_is_enough(tmp_path, leaves):
    rows = [line(n) for n in range(20)]
    a = write(tmp_path / "a.jsonl", rows)
    b = write(tmp_path / "b.jsonl", [*rows[:-1], rows[-1] | {"references": "other"}])
    code, _, err = leaves("compare", a, "--against", b, "--resamples", "9")
    assert code == 2
    assert "1 of 20 pairs, the first '19.png'" in err
