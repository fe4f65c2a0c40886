"""extract_pretraining@dataset: fill the store of a dataset that pre-training alone sees, by a backbone."""

import argparse
from pathlib import Path

from pipeline.cli.arguments import parsed, to_read
from pipeline.config import params
from pipeline.config.store_contents import Spec, chosen
from pipeline.datasets.cub_nabirds import IMAGES
from pipeline.datasets.images import read_index
from pipeline.io import named_files
from stages import run
from stages.extract import add_outputs, extract, make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, choices=("cub", "nabirds"))
    parser.add_argument("--records", type=to_read, required=True, help="the folder of prepare_pretraining")
    add_outputs(parser)
    arguments = parsed(parser)
    everything = params.load()
    named_files.link(everything.model_dump())  # `plan` may not have run yet
    own, settings = everything.pretraining, everything.features
    wanted = Spec(**chosen(settings, own), standardise=False, resize=settings.resize, size=settings.size)
    root, index = Path(own.root[arguments.dataset]), read_index(arguments.records / IMAGES)
    precision = settings.precision or "auto"
    make(arguments, lambda ranks: extract(arguments.out, precision, root, wanted, index, [], ranks))


if __name__ == "__main__":
    run(main)
