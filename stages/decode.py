"""decode@dataset-model-seed: write the captions of the test pairs as COCO results, and their attention.

For pairs of the report's gallery, the alignment of the two images is also written, if the model computes one.
With `decode.both_ways`, the images of each pair are also captioned in exchanged order. A model with routers
(MEDIC) also writes the kind of change that they found, and its probability.
"""

import sys

from pipeline.cli.arguments import address_to_read, new_parser, pairs_of, parsed, to_read
from pipeline.compute import devices
from pipeline.config import params
from pipeline.datasets import manifest
from pipeline.datasets.schema import SPLITS, exchanged
from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import ALIGNED, Origin, choose
from pipeline.decoding.decode_split import attended_captions, searching
from pipeline.features.object_storage import STORES, store_of
from pipeline.features.store import FeatureStore
from pipeline.io.content_hashes import file_hash
from pipeline.io.outputs import file_to_write, write_json
from pipeline.scoring import routing
from pipeline.scoring.conditions import LABELLED
from pipeline.text import vocabularies
from pipeline.training.kinds import with_kinds
from pipeline.weights import trained_model
from stages import run


def main() -> None:
    parser = new_parser("python -m stages.decode", __doc__)
    add = parser.add_argument
    add("--weights", type=to_read, required=True, help="the folder that training wrote")
    add("--pairs", type=to_read, required=True)
    add("--vocab", type=to_read, required=True)
    add("--features", type=address_to_read, required=True, help=STORES)
    add("--split", choices=SPLITS, default="test")
    add("--out", type=file_to_write, required=True, help="captions.json to write")
    add("--attention", type=file_to_write, required=True, help="attention.npz to write")
    arguments = parsed(parser)
    devices.repeatable()
    model, trained = trained_model.load(arguments.weights)
    vocabulary = vocabularies.load(arguments.vocab)
    trained.check_vocabulary(vocabulary, arguments.vocab)
    store = FeatureStore(store_of(arguments.features, trained.recipe.input), expected=trained.recipe.features)
    trained.check_store(store)
    pairs = pairs_of(arguments.pairs, arguments.split)
    manifest.check_images(arguments.pairs, store.location.name, store.images)
    aligned = {pair.pair_id for kind in choose(pairs, ALIGNED).values() for pair in kind}
    model = model.to(devices.device())
    decode = params.load().decode
    search = searching(decode.beam, decode.length_penalty)
    labelled = decode.labelled_gate and bool(model.kinds)
    if labelled:
        pairs = with_kinds(pairs, model.kinds)
        print(f"note: {LABELLED}", file=sys.stderr)
    captions = attended_captions(model, pairs, store, vocabulary, decode.batch, search, aligned, labelled)
    backward = None
    if decode.both_ways:
        swapped = [exchanged(pair) for pair in pairs]
        reversed_captions = attended_captions(
            model, swapped, store, vocabulary, decode.batch, search, labelled=labelled
        )
        backward = {pair: each.caption for pair, each in reversed_captions.items()}
    hashes = (file_hash(file) for file in (arguments.weights / trained_model.FILE, arguments.pairs))
    weights_hash, pairs_hash = hashes
    origin: dict[Origin, str] = {"weights": weights_hash, "pairs": pairs_hash, "run": trained.run}
    if labelled:
        origin["gate"] = routing.LABEL
    attention_maps.write(arguments.attention, captions, origin, backward)
    results = [
        {"image_id": pair_id, "caption": item.caption}
        | routing.of_caption(item.kind, item.kind_probability, labelled)
        for pair_id, item in captions.items()
    ]
    write_json(arguments.out, results)


if __name__ == "__main__":
    run(main)
