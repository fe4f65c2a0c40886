"""settings: check the settings, and write the files on which other stages depend.

DVC follows neither imports nor names of files in the settings. So it runs this stage always:

data/code                          for each stage, a file with the hashes of the source files that it runs
data/settings/DATASET              for each section of the dataset's settings, a file with its values, and
                                   with the hashes of the user's files that belong to it (images, weights)
data/settings/pretraining-DATASET  for each stage, the hashes of the files of CUB or NABirds

In a copy of the repository for an experiment, the stage also checks that the experiment can end.
"""

from itertools import product
from pathlib import Path
from typing import Any

from pipeline.cli.arguments import new_parser, parsed
from pipeline.config import params, resolving
from pipeline.config.params import Params
from pipeline.datasets import watched
from pipeline.io import experiments, named_files, source_code
from pipeline.io.outputs import Contents, replacing, write_json, yaml_of
from stages import run

CODE, SETTINGS = Contents("code"), Contents("settings")


def main() -> None:
    parser = new_parser("python -m stages.settings", __doc__)
    add = parser.add_argument
    add("--code", type=CODE.to_write, required=True, help="the folder to write, a file for each stage")
    add("--settings", type=SETTINGS.to_write, required=True, help="folder to write; one folder per dataset")
    arguments = parsed(parser)
    everything = params.load()
    folders: dict[str, str] = {}
    for dataset in everything.datasets:
        folders |= named_files.folders_of_dataset(everything.model_dump(), dataset)
    experiments.check(folders)
    check(everything)
    write_code(arguments.code)
    with replacing(arguments.settings, SETTINGS) as folder:
        write_settings(everything, folder)


def check(everything: Params) -> None:
    """Raise InputError if a run has invalid settings, or if runs do not fit other parts of params.yaml.

    `stages` must list the inputs to extract, and exactly the models to pre-train, that the runs need.
    `negatives.grammar` must have each dataset with a model that uses negatives.
    """
    runs = product(everything.datasets, everything.models)
    recipes = [resolving.resolve(everything, dataset, model) for dataset, model in runs]
    resolving.check_stages(everything, recipes)
    for recipe in recipes:
        resolving.check_built(everything, recipe)
        if recipe.asks_negatives:
            everything.negatives.of(recipe.dataset)


def write_code(out: Path) -> None:
    """Write the hashes of the source files that each stage runs."""
    names = sorted(path.stem for path in Path("stages").glob("*.py") if path.stem != "__init__")
    found = {name: source_code.of_stage(name, Path()) for name in names}
    with replacing(out, CODE) as folder:
        folder.mkdir()
        for name, files in found.items():
            write_json(folder / f"{name}.json", files)


def write_settings(everything: Params, folder: Path) -> None:
    """Write DATASET/SECTION.yaml, and pretraining-DATASET/STAGE.json for datasets of pre-training."""
    for dataset in everything.datasets:
        (folder / dataset).mkdir(parents=True)
        for name, section in sections(everything, dataset).items():
            (folder / dataset / f"{name}.yaml").write_text(yaml_of(section), encoding="utf-8")
    for dataset in everything.pretraining.datasets:
        for stage, hashes in watched.of_pretraining(everything, dataset).items():
            write_json(folder / f"pretraining-{dataset}" / f"{stage}.json", hashes)


def sections(everything: Params, dataset: str) -> dict[str, Any]:
    """Return a dataset's settings by section, with the hashes of the user's files of each section."""
    hashes = watched.of_dataset(everything, dataset)
    found: dict[str, Any] = everything.of(dataset).model_dump()
    return {name: section | hashes[name] if name in hashes else section for name, section in found.items()}


if __name__ == "__main__":
    run(main)
