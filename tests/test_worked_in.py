"""A handful of tests in a clone that was worked in: edited settings, other scores, a dataset of its own.

Each of these tests once read the user's settings, or the outputs of a run, as if they were the shipped ones.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides

from tests import shipped

# what the comments of params.yaml invite to; `dvc exp run -S` writes such values in the same way
EDITS = (
    "seeds=[1,2]",
    "models=[subtraction,scorer_cbr,dirl_ccr]",
    "tabletop.scenes=600",
    "tabletop.width=480",
    "tabletop.height=320",
    "negatives.grammar.spot_the_diff=geometric",
    "text.lower_case=false",
    "loss.lambda_cv=0.2",
    "train.iterations=500",
    "reinforce.reward=truth",
    "+reinforce.partial_credit=0.5",
    "decode.beam=3",
    "report.gallery=12",
    "check.tolerance.BLEU-4=0.1",
    "model.scorer.variant=released",
    "+model.scorer.switches.mtm=mean_pool",
    "model.scorer.dropout=0.2",
    "dataset.tabletop.loss.lambda_cv=0.3",
)
LATER = (  # not committed
    "loss.lambda_cbr=0.004",
    "decode.both_ways=true",
    "+dataset.my_pairs={like:spot_the_diff,prepare:{reader:table,root:data/raw/my_pairs,protocol:null}}",
)
PUBLISHED = ("spot_the_diff.prepare.protocol=per_entry",)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # DVC's own
HANDFUL = (
    "tests/commands/test_check_scores.py::test_scores_of_other_names",
    "tests/commands/test_negatives.py::test_a_dataset_without_a_grammar_is_refused",
    "tests/commands/test_new_dataset.py::test_the_entry_and_nothing_else",
    "tests/pipeline/config/test_origins.py",
    "tests/pipeline/config/test_params.py",
    "tests/pipeline/results/test_pages.py::test_a_record_of_other_settings_is_on_no_page",
    "tests/test_architecture.py::test_the_default_pipeline_has_no_idle_stage",
    "tests/test_independent_experiments.py::test_params_yaml_has_the_layout_that_dvc_writes",
)


@pytest.fixture
def clone(tmp_path):
    """A clone of the last commit, as it is after edits, of which some were committed, and a run."""
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(shipped.ROOT), str(folder)], check=True)
    apply_overrides(folder / "params.yaml", EDITS)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "my settings"], cwd=folder, check=True)
    apply_overrides(folder / "params.yaml", LATER)
    apply_overrides(folder / "datasets.yaml", PUBLISHED)
    for path in (folder / "results/runs").rglob("metrics.json"):
        path.write_text(json.dumps({"total": {"CIDEr-D": 0.5}}))
    for name in ("results/own/records/tabletop/x/rr-1.json", "data/features/tabletop/grid.zarr/zarr.json"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}")
    (folder / "docs/results.md").write_text("edited\n")
    (folder / "dvc.lock").write_text("schema: '2.0'\n")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not shipped.in_git(), reason="there is no commit to clone")
def test_tests_pass_where_the_product_was_used(clone: Path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *HANDFUL]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
