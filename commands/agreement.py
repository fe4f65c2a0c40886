"""Print how well each metric agrees with the truth of captions, as a table.

python -m commands.agreement verdicts.jsonl --scores BERTScore bertscore.jsonl --scores LLM llm.csv
python -m commands.agreement RUN1 RUN2 RUN3 RUN4 --scores LLM llm1.csv llm2.csv llm3.csv llm4.csv

A run is a file of verdicts (commands.judge --out), a pairs.jsonl, or the folder of a finished run. A file of
scores, which any program may write, has an id and a score for each caption of a run. A score is a number, or
true or false.
"""

from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.io.errors import InputError
from pipeline.reporting.tables import show
from pipeline.results import agreement_files
from pipeline.results.results_tables import agreement_table


def main() -> None:
    parser = new_parser("python -m commands.agreement", __doc__)
    add, files = parser.add_argument, "a metric's name, and one file of scores per run; may be repeated"
    add("runs", type=to_read, nargs="+", help="verdicts of each run")
    add("--scores", type=word, nargs="+", action="append", default=[], metavar="NAME FILE", help=files)
    add("--key", type=word, help="key or column of the scores, if there are several (such as score)")
    add("--models", type=word, nargs="+", help="the model of each run (default: all differ)")
    arguments = parsed(parser)
    models, count = arguments.models or [None] * len(arguments.runs), len(arguments.runs)
    if len(models) != count:
        raise InputError(f"--models has {len(models)} name(s) for {count} run(s); name one per run")
    runs = [agreement_files.read_run(path, name) for path, name in zip(arguments.runs, models, strict=True)]
    agreement_files.check_pairs(runs)
    agreements = agreement_files.of_verdicts(runs)
    for name, *files in arguments.scores:
        agreements.append(agreement_files.of_files(name, runs, [Path(file) for file in files], arguments.key))
    if not agreements:
        raise InputError("there is no metric to compare with truth; name one with --scores NAME FILE")
    pairs = sum(len(run.judged) for run in runs)
    print(f"{len(runs)} run(s), {pairs:,} judged captions of changed pairs")
    show([agreement_table([("", agreement) for agreement in agreements])])


if __name__ == "__main__":
    run(main)
