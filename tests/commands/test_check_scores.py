"""The stage `check` in a made-up repository: equal scores pass, fallen ones fail, mistakes are one line."""

import json
import re
import subprocess
from pathlib import Path

import pytest

PARAMS = Path(__file__).parents[2] / "params.yaml"
CELLS = ("tabletop/constant", "tabletop/scorer/1", "tabletop/scorer/2")
TREE = {
    "total": {"BLEU-4": 0.3, "CIDEr-D": 0.8, "SPICE": 0.2},
    "change": {"CIDEr-D": 0.5},
    "change_accuracy": 0.75,
    "scorers": {"METEOR": "1.5"},
}


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def write(root: Path, cell: str, tree: object) -> None:
    path = root / "results/cells" / cell / "metrics.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree))


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "params.yaml").write_text(PARAMS.read_text())
    for cell in CELLS:
        write(tmp_path, cell, TREE)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "scores")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def check(leaves):
    """Exit code, standard output, lines of standard error."""

    def run(*arguments: str) -> tuple[int, str, list[str]]:
        code, out, err = leaves("check_scores", *arguments)
        return code, out, err.splitlines()

    return run


def test_equal_scores_pass(repository, check):
    assert check() == (0, "none of 12 scores fell since HEAD\n", [])


def test_a_rise_and_a_small_fall_pass(repository, check):
    total = {"BLEU-4": 0.9, "CIDEr-D": 0.79, "SPICE": 0.195}
    write(repository, CELLS[1], TREE | {"total": total, "change": {"CIDEr-D": 0.0}})
    assert check("--against", "HEAD")[0] == 0


def test_each_fallen_score_is_a_line_that_names_its_cell(repository, check):
    write(repository, CELLS[1], TREE | {"total": TREE["total"] | {"CIDEr-D": 0.7899}})
    write(repository, CELLS[2], TREE | {"change_accuracy": 0.5, "total": TREE["total"] | {"SPICE": None}})
    assert check() == (
        1,
        "",
        [
            "tabletop/scorer/1: CIDEr-D fell by 0.0101, from 0.8000 to 0.7899; 0.01 is allowed",
            "tabletop/scorer/2: SPICE is gone; it was 0.2000",
            "tabletop/scorer/2: change_accuracy fell by 0.2500, from 0.7500 to 0.5000; 0.01 is allowed",
        ],
    )


@pytest.mark.parametrize("judged", ["true", "agrees"])
def test_truth_of_changes_is_guarded_by_itself(repository, judged, check):
    """Captions that say more often that nothing changed keep the share of all pairs, or raise it."""
    truth = {"total": TREE["total"] | {judged: 0.75}, "change": TREE["change"] | {judged: 0.6}}
    write(repository, CELLS[1], TREE | truth)
    git(repository, "commit", "--quiet", "-am", "truth")
    assert check()[:2] == (0, "none of 14 scores fell since HEAD\n")
    write(repository, CELLS[1], TREE | truth | {"change": TREE["change"] | {judged: 0.5}})
    fell = f"tabletop/scorer/1: {judged}_changes fell by 0.1000, from 0.6000 to 0.5000; 0.01 is allowed"
    assert check() == (1, "", [fell])
    write(repository, CELLS[1], TREE | {"total": truth["total"]})
    gone = f"tabletop/scorer/1: {judged}_changes is gone; it was 0.6000"
    assert check() == (1, "", [gone])


def test_the_revision_counts_and_not_the_index(repository, check):
    write(repository, CELLS[0], TREE | {"total": {"CIDEr-D": 0.1}})
    git(repository, "add", ".")
    assert check()[0] == 1
    git(repository, "commit", "--quiet", "-m", "worse")
    assert check()[0] == 0
    code, _, said = check("--against", "HEAD~1")
    assert code == 1
    assert [line.split(":")[0] for line in said] == ["tabletop/constant"] * 3


def test_a_folder_below_the_repositorys_top(repository, monkeypatch, check):
    git(repository, "init", "--quiet", "outer")
    lab = repository / "outer/lab"
    lab.mkdir()
    (lab / "params.yaml").write_text(PARAMS.read_text())
    write(lab, CELLS[0], TREE)
    git(repository / "outer", "add", ".")
    git(repository / "outer", "commit", "--quiet", "-m", "scores")
    monkeypatch.chdir(lab)
    assert check()[0] == 0


@pytest.fixture
def mistake(check):
    def run(*arguments: str) -> str:
        code, out, said = check(*arguments)
        assert (code, out, len(said)) == (2, "", 1)
        return said[0]

    return run


def test_files_that_are_missing_or_wrong_are_one_line(repository, mistake):
    path = repository / "results/cells" / CELLS[2] / "metrics.json"
    path.unlink()
    assert f"results/cells/{CELLS[2]}/metrics.json is missing" in mistake()
    path.write_text("{")
    assert f"results/cells/{CELLS[2]}/metrics.json is not valid JSON" in mistake()
    path.write_text("[]")
    git(repository, "commit", "--quiet", "-am", "wrong")
    assert f"HEAD:results/cells/{CELLS[2]}/metrics.json is no metrics.json" in mistake()
    path.write_text("{")
    git(repository, "commit", "--quiet", "-am", "wrong")
    assert f"HEAD:results/cells/{CELLS[2]}/metrics.json is not valid" in mistake()


@pytest.mark.parametrize(
    "wrong",
    [
        {"change_accuracy": float("nan")},
        {"change_accuracy": "0.9"},
        {"change": {"true": float("nan")}},
        {"change": []},
    ],
    ids=str,
)
@pytest.mark.parametrize("committed", [False, True])
def test_a_score_that_is_no_number_is_refused(repository, mistake, wrong, committed):
    write(repository, CELLS[1], TREE | wrong)
    if committed:
        git(repository, "commit", "--quiet", "-am", "wrong")
        write(repository, CELLS[1], TREE)
    assert f"results/cells/{CELLS[1]}/metrics.json" in mistake()


def test_revisions_that_hold_nothing(repository, mistake):
    assert "Not a valid object name" in mistake("--against", "no-such")
    for value in ("--output=x", ""):
        assert "git cannot read" in mistake(f"--against={value}")
    git(repository, "rm", "--quiet", "-r", "results")
    git(repository, "commit", "--quiet", "-m", "none")
    assert "HEAD has no results/cells/…/metrics.json" in mistake()


def test_scores_of_other_names(repository, check, mistake):
    head, tolerance, rest = re.split(r"(?<=  tolerance:\n)((?:    .*\n)+)", PARAMS.read_text())
    (repository / "params.yaml").write_text(f"{head}    CIDEr: 0.1\n{tolerance}{rest}")
    assert check()[0] == 0  # of the others 12 compare
    (repository / "params.yaml").write_text(f"{head}    CIDEr: 0.1\n{rest}")
    assert "HEAD has none of the scores CIDEr;" in mistake()


def test_no_repository(tmp_path, monkeypatch, mistake):
    (tmp_path / "params.yaml").write_text(PARAMS.read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "not a git repository" in mistake()


def test_no_git(repository, monkeypatch, mistake):
    monkeypatch.setenv("PATH", str(repository))
    assert "git is not installed" in mistake()
