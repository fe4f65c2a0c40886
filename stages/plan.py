"""plan@dataset: what its settings amount to, and what the listed models need of it, for stages to compare.

A dataset stands in params.yaml, in datasets.yaml, or in both, and may be `like` another: DVC could not watch
it. Nor could it watch the files that the settings name: their hashes stand beside the settings.
"""

import argparse
from collections.abc import Iterable

from pipeline.cli.arguments import parsed, word
from pipeline.config import params, resolving
from pipeline.config.recipe_file import Recipe
from pipeline.io import named_files
from pipeline.io.outputs import Contents, replacing, yaml_of
from stages import run

NEEDS = ("grid", "pixels", "negatives")  # which of its stores some model reads, and whether its negatives
CONTENTS = Contents("plan")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--out", type=CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parsed(parser)
    everything = params.load()
    found = everything.of(arguments.dataset).model_dump()
    tree = everything.model_dump()
    named_files.link(tree)
    for section, files in named_files.of_dataset(tree, arguments.dataset).items():
        if files:
            found[section] |= {"files": named_files.hashes(files)}
    recipes = [resolving.resolve(everything, arguments.dataset, model) for model in everything.models]
    found |= {f"needs/{name}": wanted for name, wanted in needs(recipes).items()}
    with replacing(arguments.out, CONTENTS) as folder:
        (folder / "needs").mkdir(parents=True)
        for name, section in found.items():
            (folder / f"{name}.yaml").write_text(yaml_of(section), encoding="utf-8")


def needs(recipes: Iterable[Recipe]) -> dict[str, bool]:
    """Of each of NEEDS whether one of the recipes asks for it."""
    found = dict.fromkeys(NEEDS, False)
    for recipe in recipes:
        found[recipe.input] = True
        found["negatives"] |= recipe.asks_negatives
    return found


if __name__ == "__main__":
    run(main)
