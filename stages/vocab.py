"""vocab@dataset: write the vocabulary: the words of the training captions, or CLIP's tokens."""

import sys
from collections.abc import Sequence

from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.config import params
from pipeline.config.params import Params
from pipeline.datasets import cub_nabirds, manifest, schema
from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError, printable
from pipeline.io.outputs import file_to_write
from pipeline.text import caption_text, vocabularies
from pipeline.text.vocabularies import Vocabulary
from stages import run


def main() -> None:
    parser = new_parser("python -m stages.vocab", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, required=True, help="its name under 'dataset' in params.yaml")
    add("--pairs", type=to_read, required=True)
    add("--pretraining", type=to_read, default=cub_nabirds.FOLDER, help="the folder of CUB")
    add("--out", type=file_to_write, required=True)
    arguments = parsed(parser)
    settings = params.load()
    captions, others = training_captions(manifest.read_pairs(arguments.pairs)), []
    if name := settings.of(arguments.dataset).text.counted_with:
        folder = cub_nabirds.records_of(arguments.pretraining, name)
        others = training_captions(schema.read_pairs(folder / cub_nabirds.RECORDS, cub_nabirds.remedy(name)))
    for warning in caption_text.warnings((arguments.dataset, caption) for caption in captions):
        print(f"warning: {printable(warning)}", file=sys.stderr)
    vocabulary = make_vocabulary(settings, arguments.dataset, captions, others)
    counts = vocabularies.count_words([*captions, *others], settings.text.lower_case)
    vocabularies.save(arguments.out, vocabulary, counts, arguments.pairs)
    print(f"{arguments.dataset}: {len(vocabulary)} words, longest caption {vocabulary.longest} tokens")


def training_captions(pairs: Sequence[Pair]) -> list[str]:
    return [caption for pair in of_split(pairs, "train") for caption in pair.captions]


def make_vocabulary(
    all_settings: Params, dataset: str, captions: list[str], others: Sequence[str] = ()
) -> Vocabulary:
    """Return the vocabulary that text.tokeniser and the dataset's settings determine.

    captions: the training captions. others: further captions whose words are counted, too.
    """
    lower_case, settings = all_settings.text.lower_case, all_settings.of(dataset).text
    if all_settings.text.tokeniser == "clip_bpe":
        if settings.vocabulary is not None:
            key = f"dataset.{dataset}.text.vocabulary"
            raise InputError(f"params.yaml: text.tokeniser is clip_bpe, which needs {key}: null; set it")
        return vocabularies.of_clip(captions, settings.max_tokens)
    if settings.vocabulary is None:
        return vocabularies.build(captions, settings.min_count, lower_case, settings.max_tokens, others)
    return vocabularies.fixed(settings.vocabulary, captions, lower_case, settings.max_tokens)


if __name__ == "__main__":
    run(main)
