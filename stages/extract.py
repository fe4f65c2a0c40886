"""extract@dataset: run ResNet-101 over the images of a dataset into its feature store."""

import argparse
import time
from pathlib import Path

import torch

from pipeline import devices, features, params, provenance
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.images import read_index
from pipeline.spec import spec
from pipeline.store import Writer
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help="the index of its images")
    parser.add_argument("--out", type=Path, required=True, help="the store to write, a Zarr group")
    parser.add_argument("--provenance", type=Path, required=True, help="where to say how it was made")
    extract(parser.parse_args())


def extract(arguments: argparse.Namespace) -> None:
    start = time.monotonic()
    devices.repeatable()
    everything = params.load()
    dataset, settings = everything.of(arguments.dataset), everything.features
    wanted = spec(settings, dataset)
    index = read_index(arguments.images)
    train = set(images_of(of_split(read_pairs(arguments.pairs), "train")))
    calibration = [image for image in index if image.name in train]
    root = Path(dataset.prepare.root)

    network, weights_id = features.backbone(wanted, settings.seed, root, calibration)
    extractor = features.Extractor(network, root, index, wanted.size, settings.precision)
    described = features.attributes(wanted, weights_id, extractor.dtype, index)
    folder = provenance.scratch("extract", repr(described), str(torch.get_num_threads()))
    writer = Writer(folder, len(index), features.grid_shape(wanted))
    extractor.fill(writer)
    writer.finish(arguments.out, described)
    provenance.write(arguments.provenance, time.monotonic() - start, images=len(index))


if __name__ == "__main__":
    run(main)
