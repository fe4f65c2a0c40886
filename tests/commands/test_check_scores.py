"""commands.check_scores in a made-up repository."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.project_params import FILE as PARAMS

RUNS = ("tabletop/constant", "tabletop/scorer/1", "tabletop/scorer/2")
TREE = {
    "total": {"BLEU-4": 0.3, "CIDEr-D": 0.8, "SPICE": 0.2},
    "change": {"CIDEr-D": 0.5},
    "change_accuracy": 0.75,
    "scorers": {"METEOR": "1.5"},
}
SCORED = {"pairs": 10, "references_sha256": "a"}


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def write(root: Path, run: str, tree: object) -> None:
    path = root / "results/runs" / run / "metrics.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """A laboratory in a folder below the top of a repository, with committed scores."""
    root = tmp_path / "lab"
    git(tmp_path, "init", "--quiet")
    for run in RUNS:
        write(root, run, TREE)
    (root / "params.yaml").write_text(PARAMS.read_text())
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "scores")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def check(leaves):
    """Return exit code, standard output, lines of standard error."""

    def run(*arguments: str) -> tuple[int, str, list[str]]:
        code, out, err = leaves("check_scores", *arguments)
        return code, out, err.splitlines()

    return run


@pytest.fixture
def mistake(check):
    def run(*arguments: str) -> str:
        code, out, said = check(*arguments)
        assert (code, out, len(said)) == (2, "", 1)
        return said[0]

    return run


def test_equal_scores_rises_and_small_falls_pass(repository, check):
    assert check() == (0, "none of 12 scores fell since HEAD\n", [])
    total = {"BLEU-4": 0.9, "CIDEr-D": 0.79, "SPICE": 0.195}
    write(repository, RUNS[1], TREE | {"total": total, "change": {"CIDEr-D": 0.0}})
    assert check("--against", "HEAD")[0] == 0


def test_each_fallen_score_is_a_line_that_names_its_run(repository, check):
    write(repository, RUNS[1], TREE | {"total": TREE["total"] | {"CIDEr-D": 0.7899}})
    write(repository, RUNS[2], TREE | {"change_accuracy": 0.5, "total": TREE["total"] | {"SPICE": None}})
    code, out, said = check()
    assert (code, out) == (1, "")
    assert said == [
        "tabletop/scorer/1: CIDEr-D fell by 0.0101, from 0.8000 to 0.7899; 0.01 is allowed",
        "tabletop/scorer/2: SPICE is gone; it was 0.2000",
        "tabletop/scorer/2: change_accuracy fell by 0.2500, from 0.7500 to 0.5000; 0.01 is allowed",
    ]


@pytest.mark.parametrize("judged", ["true", "agrees"])
def test_true_captions_of_changed_pairs_are_compared_by_themselves(repository, judged, check):
    changed = f"{judged}/changed"
    total = TREE["total"] | {judged: 0.75}
    write(repository, RUNS[1], TREE | {"total": total | {changed: 0.6}})
    git(repository, "commit", "--quiet", "-am", "truth")
    assert check()[:2] == (0, "none of 14 scores fell since HEAD\n")
    write(repository, RUNS[1], TREE | {"total": total | {changed: 0.5}})
    fell = f"tabletop/scorer/1: {changed} fell by 0.1000, from 0.6000 to 0.5000; 0.01 is allowed"
    assert check() == (1, "", [fell])
    write(repository, RUNS[1], TREE | {"total": total})
    assert check() == (1, "", [f"tabletop/scorer/1: {changed} is gone; it was 0.6000"])


def test_the_revision_is_compared_and_not_the_index(repository, check):
    write(repository, RUNS[0], TREE | {"total": {"CIDEr-D": 0.1}})
    git(repository, "add", ".")
    assert check()[0] == 1
    git(repository, "commit", "--quiet", "-m", "worse")
    assert check()[0] == 0
    assert check("--against", "HEAD~1")[0] == 1


NAMED = f"results/runs/{RUNS[2]}/metrics.json"


@pytest.mark.parametrize(
    "wrong", ["{", "[]", TREE | {"change_accuracy": float("nan")}, TREE | {"change_accuracy": "0.9"}], ids=str
)
def test_damaged_files_are_named(repository, mistake, wrong):
    write(repository, RUNS[2], wrong)
    assert mistake().startswith(f"error: {NAMED}")
    git(repository, "commit", "--quiet", "-am", "wrong")
    write(repository, RUNS[2], TREE)
    assert mistake().startswith(f"error: HEAD:{NAMED}")


def test_a_missing_file_is_named(repository, mistake):
    (repository / NAMED).unlink()
    assert f"{NAMED} is missing" in mistake()


def test_revisions_without_scores(repository, mistake):
    assert "Not a valid object name" in mistake("--against", "no-such")
    for value in ("--output=x", ""):
        assert "git cannot read" in mistake(f"--against={value}")
    git(repository, "rm", "--quiet", "-r", "results")
    git(repository, "commit", "--quiet", "-m", "none")
    assert "HEAD has no results/runs/…/metrics.json" in mistake()


def test_scores_of_other_names(repository, check, mistake):
    head, tolerance, rest = re.split(r"(?<=  tolerance:\n)((?:    .*\n)+)", PARAMS.read_text())
    (repository / "params.yaml").write_text(f"{head}    CIDEr: 0.1\n{tolerance}{rest}")
    assert check()[0] == 0  # the other 12 scores are compared
    (repository / "params.yaml").write_text(f"{head}    CIDEr: 0.1\n{rest}")
    assert "HEAD has none of the scores CIDEr;" in mistake()


def test_without_git_or_repository(repository, tmp_path, monkeypatch, mistake):
    (tmp_path / ".git").rename(tmp_path / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "not a git repository" in mistake()
    monkeypatch.setenv("PATH", str(repository))
    assert "git is not installed" in mistake()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scorers": {"tokenizer": "none"}}, "tokenisers: 'ptb' and 'none'"),
        ({"scored": SCORED | {"pairs": 9}}, "numbers of pairs: 10 and 9"),
        ({"scored": SCORED | {"references_sha256": "b"}}, "references: 'a' and 'b'"),
    ],
)
def test_scores_under_other_conditions_are_not_compared(repository, mistake, changes, named):
    committed = TREE | {"scorers": {"tokenizer": "ptb"}, "scored": SCORED}
    write(repository, RUNS[1], committed)
    git(repository, "commit", "--quiet", "-am", "conditions")
    write(repository, RUNS[1], committed | changes)
    said = mistake()
    assert named in said
    assert f"results/runs/{RUNS[1]}/metrics.json" in said


def test_a_condition_that_one_file_does_not_state_is_not_compared(repository, check):
    write(repository, RUNS[1], TREE | {"scorers": {"tokenizer": "ptb"}, "scored": SCORED})
    assert check()[0] == 0
