"""vocab@dataset: number the words of the training captions, or take CLIP's tokens."""

import argparse
from pathlib import Path

from pipeline import params, vocabularies
from pipeline.datasets.schema import of_split, read_pairs
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.vocabularies import Vocabulary
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    everything = params.load()
    captions = [text_ for pair in of_split(read_pairs(arguments.pairs), "train") for text_ in pair.captions]
    vocabulary = numbered(everything, arguments.dataset, captions)
    vocabularies.save(
        arguments.out, vocabulary, vocabularies.count_words(captions, everything.text.lower_case)
    )
    print(f"{arguments.dataset}: {len(vocabulary)} words, longest caption {vocabulary.longest} tokens")


def numbered(everything: Params, dataset: str, captions: list[str]) -> Vocabulary:
    """What text.tokeniser says, with the dataset's own settings."""
    lower_case, settings = everything.text.lower_case, everything.of(dataset).text
    if everything.text.tokeniser == "clip_bpe":
        if settings.vocabulary is not None:
            raise InputError(
                f"params.yaml: text.tokeniser is clip_bpe, and dataset.{dataset}.text.vocabulary "
                "names a file, which goes with words; set either of them back"
            )
        return vocabularies.of_clip(captions, settings.max_tokens)
    if settings.vocabulary is None:
        return vocabularies.build(captions, settings.min_count, lower_case, settings.max_tokens)
    return vocabularies.fixed(settings.vocabulary, captions, lower_case, settings.max_tokens)


if __name__ == "__main__":
    run(main)
