"""The tests that run the commands of README, of the cookbook and of the first steps.

A command's key is its program and module, target or subcommand (`key`). RUN_BY names the test or script that
runs it; NOT_RUN says why none does. tests/test_commands.py parses every command, also those of NOT_RUN.
"""

RUN_BY = {
    "change-captioning": "tests/test_wheel.py",
    "dvc exp run": "tests/test_independent_experiments.py",
    "dvc repro": "tests/commands/test_study_runs.py",
    "make .venv/ready": ".ci/fresh-clone",
    "make check-data": "tests/test_supply_chain.py",
    "make lint": ".ci/run",
    "make repro": ".ci/fresh-clone",
    "make test": ".ci/fresh-clone",
    "python -m commands.agreement": "tests/commands/test_judge.py",
    "python -m commands.annotators": "tests/pipeline/scoring/test_human_baseline.py",
    "python -m commands.calibrate": "tests/commands/test_calibrate.py",
    "python -m commands.caption": "tests/test_cookbook.py",
    "python -m commands.check_scores": "tests/commands/test_check_scores.py",
    "python -m commands.compare": "tests/commands/test_compare.py",
    "python -m commands.demo": "tests/pipeline/demo/serving.py",
    "python -m commands.errors": "tests/commands/test_errors.py",
    "python -m commands.export": "tests/commands/test_caption.py",
    "python -m commands.import_checkpoint": "tests/commands/test_import_checkpoint.py",
    "python -m commands.import_clip": "tests/commands/test_import_clip.py",
    "python -m commands.judge": "tests/commands/test_judge.py",
    "python -m commands.negatives": "tests/commands/test_negatives.py",
    "python -m commands.new_dataset": "tests/commands/test_new_dataset.py",
    "python -m commands.parts": "tests/commands/test_parts.py",
    "python -m commands.probe": "tests/commands/test_probe_labelled.py",
    "python -m commands.publish": "tests/pipeline/publishing/test_published_folder.py",
    "python -m commands.record": "tests/commands/test_record.py",
    "python -m commands.results": "tests/pipeline/results/test_pages.py",
    "python -m commands.sensitivity": "tests/pipeline/sensitivity/test_matrix.py",
    "python -m commands.show_settings": "tests/pipeline/config/test_origins.py",
    "python -m commands.study": "tests/commands/test_study.py",
    "python -m commands.truth": "tests/commands/test_truth_stage.py",
    "python -m commands.tune": "tests/commands/test_probe_labelled.py",
    "python -m stages.report": "tests/stages/test_report.py",
    "python -m stages.score": "tests/stages/test_score.py",
    "python -m stages.train": "tests/stages/test_train_processes.py",
}
NOT_RUN = {
    "dvc commit": "DVC's own; it only records outputs",
    "dvc exp apply": "DVC's own; it replaces the files of the working tree",
    "dvc exp diff": "DVC's own; it reads the metrics and settings of two experiments",
    "dvc exp list": "DVC's own; it lists the experiments that `dvc exp run` made",
    "dvc exp show": "DVC's own; it reads the metrics and settings of the experiments",
    "dvc metrics diff": "DVC's own; it reads the metrics that dvc.yaml names",
    "dvc metrics show": "DVC's own; it reads the metrics that dvc.yaml names",
    "dvc plots diff": "DVC's own; tests/pipeline/reporting/test_dvc_plots.py checks the files that it draws",
    "dvc plots show": "DVC's own; tests/pipeline/reporting/test_dvc_plots.py checks the files that it draws",
    "dvc queue start": "starts a process that outlives the test; its experiments are those of exp run",
    "export": "sets a variable of the shell",
    "head": "a program of the system",
    "make blender": "installs 1 GB; tests/test_commands.py checks that it can be typed",
    "make bench": "takes an hour; tests/benchmarks run its parts",
    "make demo": "opens a browser; tests/pipeline/demo/test_served.py starts the page itself",
    "make demo-weights": "trains for hours; the test of its steps parses them",
    "make experiments": "is dvc exp show with options, which tests/test_commands.py parses",
    "make help": "prints lines of the Makefile",
    "make study": "is python -m commands.study, by tests/test_commands.py",
    "pip": "installs from an address; tests/test_wheel.py builds the same wheel",
    "python -m benchmarks": "takes an hour; tests/benchmarks run its parts",
    "python -m json.tool": "Python's own",
    "srun stages.extract": "needs SLURM; tests/stages/test_two_nodes.py runs one with SLURM_TESTS=1",
    "torchrun stages.extract": "as srun; without SLURM, tests/stages/test_extract.py fills the same store",
    "torchrun stages.train": "tests/stages/test_train_processes.py starts the same processes",
    "tensorboard": "not of this project; tests/stages/test_live_curves.py reads its files",
}


def key(words: list[str]) -> str:
    """Return the key of a command's words."""
    match words:
        case ["torchrun" | "srun", *_]:
            return f"{words[0]} {next(word for word in words if word.startswith('stages.'))}"
        case ["python", *_]:
            return " ".join(words[:3])
        case ["dvc", "exp" | "queue" | "metrics" | "plots", *_]:
            return " ".join(words[:3])
        case ["dvc" | "make", *_]:
            return " ".join(words[:2])
    return words[0]
