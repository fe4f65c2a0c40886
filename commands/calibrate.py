"""Fit the probability that a caption is correct, and the limits beyond which an image is refused.

An image is refused if it is unlike the training images. The result is confidence.json.

python -m commands.calibrate --weights data/weights/tabletop/scorer_cbr/1
    fitted to the laboratory's validation pairs, and measured on its test pairs
python -m commands.calibrate --weights demo/clip4idc --labelled FOLDER --out mine.json
    refitted to your own labelled pairs (docs/cookbook.md, "Recalibrate on 50 pairs of your own")
"""

from pathlib import Path

from commands import run
from pipeline.cli.arguments import beam, check_exist, length_penalty, new_parser, parsed, to_read
from pipeline.io.errors import InputError
from pipeline.io.outputs import file_to_write, write_text


def main() -> None:
    parser = new_parser("python -m commands.calibrate", __doc__)
    add = parser.add_argument
    add("--weights", type=to_read, required=True, help="a folder of weights, or a package")
    add("--lab", type=to_read, default=Path(), help="the repository with pairs and features")
    add("--labelled", type=to_read, help="a folder of your own labelled pairs: only refit")
    add("--confidence", type=to_read, help="the confidence.json to refit (default: the weights')")
    add("--beam", type=beam, default=1, help="as decode.beam")
    add("--length-penalty", type=length_penalty, default=0.0, help="as decode.length_penalty")
    add("--out", type=file_to_write, help="default: in the package, else data/confidence of --lab")
    add("--figure", type=file_to_write, help="an SVG to write: wrong captions against coverage")
    arguments = parsed(parser)
    check_exist([arguments.weights], "name a folder of weights or a package, such as demo/clip4idc")
    check_exist([arguments.labelled], "name a folder of labelled images")
    # imported late: the import takes seconds, and the arguments are checked first
    from pipeline.captioning import calibrating
    from pipeline.captioning.pair_captioner import PairCaptioner, Search
    from pipeline.compute import devices

    devices.repeatable()
    # a full calibration replaces a file that may be of other weights
    captioner = PairCaptioner.load(
        arguments.weights, arguments.lab, arguments.confidence, with_calibration=bool(arguments.labelled)
    )
    search = Search(arguments.beam, arguments.length_penalty)
    if arguments.labelled:
        if not arguments.out:
            raise InputError("--labelled needs --out FILE.json")
        result = calibrating.on_labelled(captioner, arguments.labelled)
    else:
        result = calibrating.on_validation(captioner, arguments.lab, search)
    out = calibrating.save(result, captioner, arguments.weights, arguments.lab, arguments.out)
    print("\n".join([*result.lines, f"wrote {out}"]))
    if arguments.figure:
        from pipeline.confidence import measures
        from pipeline.reporting.figures import WIDE, svg_file

        write_text(arguments.figure, svg_file(measures.drawing(result.measured), WIDE))


if __name__ == "__main__":
    run(main)
