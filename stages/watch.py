"""watch: write hashes of the user's own files, which dvc.yaml cannot list.

DVC runs this stage always. So a changed table of pairs, image, feature file or file of weights changes the
settings on which later stages depend. In a copy of the repository for an experiment, the stage also checks
that the experiment can end.
"""

from pathlib import Path

from pipeline.cli.arguments import new_parser, parsed
from pipeline.config import params
from pipeline.config.params import Params
from pipeline.datasets import watched
from pipeline.io import experiments, named_files
from pipeline.io.outputs import Contents, replacing, write_json
from stages import run

WATCHED = Contents("watched")


def main() -> None:
    parser = new_parser("python -m stages.watch", __doc__)
    parser.add_argument("--out", type=WATCHED.to_write, required=True, help="the folder to write")
    out = parsed(parser).out
    settings = params.load()
    folders: dict[str, str] = {}
    for dataset in settings.datasets:
        folders |= named_files.folders_of_dataset(settings.model_dump(), dataset)
    experiments.check(folders)
    with replacing(out, WATCHED) as folder:
        write(settings, folder)


def write(settings: Params, folder: Path) -> None:
    """Write datasets/NAME.json, and pretraining/NAME/STAGE.json for datasets of pre-training."""
    for dataset in settings.datasets:
        write_json(folder / f"datasets/{dataset}.json", watched.of_dataset(settings, dataset))
    for dataset in settings.pretraining.datasets:
        for stage, hashes in watched.of_pretraining(settings, dataset).items():
            write_json(folder / f"pretraining/{dataset}/{stage}.json", hashes)


if __name__ == "__main__":
    run(main)
