"""extract@dataset-input: fill the store of an input: a backbone's grids (or others' .npy files), or pixels.

On several GPUs: torchrun --nproc-per-node 4 -m stages.extract ... (the command of dvc.yaml).
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch

from pipeline import outputs, params, provenance
from pipeline.compute import devices
from pipeline.compute.kept_memory import keep_freed
from pipeline.compute.process_group import Ranks, join
from pipeline.datasets.images import Indexed, read_index
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.features import backbone_weights, extraction, npy_import, pixel_extraction
from pipeline.features.store_contents import GRID, PIXELS, PixelSpec, Spec, pixel_spec, spec
from pipeline.features.writer import Writer
from stages import run

STAGE = "extract"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--input", choices=(GRID, PIXELS), default=GRID)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help="the index of its images")
    parser.add_argument("--out", type=Path, required=True, help="the store to write, a Zarr group")
    parser.add_argument("--provenance", type=Path, required=True, help="where to say how it was made")
    arguments = parser.parse_args()
    start = time.monotonic()
    devices.repeatable()
    keep_freed()
    ranks = join()
    everything = params.load()
    dataset = everything.of(arguments.dataset)
    index = read_index(arguments.images)
    root = Path(dataset.prepare.root)
    if arguments.input == PIXELS:
        made = take_pixels(arguments.out, root, pixel_spec(everything.features, dataset), index, ranks)
    elif dataset.features.npy is None:
        wanted = spec(everything.features, dataset)
        train = set(images_of(of_split(read_pairs(arguments.pairs), "train")))
        standard = [image for image in index if image.name in train]
        precision = everything.features_of(arguments.dataset).precision or "auto"
        made = extract(arguments.out, precision, root, wanted, index, standard, ranks)
    elif ranks.rank == 0:
        wanted = spec(everything.features, dataset)
        made = take_over(Path(dataset.features.npy), arguments.out, wanted, index)
    if ranks.rank == 0:
        finish(arguments, start, made, ranks)
    ranks.leave()


def finish(
    arguments: argparse.Namespace, start: float, made: tuple[Writer, dict[str, Any]], ranks: Ranks
) -> None:
    """Put the store in its place, last: where the other file cannot be written, the work on it is kept."""
    writer, described = made
    images = len(described["keys"])
    seconds = time.monotonic() - start
    provenance.write(STAGE, arguments.provenance, seconds, images=images, processes=ranks.world)
    writer.finish(arguments.out, described)
    outputs.clear(arguments.out)


def extract(
    out: Path,
    precision: str,
    root: Path,
    wanted: Spec,
    index: list[Indexed],
    train: list[Indexed],
    ranks: Ranks,
) -> tuple[Writer, dict[str, Any]]:
    """The filled store, and its attributes."""
    network, weights_id = backbone_weights.load(wanted)
    extractor = extraction.Extractor(network, root, index, wanted, precision)
    extractor.standardise(ranks, train)
    described = extraction.attributes(extractor, weights_id)
    folder = provenance.scratch(STAGE, out, "extract", repr(described), str(torch.get_num_threads()))
    return extraction.extract(extractor, ranks, folder), described


def take_pixels(
    out: Path, root: Path, wanted: PixelSpec, index: list[Indexed], ranks: Ranks
) -> tuple[Writer, dict[str, Any]]:
    """The same of pixels."""
    described = pixel_extraction.attributes(wanted, index)
    folder = provenance.scratch(STAGE, out, "pixels", repr(described))
    threads = os.cpu_count() or 1
    return pixel_extraction.extract(root, index, wanted, ranks, folder, threads), described


def take_over(folder: Path, out: Path, wanted: Spec, index: list[Indexed]) -> tuple[Writer, dict[str, Any]]:
    """The same, from files."""
    shape = extraction.grid_shape(wanted)
    files = npy_import.locate(folder, [image.name for image in index], shape)
    scratch = provenance.scratch(
        STAGE, out, "import", repr(wanted), repr(index), npy_import.fingerprint(files)
    )
    writer = Writer(scratch, len(index), shape)
    weights_id = npy_import.Importer(files, shape, writer).fill()
    return writer, extraction.imported_attributes(wanted, weights_id, index)


if __name__ == "__main__":
    run(main)
