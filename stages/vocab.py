"""vocab@dataset: number the words of the training captions."""

import argparse
from pathlib import Path

from pipeline import params, vocabularies
from pipeline.datasets.schema import of_split, read_pairs
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    everything = params.load()
    lower_case, settings = everything.text.lower_case, everything.of(arguments.dataset).text
    captions = [text_ for pair in of_split(read_pairs(arguments.pairs), "train") for text_ in pair.captions]
    if settings.vocabulary is None:
        vocabulary = vocabularies.build(captions, settings.min_count, lower_case, settings.max_tokens)
    else:
        vocabulary = vocabularies.fixed(settings.vocabulary, captions, lower_case, settings.max_tokens)
    vocabularies.save(arguments.out, vocabulary, vocabularies.count_words(captions, lower_case))
    print(f"{arguments.dataset}: {len(vocabulary)} words, longest caption {vocabulary.longest} tokens")


if __name__ == "__main__":
    run(main)
