"""extract@dataset-input: fill a feature store from a backbone, from imported .npy files, or with pixels.

On several GPUs: torchrun --nproc-per-node 4 -m stages.extract ... (the command of dvc.yaml).
On a cluster, as independent jobs: python -m commands.parts --parts 8 --on slurm extract ...
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.cli.arguments import parsed, part_of, to_read, word
from pipeline.compute import devices
from pipeline.compute.memory import keep_freed
from pipeline.compute.process_group import Part, Ranks, join
from pipeline.config import params
from pipeline.config.store_contents import GRID, PIXELS, Spec, chosen, pixel_spec, spec
from pipeline.datasets.cub_nabirds import IMAGES
from pipeline.datasets.images import Indexed, read_index
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import images_of, of_split
from pipeline.features import backbone_weights, extraction, npy_import
from pipeline.features.backbone_weights import grid_shape
from pipeline.features.writer import CONTENTS, Writer
from pipeline.io import provenance
from pipeline.io.errors import InputError
from pipeline.io.outputs import file_to_write
from pipeline.io.scratch_folders import clear, output_lock
from stages import run

STAGE = "extract"
Made = tuple[Writer, dict[str, Any]]  # a filled store, and its attributes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--input", choices=(GRID, PIXELS), default=GRID)
    parser.add_argument("--pairs", type=to_read)
    parser.add_argument("--images", type=to_read, help="the index of the dataset's images")
    parser.add_argument(
        "--records",
        type=to_read,
        help="for cub or nabirds, in place of --pairs and --images: the folder of their records",
    )
    parser.add_argument(
        "--out", type=CONTENTS.to_write, required=True, help="the store to write, a Zarr group"
    )
    parser.add_argument("--provenance", type=file_to_write, required=True, help="file of provenance to write")
    parser.add_argument(
        "--part", type=part_of, help="I/N: only these shards (python -m commands.parts starts all parts)"
    )
    arguments = parsed(parser)
    if not arguments.records and not (arguments.pairs and arguments.images):
        parser.error("the following arguments are required: --pairs and --images, or --records")
    filling = fill_pretraining if arguments.records else fill
    make(arguments, lambda ranks: filling(arguments, ranks))


def make(arguments: argparse.Namespace, fill: Callable[[Ranks], Made | None]) -> None:
    """Let all processes fill a store together. The first process then moves the store to --out."""
    start = time.monotonic()
    devices.repeatable()
    keep_freed()
    if arguments.part:
        make_part(arguments, start, fill)
        return
    ranks = join()
    with output_lock(arguments.out, first=ranks.rank == 0):
        made = fill(ranks)
        if made is not None and ranks.rank == 0:
            finish(arguments, start, made, ranks)
    ranks.leave()


def make_part(arguments: argparse.Namespace, start: float, fill: Callable[[Ranks], Made | None]) -> None:
    """Fill the shards of one part. The part that fills the last missing shard moves the store to --out."""
    out: Path = arguments.out
    index, count = arguments.part
    part = Part(index, count, turn=partial(output_lock, out, wait=True))
    made = fill(part)
    if made is None:
        return
    with output_lock(out, wait=True):
        if not made[0].missing:
            finish(arguments, start, made, part)


def fill(arguments: argparse.Namespace, ranks: Ranks) -> Made | None:
    """Fill a store by the dataset's settings. With .npy files, all but the first process return None."""
    everything = params.load()
    dataset = everything.of(arguments.dataset)
    index = read_index(arguments.images)
    root = Path(dataset.prepare.root)
    if arguments.input == PIXELS:
        pixels = pixel_spec(everything.features, dataset)
        described = extraction.store_attributes(pixels, index)
        folder = provenance.scratch(STAGE, arguments.out, "pixels", repr(described))
        return extraction.extract_pixels(root, index, pixels, ranks, folder), described
    wanted = spec(everything.features, dataset)
    if dataset.features.npy is None:
        train = set(images_of(of_split(read_pairs(arguments.pairs), "train")))
        standard = [image for image in index if image.name in train]
        precision = everything.features_of(arguments.dataset).precision or "auto"
        return extract(arguments.out, precision, root, wanted, index, standard, ranks)
    if ranks.rank == 0:
        return take_over(Path(dataset.features.npy), arguments.out, wanted, index)
    return None


def fill_pretraining(arguments: argparse.Namespace, ranks: Ranks) -> Made:
    """Fill the store of a dataset that only pre-training uses, by the settings in `pretraining`."""
    everything = params.load()
    own, settings = everything.pretraining, everything.features
    if arguments.dataset not in own.root:
        raise InputError(f"params.yaml: pretraining.root has no {arguments.dataset}; add it")
    wanted = Spec(**chosen(settings, own), standardise=False, resize=settings.resize, size=settings.size)
    index = read_index(arguments.records / IMAGES)
    root, precision = Path(own.root[arguments.dataset]), settings.precision or "auto"
    return extract(arguments.out, precision, root, wanted, index, [], ranks)


def finish(arguments: argparse.Namespace, start: float, made: Made, ranks: Ranks) -> None:
    """Write the provenance, then move the store to --out. If writing fails, the filled store is kept."""
    writer, described = made
    images = len(described["keys"])
    seconds = time.monotonic() - start
    provenance.write(STAGE, arguments.provenance, seconds, images=images, processes=ranks.world)
    writer.finish(arguments.out, described)
    clear(arguments.out)


def extract(
    out: Path,
    precision: str,
    root: Path,
    wanted: Spec,
    index: list[Indexed],
    train: list[Indexed],
    ranks: Ranks,
) -> Made:
    """Fill a store with a backbone's feature grids, standardised by the statistics of the images `train`."""
    network, weights_id = backbone_weights.load(wanted)
    extractor = extraction.Extractor(network, root, index, wanted, precision)
    if extractor.network.folded is None and ranks.rank == 0:
        print(
            f"warning: features.backbone: torch.fx cannot trace {wanted.backbone}, so its batch norms are "
            "not folded into its convolutions; extraction is slower",
            file=sys.stderr,
        )
    extractor.standardise(ranks, train)
    described = extraction.attributes(extractor, weights_id)
    folder = provenance.scratch(STAGE, out, "extract", repr(described), devices.identity())
    return extraction.extract(extractor, ranks, folder), described


def take_over(folder: Path, out: Path, wanted: Spec, index: list[Indexed]) -> Made:
    """Fill a store with features from .npy files."""
    shape = grid_shape(wanted)
    files = npy_import.locate(folder, [image.name for image in index], shape)
    scratch = provenance.scratch(
        STAGE, out, "import", repr(wanted), repr(index), npy_import.fingerprint(files)
    )
    writer = Writer(scratch, len(index), shape)
    weights_id = npy_import.take_over(files, shape, writer)
    return writer, extraction.imported_attributes(wanted, weights_id, index)


if __name__ == "__main__":
    run(main)
