"""commands.compare prints a sentence for each metric."""

from tests.scored import line, write


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
