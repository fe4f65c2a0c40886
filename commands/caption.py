"""Caption your own images with trained weights: a folder that training wrote, or a shared package.

python -m commands.caption before.png after.png --weights demo/clip4idc
python -m commands.caption before.png after.png --weights demo/clip4idc --top 5 --overlay attention.png
python -m commands.caption --pairs pairs.csv --out captions.jsonl --weights data/weights/tabletop/scorer_cbr/1

If the weights have a confidence.json, the command also prints the probability that a caption is correct, and
refuses images that are unlike the training images (docs/evaluation.md, "Confidence").

--pairs: a table (.csv or .jsonl) with the columns `before` and `after`, a folder with pairs.csv or
pairs.jsonl, or a folder with the folders before/ and after/.
--out has one line per pair, and is written when all pairs are done; a stopped run resumes.
Exit code 1: some pairs have errors.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from commands import run
from pipeline.cli.arguments import (
    beam,
    check_exist,
    length_penalty,
    new_parser,
    parsed,
    part_of,
    probability,
    to_read,
)
from pipeline.io.errors import InputError, printable
from pipeline.io.outputs import file_to_write, replacing

if TYPE_CHECKING:
    from pipeline.captioning.pair_captioner import Limits, PairCaptioner, Search


def main() -> None:
    arguments = parsed(parser())
    check(arguments)
    # imported late: the import takes seconds, and the arguments are checked first
    from pipeline.captioning import many_pairs, pair_jobs
    from pipeline.captioning.pair_captioner import Limits, PairCaptioner, Search
    from pipeline.compute import devices

    devices.repeatable()
    search = Search(arguments.beam or arguments.top or 1, arguments.length_penalty)
    # check the pairs first, because loading weights takes seconds
    pairs = pair_jobs.jobs(arguments.pairs) if arguments.pairs else []
    captioner = PairCaptioner.load(arguments.weights, arguments.lab, arguments.confidence)
    limits = Limits(arguments.at_least, arguments.any_images)
    captioner.check_limits(search, limits)
    if not arguments.pairs:
        caption_pair(arguments, captioner, search, limits)
        return
    out, part = arguments.out, arguments.part
    if not many_pairs.caption(captioner, pairs, out, search, arguments.top, limits, part or (0, 1)):
        print(f"{out} is waiting for other parts")
        return
    failed = many_pairs.errors_in(out)
    print(f"{out}: {len(pairs)} pairs, {failed} of them with an error")
    sys.exit(1 if failed and not part else 0)


def parser() -> argparse.ArgumentParser:
    parser = new_parser("python -m commands.caption", __doc__)
    add = parser.add_argument
    add("before", type=to_read, nargs="?", help="the image before the change")
    add("after", type=to_read, nargs="?", help="the image after the change")
    add("--weights", type=to_read, required=True, help="a folder of weights, or a package")
    add("--lab", type=to_read, default=Path(), help="the repository that the folder of weights belongs to")
    add("--beam", type=beam, help="beam width (default: --top, or greedy search)")
    add("--length-penalty", type=length_penalty, default=0.0, help="as decode.length_penalty (default: 0)")
    add("--top", type=beam, metavar="K", help="print the K best captions and log-probabilities")
    at_least = "withhold captions that are correct with a probability below P"
    add("--at-least", type=probability, default=0.0, metavar="P", help=at_least)
    add("--any-images", action="store_true", help="also caption images unlike the training's")
    add("--confidence", type=to_read, help="a confidence.json in place of the weights' own")
    add("--json", action="store_true", help="print one JSON object")
    add("--overlay", type=file_to_write, help="an image file to write: the attention at each word")
    add("--pairs", type=to_read, help="many pairs: a table or a folder")
    add("--out", type=file_to_write, help="captions of --pairs: JSON Lines")
    add("--part", type=part_of, help="I/N: only this part (python -m commands.parts starts all parts)")
    return parser


def check(arguments: argparse.Namespace) -> None:
    """Raise InputError for arguments that cannot be combined, and for files that do not exist."""
    if arguments.top and arguments.beam and arguments.beam < arguments.top:
        raise InputError(f"--top {arguments.top} needs a --beam of at least {arguments.top}")
    if arguments.pairs:
        if arguments.before or arguments.overlay or arguments.json:
            raise InputError("--pairs cannot be combined with two images, --overlay or --json")
        if not arguments.out:
            raise InputError("--pairs needs --out FILE.jsonl")
    elif arguments.part:
        raise InputError("--part is for --pairs")
    elif not arguments.after:
        raise InputError("name a before and an after image, or --pairs")
    elif arguments.out:
        raise InputError("--out is for --pairs; the caption of two images is printed")
    check_exist([arguments.weights], "name a folder of weights or a package, such as demo/clip4idc")
    check_exist([arguments.confidence], "name a file that python -m commands.calibrate wrote")
    check_exist([arguments.pairs], "name a .csv or .jsonl of pairs, or a folder")
    check_exist([arguments.before, arguments.after], "name an image file")


def caption_pair(
    arguments: argparse.Namespace, captioner: "PairCaptioner", search: "Search", limits: "Limits"
) -> None:
    """Caption two images: print the caption and, with --overlay, draw the attention."""
    from pipeline.captioning import overlay
    from pipeline.captioning.feature_backbone import opened, rotation_warning

    before, after = opened(arguments.before), opened(arguments.after)
    if warning := rotation_warning(before, after):
        print(f"warning: {warning}", file=sys.stderr)
    answer = captioner.answer(before, after, limits, search)
    is_ranked = arguments.top and answer.caption is not None
    ranked = captioner.ranked(before, after, arguments.top, search) if is_ranked else []
    if arguments.overlay and answer.attended is None:
        print(f"warning: {arguments.overlay} is not written, because there is no caption", file=sys.stderr)
    elif arguments.overlay and answer.attended:
        sheet = overlay.drawn(before, after, answer.attended)
        with replacing(arguments.overlay) as temporary_path:
            sheet.save(temporary_path, "PNG")
    if arguments.json:
        top = [{"caption": item.caption, "log_probability": item.log_probability} for item in ranked]
        names = {"before": str(arguments.before), "after": str(arguments.after)}
        record = names | answer.record | {"words": answer.attended.words if answer.attended else []}
        print(printable(json.dumps(record | ({"top": top} if top else {}), ensure_ascii=False)))
    elif ranked:
        for item in ranked:
            print(f"{item.log_probability:9.3f}  {printable(item.caption) or '(a caption without words)'}")
    else:
        print(printable(answer.text))


if __name__ == "__main__":
    run(main)
