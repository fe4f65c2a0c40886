"""Fine-tune the last layers of a backbone to predict the attributes of rendered objects.

To use the fine-tuned backbone, set features.weights to the file that this command writes. The stage prepare
writes the files for --pairs and --images (docs/cookbook.md, "Fine-tune the backbone").
"""

from pathlib import Path

from commands import run
from pipeline.cli.arguments import SEEDS, check_exist, new_parser, parsed, to_read, whole, word
from pipeline.datasets.images import read_named
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import images_of, of_split
from pipeline.io.outputs import file_to_write, replacing


def main() -> None:
    parser = new_parser("python -m commands.tune", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, default="tabletop", help="a rendered dataset")
    add("--pairs", type=to_read, required=True)
    add("--images", type=to_read, required=True, help="the index of the images")
    add("--scenes", type=to_read, required=True, help="the scenes.json that render wrote")
    add("--first", type=word, default="blocks.4", help="the first layer to train, by its name")
    add("--iterations", type=whole(1, 1_000_000), default=1000, help="each of 32 images")
    add("--seed", type=whole(*SEEDS), default=1)
    add("--out", type=file_to_write, required=True, help="a .safetensors file for the weights")
    arguments = parsed(parser)
    inputs = [arguments.pairs, arguments.images, arguments.scenes]
    check_exist(inputs, "run `dvc repro prepare` on a rendered dataset to make it")
    # imported late: the import takes seconds, and the arguments are checked first
    from safetensors.torch import save

    from pipeline.compute import devices
    from pipeline.compute.memory import keep_freed
    from pipeline.config import params
    from pipeline.config.store_contents import spec
    from pipeline.features import backbone_weights
    from pipeline.probe import cell_tuning, grid_labels

    devices.repeatable()
    keep_freed()
    settings = params.load()
    dataset = settings.of(arguments.dataset)
    store_spec = spec(settings.features, dataset)
    network, _ = backbone_weights.load(store_spec)
    images = read_named(arguments.images, images_of(of_split(read_pairs(arguments.pairs), "train")))
    scenes = grid_labels.read_scenes(arguments.scenes)
    classes = grid_labels.centres(scenes, images, backbone_weights.grid_shape(store_spec)[1:])
    data = cell_tuning.Labelled(Path(dataset.prepare.root), images, classes)
    cell_tuning.tune(network, arguments.first, store_spec, data, arguments.iterations, arguments.seed)
    with replacing(arguments.out) as scratch:
        scratch.write_bytes(save(cell_tuning.compact(network.network.state_dict())))
    print(f"{arguments.out}: set features.weights to it")


if __name__ == "__main__":
    run(main)
