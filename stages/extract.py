"""extract@dataset-input: fill a feature store from a backbone, from imported .npy files, or with pixels.

On several GPUs: torchrun --nproc-per-node 4 -m stages.extract ... (the command of dvc.yaml).
On a cluster, as independent jobs: python -m commands.parts --parts 8 --on slurm extract ...
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.cli.arguments import new_parser, parsed, part_of, to_read, word
from pipeline.compute import devices
from pipeline.compute.memory import keep_freed
from pipeline.compute.process_group import Part, Ranks, joined
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
Filled = tuple[Writer, dict[str, Any]]  # a filled store, and its attributes


def main() -> None:
    parser = new_parser("python -m stages.extract", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    add("--input", choices=(GRID, PIXELS), default=GRID)
    add("--pairs", type=to_read)
    add("--images", type=to_read, help="the index of the dataset's images")
    add("--records", type=to_read, help="of cub or nabirds: the folder of records (no --pairs, no --images)")
    add("--out", type=CONTENTS.to_write, required=True, help="the store to write, a Zarr group")
    add("--provenance", type=file_to_write, required=True, help="file of provenance to write")
    add("--part", type=part_of, help="I/N: only these shards (python -m commands.parts starts all parts)")
    arguments = parsed(parser)
    if not arguments.records and not (arguments.pairs and arguments.images):
        parser.error("the following arguments are required: --pairs and --images, or --records")
    start = time.monotonic()
    devices.repeatable()
    keep_freed()
    if arguments.part:
        extract_part(arguments, start)
    else:
        extract_together(arguments, start)


def extract_together(arguments: argparse.Namespace, start: float) -> None:
    """Let all processes fill a store, and move it to --out; `start`: time.monotonic()."""
    with joined() as ranks, output_lock(arguments.out, is_first=ranks.rank == 0):
        filled = fill(arguments, ranks)
        if filled is not None and ranks.rank == 0:
            finish(arguments, start, filled, ranks)


def extract_part(arguments: argparse.Namespace, start: float) -> None:
    """Fill the shards of one part. The part that fills the last missing shard moves the store to --out.

    `start` is time.monotonic() at the start of the stage. It gives the run time in the provenance.
    """
    index, count = arguments.part
    part = Part(index, count, turn=partial(output_lock, arguments.out, wait=True))
    filled = fill(arguments, part)
    with output_lock(arguments.out, wait=True):
        if filled is not None and not filled[0].missing:
            finish(arguments, start, filled, part)


def fill(arguments: argparse.Namespace, ranks: Ranks) -> Filled | None:
    """Fill a store with the features or the pixels of a dataset. Return its writer and its attributes.

    The arguments and params.yaml determine the content: features of a backbone, features from .npy
    files, or pixels. Only process 0 imports .npy files; the other processes then return None.
    """
    if arguments.records:
        return fill_pretraining(arguments, ranks)
    settings = params.load()
    dataset = settings.of(arguments.dataset)
    index = read_index(arguments.images)
    root = Path(dataset.prepare.root)
    if arguments.input == PIXELS:
        pixels = pixel_spec(settings.features, dataset)
        attributes = extraction.store_attributes(pixels, index)
        folder = provenance.scratch(STAGE, arguments.out, "pixels", repr(attributes))
        return extraction.extract_pixels(root, index, pixels, ranks, folder), attributes
    store_spec = spec(settings.features, dataset)
    if dataset.features.npy is None:
        train = set(images_of(of_split(read_pairs(arguments.pairs), "train")))
        standard = [image for image in index if image.name in train]
        precision = settings.features_of(arguments.dataset).precision or "auto"
        return extract(arguments.out, precision, root, store_spec, index, standard, ranks)
    if ranks.rank == 0:
        return import_npy(Path(dataset.features.npy), arguments.out, store_spec, index)
    return None


def fill_pretraining(arguments: argparse.Namespace, ranks: Ranks) -> Filled:
    """Fill the store of a dataset that only pre-training uses. Return its writer and its attributes.

    The section `pretraining` of params.yaml has the settings. `ranks` is this process's place in its
    process group. Raises InputError if pretraining.root lacks the dataset.
    """
    params_tree = params.load()
    pretraining, settings = params_tree.pretraining, params_tree.features
    if arguments.dataset not in pretraining.root:
        raise InputError(f"params.yaml: pretraining.root has no {arguments.dataset}; add it")
    backbone = chosen(settings, pretraining)
    store_spec = Spec(**backbone, standardise=False, resize=settings.resize, size=settings.size)
    index = read_index(arguments.records / IMAGES)
    root, precision = Path(pretraining.root[arguments.dataset]), settings.precision or "auto"
    return extract(arguments.out, precision, root, store_spec, index, [], ranks)


def finish(arguments: argparse.Namespace, start: float, filled: Filled, ranks: Ranks) -> None:
    """Write the provenance, then move the store to --out. If writing fails, the filled store is kept.

    `start` is the time.monotonic() at which the stage started. `ranks` has the number of processes.
    """
    writer, attributes = filled
    counts = {"images": len(attributes["keys"]), "processes": ranks.world}
    provenance.write(STAGE, arguments.provenance, time.monotonic() - start, **counts)
    writer.finish(arguments.out, attributes)
    clear(arguments.out)


def extract(
    out: Path,
    precision: str,
    root: Path,
    store_spec: Spec,
    index: list[Indexed],
    train: list[Indexed],
    ranks: Ranks,
) -> Filled:
    """Fill a store with a backbone's feature grids. Return its writer and its attributes.

    precision: "bfloat16", "float32" or "auto"
    train: images whose statistics standardise the features, if `store_spec` asks for this
    ranks: this process's place in the group of processes that fill the store
    """
    network, weights_id = backbone_weights.load(store_spec)
    extractor = extraction.Extractor(network, root, index, store_spec, precision)
    if extractor.network.folded is None and ranks.rank == 0:
        fault = f"torch.fx cannot trace {store_spec.backbone}, so its batch norms are not folded"
        print(f"warning: features.backbone: {fault}; extraction is slower", file=sys.stderr)
    extractor.standardise(ranks, train)
    attributes = extraction.attributes(extractor, weights_id)
    folder = provenance.scratch(STAGE, out, "extract", repr(attributes), devices.identity())
    return extraction.extract(extractor, ranks, folder), attributes


def import_npy(folder: Path, out: Path, store_spec: Spec, index: list[Indexed]) -> Filled:
    """Fill a store with features from the .npy files in `folder`. Return its writer and its attributes.

    The store is in a temporary folder until `finish` moves it to `out`. Raises InputError if an image
    of `index` has no file, or a wrong file.
    """
    shape = grid_shape(store_spec)
    files = npy_import.locate(folder, [image.name for image in index], shape)
    keys = ("import", repr(store_spec), repr(index), npy_import.fingerprint(files))
    scratch = provenance.scratch(STAGE, out, *keys)
    writer = Writer(scratch, len(index), shape)
    weights_id = npy_import.take_over(files, shape, writer)
    return writer, extraction.imported_attributes(store_spec, weights_id, index)


if __name__ == "__main__":
    run(main)
