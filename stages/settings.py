"""settings: write the files on which other stages depend.

DVC does not follow imports. So each stage has a file with the hashes of the source files that it
runs, and depends on this file.

The settings of a dataset have sections. Each section has a file with its resolved settings, and
with the hashes of the user's files that belong to it (stage watch).
"""

from itertools import product
from pathlib import Path
from typing import Any

from pipeline.cli.arguments import new_parser, parsed, to_read
from pipeline.config import params, resolving
from pipeline.config.params import Params
from pipeline.io import source_code
from pipeline.io.inputs import read_json
from pipeline.io.outputs import Contents, replacing, write_json, yaml_of
from stages import run

CODE, SETTINGS = Contents("code"), Contents("settings")
WATCH = "run `dvc repro watch` to make it"


def main() -> None:
    parser = new_parser("python -m stages.settings", __doc__)
    add = parser.add_argument
    add("--code", type=CODE.to_write, required=True, help="the folder to write, a file for each stage")
    add("--watched", type=to_read, required=True, help="folder of the hashes of the user's files")
    add("--settings", type=SETTINGS.to_write, required=True, help="folder to write; one folder per dataset")
    arguments = parsed(parser)
    write_code(arguments.code)
    everything = params.load()
    check(everything)
    with replacing(arguments.settings, SETTINGS) as folder:
        for dataset in everything.datasets:
            (folder / dataset).mkdir(parents=True)
            hashes = read_json(arguments.watched / f"{dataset}.json", WATCH)
            for name, section in sections(everything, hashes, dataset).items():
                (folder / dataset / f"{name}.yaml").write_text(yaml_of(section), encoding="utf-8")


def check(everything: Params) -> None:
    """Raise InputError if a run has invalid settings, or if runs do not fit other parts of params.yaml.

    `stages` must list the inputs to extract, and exactly the models to pre-train, that the runs need.
    `negatives.grammar` must have each dataset with a model that uses negatives.
    """
    runs = product(everything.datasets, everything.models)
    recipes = [resolving.resolve(everything, dataset, model) for dataset, model in runs]
    resolving.check_stages(everything, recipes)
    for recipe in recipes:
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


def sections(everything: Params, hashes: dict[str, dict[str, Any]], dataset: str) -> dict[str, Any]:
    """Return a dataset's settings by section, with the `hashes` of the user's files of each section."""
    found: dict[str, Any] = everything.of(dataset).model_dump()
    return {name: section | hashes[name] if name in hashes else section for name, section in found.items()}


if __name__ == "__main__":
    run(main)
