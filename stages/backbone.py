"""backbone@dataset: train ResNet-101, for features.weights, to name what each cell of an image shows."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

import torch

from pipeline import params, provenance
from pipeline.backbone import pretraining
from pipeline.backbone.pretraining import Labelled, Naming
from pipeline.compute import devices
from pipeline.datasets.images import Indexed, read_named
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.features.extraction import grid_shape
from pipeline.features.store_contents import Spec
from pipeline.outputs import clear
from pipeline.tabletop import grid_labels
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help="the index of its images")
    parser.add_argument("--out", type=Path, required=True, help="the weights to write, safetensors")
    parser.add_argument("--provenance", type=Path, required=True, help="where to say how they were made")
    train(parser.parse_args())


def train(arguments: argparse.Namespace) -> None:
    start = time.monotonic()
    devices.repeatable()
    everything = params.load()
    settings, features = everything.backbone, everything.features
    wanted = Spec(str(arguments.out), features.layer, features.resize, features.size)
    root = Path(everything.of(arguments.dataset).prepare.root)
    scenes = grid_labels.read_scenes(root / "scenes.json")
    pairs = read_pairs(arguments.pairs)
    names = {split: images_of(of_split(pairs, split)) for split in ("train", "val")}
    indexed = {split: read_named(arguments.images, own) for split, own in names.items()}
    data = {split: read(root, scenes, images, wanted) for split, images in indexed.items()}

    inputs = [path.read_bytes() for path in (arguments.pairs, arguments.images, root / "scenes.json")]
    scratch = provenance.scratch(arguments.out, *inputs, settings.model_dump_json(), repr(wanted))
    training = Naming(pretraining.build(wanted, settings.seed), settings, scratch / "state.pt")
    training.run(data["train"])
    training.calibrate(data["train"].images)
    accuracy = training.accuracy(data["val"])

    made = asdict(wanted) | settings.model_dump(exclude={"datasets"}) | {"dataset": arguments.dataset}
    made |= {"train_images": len(data["train"]), "validation_accuracy": accuracy}
    pretraining.save(arguments.out, training.namer.backbone, made)
    facts = made | {"curve": training.curve, "dtype": str(training.dtype)}
    provenance.write(arguments.provenance, time.monotonic() - start, **facts)
    clear(arguments.out)
    print(summary(training.curve, accuracy))


def read(root: Path, scenes: dict[str, grid_labels.Shown], images: list[Indexed], wanted: Spec) -> Labelled:
    labels = torch.from_numpy(grid_labels.label(scenes, images, grid_shape(wanted)[1:]))
    return Labelled(pretraining.read_images(root, images, wanted), labels)


def summary(curve: list[dict[str, float]], accuracy: dict[str, float]) -> str:
    """The first and last mean loss of each head, and what it names rightly on the validation images."""
    rows = [
        f"{name:<10}{curve[0][name]:>11.3f}{curve[-1][name]:>10.3f}{right:>10.3f}"
        for name, right in accuracy.items()
    ]
    return "\n".join(["attribute  first loss      last  accuracy (val)", *rows])


if __name__ == "__main__":
    run(main)
