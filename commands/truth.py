"""The share of true captions of trained weights, on scenes that no training saw.

python -m commands.truth --weights demo/scorer_cbr --scenes 100
    scenes drawn now: so many of each of the five kinds of change, and as many pairs without a change
python -m commands.truth --weights demo/scorer_cbr --labelled FOLDER
    real images that you labelled in FOLDER/labels.jsonl (docs/evaluation.md, "Truth")
"""

import argparse
from pathlib import Path

from commands import run
from commands.demo import settings
from pipeline.captioning import judging
from pipeline.captioning.judging import Judged
from pipeline.captioning.picture_captioner import PictureCaptioner, Search
from pipeline.cli.arguments import SEEDS, beam, parsed, to_read, whole
from pipeline.compute import devices
from pipeline.demo import drawn_scenes
from pipeline.io.errors import InputError, printable


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter, prog="python -m commands.truth"
    )
    parser.add_argument("--weights", type=to_read, required=True, help="a package, or trained weights")
    parser.add_argument(
        "--lab", type=to_read, default=Path(), help="the repository that the weights belong to"
    )
    parser.add_argument("--scenes", type=whole(1, 10_000), default=100, help="of each kind (100)")
    parser.add_argument("--seed", type=whole(*SEEDS), default=2026, help="of the scenes (2026)")
    parser.add_argument("--beam", type=beam, default=1, help="1 = greedy search (the default)")
    parser.add_argument("--show", type=whole(0, 10_000), default=20, help="captions to print (20)")
    parser.add_argument(
        "--labelled", type=to_read, help="a folder of labelled images, in place of drawn scenes"
    )
    arguments = parsed(parser)
    devices.repeatable()
    captioner = PictureCaptioner.load(arguments.weights, arguments.lab)
    if arguments.labelled:
        found = judging.judged_labelled(captioner, arguments.labelled, Search(arguments.beam))
        print(printable("\n".join([*map(line, found[: arguments.show]), *judging.summary(found)])))
        return
    drawn = settings({str(arguments.weights): captioner}, arguments.lab)
    if drawn.seed == arguments.seed:
        raise InputError(f"--seed {arguments.seed} is that of the training's scenes; name another")
    drawn = drawn.model_copy(update={"seed": arguments.seed})
    found = drawn_scenes.judged(captioner, drawn, arguments.scenes, Search(arguments.beam))
    print(printable("\n".join([*map(line, found[: arguments.show]), table(found)])))


def line(told: Judged) -> str:
    """One caption, whether it is true, and what happened."""
    kind, pair, caption, verdict = told
    said = "true" if verdict.true else f"not true ({verdict.wrong})"
    return f"{kind}: {caption} | {said} | {pair.captions[0] if pair.captions else pair.pair_id}"


def table(found: list[Judged]) -> str:
    """The share of true captions by kind, percent."""
    rows = [f"{name:<10}{100 * share:>6.1f}" for name, share in drawn_scenes.shares(found).items()]
    return "\n".join(["true of   percent", *rows])


if __name__ == "__main__":
    run(main)
