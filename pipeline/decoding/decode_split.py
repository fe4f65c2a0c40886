"""Caption many pairs by greedy or beam search, with attention maps. N: cells of an image."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from models.common.captioner import Captioner, Difference
from pipeline.datasets.schema import Pair
from pipeline.decoding.attention_maps import Attended, attended
from pipeline.decoding.beam_search import beam_search
from pipeline.decoding.greedy import Captioned, differences, evaluating, greedy_attending
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.io.progress import track
from pipeline.text.vocabularies import Vocabulary, word_positions

Search = Callable[[Captioner, Difference], Captioned]


def searching(beam: int, length_penalty: float) -> Search:
    """Return the function that searches captions; greedy search is faster than a beam of 1."""
    if beam == 1:
        return greedy_attending
    return partial(beam_search, beam=beam, length_penalty=length_penalty)


@torch.inference_mode()
def attended_captions(
    model: Captioner,
    pairs: Sequence[Pair],
    store: FeatureStore,
    vocabulary: Vocabulary,
    batch: int,
    search: Search,
    aligned: Collection[str] = (),
    labelled: bool = False,
) -> dict[str, Attended]:
    """Decode all pairs, and show the progress; return pair id -> caption with attention, in order.

    With `labelled`, the pairs' kinds open the gate of a model with routers. Pairs in `aligned` also get the
    alignment of the images and the class-token attention, if the model has them.
    """
    ids = [pair.pair_id for pair in pairs]
    with evaluating(model):
        decoded = _attended(model, pairs, store, vocabulary, batch, search, aligned, labelled)
        captions = dict(zip(ids, track(decoded, "decoding", "pairs", len(ids)), strict=True))
        aligned_pairs = [pair for pair in pairs if pair.pair_id in aligned]
        blocks = _class_token_attention(model, aligned_pairs, store, batch)
        return captions | {pair: replace(captions[pair], blocks=maps) for pair, maps in blocks.items()}


def _class_token_attention(
    model: Captioner, pairs: Sequence[Pair], store: FeatureStore, batch: int
) -> dict[str, dict[str, np.ndarray]]:
    """Return pair id -> block name -> class-token attention; {} if the image encoder has no class tokens."""
    device, maps_by_pair = next(model.parameters()).device, {}
    starts = range(0, len(pairs), batch)
    for start, images in zip(starts, feature_batches(pairs, store, batch), strict=True):
        before, after = (image.to(device).float() for image in images)
        maps = model.class_token_maps(before, after)
        if not maps:
            break
        maps_by_block = {name: values.half().cpu().numpy() for name, values in maps.items()}
        for row, pair in enumerate(pairs[start : start + batch]):
            maps_by_pair[pair.pair_id] = {name: values[row] for name, values in maps_by_block.items()}
    return maps_by_pair


def _attended(
    model: Captioner,
    pairs: Sequence[Pair],
    store: FeatureStore,
    vocabulary: Vocabulary,
    batch: int,
    search: Search,
    aligned: Collection[str],
    labelled: bool,
) -> Iterator[Attended]:
    """Yield the caption of each pair with attention; for pairs in `aligned`, with their alignment or None."""
    starts = range(0, len(pairs), batch)
    encoded = differences(model, pairs, store, batch, labelled)
    for start, difference in zip(starts, encoded, strict=True):
        captions = attended_captions_of(search(model, difference), model, vocabulary, difference)
        rows = [row for row, pair in enumerate(pairs[start : start + batch]) if pair.pair_id in aligned]
        alignment = difference.alignment(rows)  # (rows, N, N)
        maps = {} if alignment is None else dict(zip(rows, alignment.half().cpu().numpy(), strict=True))
        for row, caption in enumerate(captions):
            yield replace(caption, alignment=maps.get(row))


def attended_captions_of(
    captioned: Captioned, model: Captioner, vocabulary: Vocabulary, difference: Difference
) -> list[Attended]:
    """Return each caption of a batch with the maps, input weights and kind that the model finds, if any."""
    weighed = model.decoder.weighed
    no_maps = torch.empty(*captioned.words.shape, 0, math.prod(model.cells), dtype=torch.float16)
    grids = (no_maps if captioned.maps is None else captioned.maps).unflatten(-1, model.cells).cpu().numpy()
    weights = None if captioned.weights is None else captioned.weights.cpu().numpy()
    captions = []
    for row, tokens in enumerate(captioned.words.tolist()):
        positions = word_positions(tokens)
        caption_weights = None if weights is None else weights[row, positions]
        captions.append(attended(vocabulary.pieces(tokens), grids[row, positions], weighed, caption_weights))
    if (routed := model.routed(difference)) is None:
        return captions
    found = zip(captions, routed, strict=True)
    return [replace(each, kind=kind, kind_probability=probability) for each, (kind, probability) in found]
