"""extract@dataset: fill a dataset's feature store, by ResNet-101 or from the .npy files of others.

On several GPUs: torchrun --nproc-per-node 4 -m stages.extract ... (the command of dvc.yaml).
"""

import argparse
import time
from pathlib import Path

import torch

from pipeline import devices, features, npy, params, provenance
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.images import Indexed, read_index
from pipeline.ranks import Ranks, join
from pipeline.spec import Spec, spec
from pipeline.store import Writer
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help="the index of its images")
    parser.add_argument("--out", type=Path, required=True, help="the store to write, a Zarr group")
    parser.add_argument("--provenance", type=Path, required=True, help="where to say how it was made")
    arguments = parser.parse_args()
    start = time.monotonic()
    devices.repeatable()
    ranks = join()
    everything = params.load()
    dataset = everything.of(arguments.dataset)
    wanted = spec(everything.features, dataset)
    index = read_index(arguments.images)
    if dataset.features.npy is None:
        extract(arguments, everything.features, Path(dataset.prepare.root), wanted, index, ranks)
    elif ranks.rank == 0:
        take_over(Path(dataset.features.npy), arguments.out, wanted, index)
    if ranks.rank == 0:
        seconds = time.monotonic() - start
        provenance.write(arguments.provenance, seconds, images=len(index), processes=ranks.world)
    ranks.leave()


def extract(
    arguments: argparse.Namespace,
    settings: params.Features,
    root: Path,
    wanted: Spec,
    index: list[Indexed],
    ranks: Ranks,
) -> None:
    train = set(images_of(of_split(read_pairs(arguments.pairs), "train")))
    calibration = [image for image in index if image.name in train]
    network, weights_id = features.backbone(wanted, settings.seed, root, calibration)
    ranks.agree(network)
    extractor = features.Extractor(network, root, index, wanted, settings.precision)
    described = features.attributes(wanted, weights_id, extractor.dtype, index)
    folder = provenance.scratch("extract", repr(described), str(torch.get_num_threads()))
    features.extract(extractor, ranks, folder, arguments.out, described)


def take_over(folder: Path, out: Path, wanted: Spec, index: list[Indexed]) -> None:
    shape = features.grid_shape(wanted)
    files = npy.locate(folder, [image.name for image in index], shape)
    scratch = provenance.scratch("import", repr(wanted), repr(index), npy.fingerprint(files))
    writer = Writer(scratch, len(index), shape)
    importer = npy.Importer(files, shape, writer)
    weights_id = importer.fill()
    writer.finish(out, features.imported_attributes(wanted, weights_id, index))
    importer.forget()


if __name__ == "__main__":
    run(main)
