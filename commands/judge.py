"""Judge captions against the scenes: a multimodal model's answers, or captions of any other program.

python -m commands.judge answers.jsonl --pairs data/pairs/tabletop.jsonl --reader free
Input: COCO results, JSON lines or CSV (an id, and a caption or prediction), a log of lmms-eval, or a table
of VLMEvalKit. Output: true captions in percent with intervals over scenes, faults, and unreadable captions.
If a dataset has no published scenes (CLEVR-Change), captions are compared with the references.
"""

from commands import run
from pipeline.cli.arguments import new_parser, pairs_of, parsed, to_read, whole, word
from pipeline.datasets import manifest
from pipeline.datasets.schema import SPLITS
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import printable
from pipeline.io.outputs import file_to_write, write_json, write_json_lines
from pipeline.reporting.tables import show
from pipeline.results import answers
from pipeline.results.answers import READERS
from pipeline.scoring import scored_ids
from pipeline.scoring.caption_files import read_answers


def main() -> None:
    parser = new_parser("python -m commands.judge", __doc__)
    add, readers = parser.add_argument, "strict: the grammar of the dataset (default); free: free English"
    add("captions", type=to_read, help="the file of captions or answers")
    add("--pairs", type=to_read, required=True, help="prepared pairs")
    add("--split", choices=SPLITS, default="test", help="split of the pairs (default: test)")
    add("--reader", choices=READERS, default="strict", help=readers)
    add("--key", type=word, help="key or column of the answers, if there are several (such as prediction)")
    add("--name", type=word, default="answers", help="name in the leaderboard row")
    add("--row", type=file_to_write, help="the leaderboard row to write, JSON")
    add("--out", type=file_to_write, help="the verdicts to write, JSON lines")
    add("--show", type=whole(0, 10_000), default=5, help="unreadable captions to print (5)")
    arguments = parsed(parser)
    pairs = pairs_of(arguments.pairs, arguments.split)
    left_out = manifest.left_out(manifest.path_of(arguments.pairs), arguments.split)
    known = scored_ids.of_pairs(pairs, arguments.pairs, left_out)
    texts = read_answers(arguments.captions, pairs, arguments.key, known)
    judged = answers.judged(texts, pairs, arguments.reader)
    if arguments.out:
        write_json_lines(arguments.out, answers.lines(judged, arguments.reader))
    if arguments.row:
        hashes = {"captions": file_hash(arguments.captions), "pairs": file_hash(arguments.pairs)}
        row = answers.leaderboard_row(arguments.name, arguments.reader, arguments.split, judged, hashes)
        write_json(arguments.row, row)
    show([answers.table(judged)])
    unreadable = [answer for answer in judged if answer.unreadable]
    print(f"unreadable: {len(unreadable):,} of {len(judged):,} captions; they count as false")
    if missing := sum(answer.is_missing for answer in judged):
        print(f"{missing:,} of these are no answer: a null, an empty text, or thoughts without an answer")
    for answer in [answer for answer in unreadable if not answer.is_missing][: arguments.show]:
        print(printable(f"  {answer.pair.pair_id}: {' '.join(answer.text.split())[:200]}"))


if __name__ == "__main__":
    run(main)
