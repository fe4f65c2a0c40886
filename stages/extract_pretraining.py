"""extract_pretraining@dataset: fill the store of a dataset that pre-training alone sees, by a backbone."""

import argparse
import time
from pathlib import Path

from pipeline import params
from pipeline.compute import devices
from pipeline.compute.memory import keep_freed
from pipeline.compute.process_group import join
from pipeline.datasets.images import read_index
from pipeline.datasets.pretraining_schema import IMAGES
from pipeline.features.store_contents import Spec, chosen
from pipeline.features.writer import CONTENTS
from pipeline.outputs import file_to_write
from pipeline.scratch_folders import alone
from stages import run
from stages.extract import extract, finish


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, choices=("cub", "nabirds"))
    parser.add_argument("--records", type=Path, required=True, help="the folder of prepare_pretraining")
    parser.add_argument(
        "--out", type=CONTENTS.to_write, required=True, help="the store to write, a Zarr group"
    )
    parser.add_argument("--provenance", type=file_to_write, required=True, help="to write: how it was made")
    arguments = parser.parse_args()
    start = time.monotonic()
    devices.repeatable()
    keep_freed()
    ranks = join()
    everything = params.load()
    own, settings = everything.pretraining, everything.features
    wanted = Spec(**chosen(settings, own), standardise=False, resize=settings.resize, size=settings.size)
    root, index = Path(own.root[arguments.dataset]), read_index(arguments.records / IMAGES)
    with alone(arguments.out, first=ranks.rank == 0) as still_alone:
        made = extract(arguments.out, settings.precision or "auto", root, wanted, index, [], ranks)
        if ranks.rank == 0:
            finish(arguments, start, made, ranks, still_alone)
    ranks.leave()


if __name__ == "__main__":
    run(main)
