"""start@dataset-model-seed: which store a cell reads, by hash: its other stages then see no other store.

Where it starts from CLIP's weights, these are named beside it.
"""

import argparse
from pathlib import Path

from pipeline.errors import InputError
from pipeline.features.object_storage import store_of
from pipeline.outputs import read_yaml, write_json
from pipeline.provenance import sha256
from pipeline.recipes import clip_start
from stages import run

RECORDS = ("zarr.json", "features/zarr.json")  # every image's hash, what was made of it, every shard's size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True, help="the folder of the dataset's stores")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    arguments = parser.parse_args()
    recipe = read_yaml(arguments.recipe, "run `dvc repro recipe` to make it")
    name, wanted = recipe["model"], recipe["features"]["input"]
    store = Path(store_of(arguments.features, wanted))
    if missing := [record for record in RECORDS if not (store / record).is_file()]:
        raise InputError(
            f"{store / missing[0]} is missing, and {name} reads {wanted}; "
            f"add {wanted} to `inputs` in params.yaml, and run `dvc repro extract`"
        )
    record = sha256(*[(store / record).read_bytes() for record in RECORDS])
    first = recipe.get("adapt") or recipe["train"]
    weights = {"clip": clip_start.identity(Path(first["start"]))} if "start" in first else {}
    write_json(arguments.out, {"input": wanted, "sha256": record} | weights)


if __name__ == "__main__":
    run(main)
