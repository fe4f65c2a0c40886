"""Measure how many captions of a trained model are true, on new scenes.

python -m commands.truth --weights demo/clip4idc --scenes 100
    newly rendered scenes: 100 for each of the five kinds of change, and 100 unchanged pairs
python -m commands.truth --weights demo/clip4idc --scenes 50 --look blender --assets FOLDER
    the same, drawn by CLEVR's own renderer (docs/tabletop.md, "CLEVR's own renderer")
python -m commands.truth --weights demo/clip4idc --labelled FOLDER
    real images that you labelled in FOLDER/labels.jsonl (docs/evaluation.md, "Truth")
"""

from pathlib import Path

from commands import run
from pipeline.cli.arguments import SEEDS, beam, check_exist, new_parser, parsed, to_read, whole
from pipeline.config.params import LOOKS
from pipeline.io.errors import InputError, printable


def main() -> None:
    parser = new_parser("python -m commands.truth", __doc__)
    add = parser.add_argument
    add("--weights", type=to_read, required=True, help="a package, or trained weights")
    add("--lab", type=to_read, default=Path(), help="the repository that the weights belong to")
    add("--scenes", type=whole(1, 10_000), default=100, help="scenes of each kind of change (default: 100)")
    add("--seed", type=whole(*SEEDS), default=2026, help="seed of the scenes (default: 2026)")
    add("--look", choices=LOOKS, help="of the scenes (default: the first look of the training scenes)")
    add("--assets", type=to_read, help="the folder of CLEVR's files, for --look blender")
    kept = "a folder that keeps the drawn scenes, so that other weights are judged on the same images"
    add("--drawn", type=to_read, help=kept)
    add("--beam", type=beam, default=1, help="beam width (default: 1, greedy search)")
    add("--show", type=whole(0, 10_000), default=20, help="captions to print (default: 20)")
    add("--labelled", type=to_read, help="a folder of labelled images, in place of rendered scenes")
    arguments = parsed(parser)
    check_exist([arguments.weights], "name a folder of weights or a package, such as demo/clip4idc")
    check_exist([arguments.labelled], "name a folder of labelled images")
    # imported late: the import takes seconds, and the arguments are checked first
    from commands.demo import scene_settings
    from pipeline.captioning import judging
    from pipeline.captioning.pair_captioner import PairCaptioner, Search
    from pipeline.compute import devices
    from pipeline.demo import drawn_scenes

    devices.repeatable()
    captioner = PairCaptioner.load(arguments.weights, arguments.lab)
    if arguments.labelled:
        judged = judging.judged_labelled(captioner, arguments.labelled, Search(arguments.beam))
    else:
        settings = scene_settings({str(arguments.weights): captioner}, arguments.lab)
        if settings.seed == arguments.seed:
            raise InputError(f"--seed {arguments.seed} is the seed of the training scenes; name another")
        look = arguments.look or settings.looks[0]
        assets = str(arguments.assets) if arguments.assets else settings.assets
        settings = settings.model_copy(update={"seed": arguments.seed, "look": look, "assets": assets})
        judged = drawn_scenes.judge_new_scenes(
            captioner, settings, arguments.scenes, Search(arguments.beam), arguments.drawn
        )
    for pair, caption, verdict in judged[: arguments.show]:
        truth = "true" if verdict.true else f"not true ({', '.join(verdict.wrong)})"
        true_caption = pair.captions[0] if pair.captions else pair.pair_id
        print(printable(f"{pair.change_type}: {caption} | {truth} | {true_caption}"))
    print(printable("\n".join(judging.summary(judged))))


if __name__ == "__main__":
    run(main)
