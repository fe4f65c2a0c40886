"""What a cluster is asked: one line for a wrong key, and sbatch's words for the rest."""

import pytest

from pipeline.io.errors import InputError
from pipeline.study import cluster_settings as settings
from pipeline.study import places
from pipeline.study.cluster_settings import Cluster
from tests.cluster_jobs import ROOT


def test_the_repositorys_file_is_read():
    found = settings.read(ROOT / settings.FILE)
    assert (found.gpus, found.cpus, found.memory, found.minutes) == (1, 8, 32, 240)
    asked = found.of_submitit("cell", ROOT)
    assert asked["mem"] == "32768M"
    assert asked["gpus_per_node"] == 1
    assert "partition" not in asked


def test_further_flags_reach_sbatch(tmp_path):
    submitit = pytest.importorskip("submitit.slurm.slurm")
    own = Cluster(
        minutes=5, cpus=2, partition="short", flags={"account": "vision"}, setup=["module load cuda"]
    )
    text = submitit._make_sbatch_string(command="run", folder=tmp_path, **own.of_submitit("cell", tmp_path))
    for line in (
        "--account=vision",
        "--partition=short",
        f"--chdir={tmp_path}",
        "--signal=USR2@90",
        "--time=5",
    ):
        assert f"#SBATCH {line}\n" in text
    assert text.index("module load cuda") < text.index("srun")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("minutes: 5\npartitoin: gpu", "unknown key partitoin"),
        ("gpus: 1", "the key minutes is missing"),
        ("minutes: soon", "minutes"),
    ],
)
def test_a_wrong_key_is_one_line(tmp_path, text, said):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError) as refused:
        settings.read(tmp_path / "c.yaml")
    assert str(refused.value).startswith(f"{tmp_path / 'c.yaml'}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_slurm_one_line(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"there is no SLURM here \(no sbatch\); take --on local"):
        places.Slurm(Cluster(minutes=5))


def test_where_slurm_does_not_answer_one_line(monkeypatch, tmp_path):
    said = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
    for name in ("sbatch", "squeue"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{said}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError) as refused:
        places.Slurm(Cluster(minutes=5))
    assert str(refused.value) == (
        "--on slurm: SLURM does not answer (Unable to contact slurm controller); take --on local"
    )
