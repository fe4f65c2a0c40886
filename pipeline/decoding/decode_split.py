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
from pipeline.decoding.beam_search import beam_attending
from pipeline.decoding.greedy import Captioned, differences, evaluating, greedy_attending
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.io.progress import track
from pipeline.text.vocabularies import Vocabulary, word_positions

Search = Callable[[Captioner, Difference], Captioned]


def searching(beam: int, length_penalty: float) -> Search:
    """Return the function that searches captions: beam search, or greedy search if `beam` is 1.

    Greedy search finds the same captions as a beam of 1, and is faster.
    """
    if beam == 1:
        return greedy_attending
    return partial(beam_attending, beam=beam, length_penalty=length_penalty)


@torch.inference_mode()
def attended_captions(
    model: Captioner,
    pairs: Sequence[Pair],
    store: FeatureStore,
    vocabulary: Vocabulary,
    batch: int,
    aligned: Collection[str],
    search: Search = greedy_attending,
) -> dict[str, Attended]:
    """Return pair id -> caption with attention, in the order of the pairs. Progress is shown.

    For the pairs whose ids are in `aligned`, the results also contain the alignment of the images and the
    class-token attention of the image encoder, if the model has them.
    """
    ids = [pair.pair_id for pair in pairs]
    with evaluating(model):
        found = (
            each
            for start, difference in zip(
                range(0, len(ids), batch), differences(model, pairs, store, batch), strict=True
            )
            for each in _attended(search, model, difference, vocabulary, ids[start : start + batch], aligned)
        )
        captions = dict(zip(ids, track(found, "decoding", "pairs", len(ids)), strict=True))
        shown = [pair for pair in pairs if pair.pair_id in aligned]
        blocks = _class_token_attention(model, shown, store, batch)
        return captions | {pair: replace(captions[pair], blocks=maps) for pair, maps in blocks.items()}


@torch.inference_mode()
def exchanged_captions(
    model: Captioner,
    pairs: Sequence[Pair],
    store: FeatureStore,
    vocabulary: Vocabulary,
    batch: int,
    search: Search = greedy_attending,
) -> dict[str, str]:
    """Return pair id -> caption of the pair's images in exchanged order, (after, before)."""
    exchanged = [replace(pair, before=pair.after, after=pair.before) for pair in pairs]
    with evaluating(model):
        found = (
            vocabulary.decode(row)
            for difference in differences(model, exchanged, store, batch)
            for row in search(model, difference).words.tolist()
        )
        captions = track(found, "decoding (after, before)", "pairs", len(pairs))
        return dict(zip([pair.pair_id for pair in pairs], captions, strict=True))


def _class_token_attention(
    model: Captioner, pairs: Sequence[Pair], store: FeatureStore, batch: int
) -> dict[str, dict[str, np.ndarray]]:
    """Return pair id -> block name -> class-token attention; {} if the image encoder has no class tokens."""
    device, found = next(model.parameters()).device, {}
    starts = range(0, len(pairs), batch)
    for start, images in zip(starts, feature_batches(pairs, store, batch), strict=True):
        before, after = (image.to(device).float() for image in images)
        maps = {name: own.half().cpu().numpy() for name, own in model.class_token_maps(before, after).items()}
        if not maps:
            break
        for row, pair in enumerate(pairs[start : start + batch]):
            found[pair.pair_id] = {name: own[row] for name, own in maps.items()}
    return found


def _attended(
    search: Search,
    model: Captioner,
    difference: Difference,
    vocabulary: Vocabulary,
    ids: list[str],
    aligned: Collection[str],
) -> Iterator[Attended]:
    captions = attended_captions_of(search(model, difference), model, vocabulary)
    rows = [row for row, pair in enumerate(ids) if pair in aligned]
    alignment = difference.alignment(rows)  # (rows, N, N)
    alignments = {} if alignment is None else dict(zip(rows, alignment.half().cpu().numpy(), strict=True))
    for row, caption in enumerate(captions):
        yield replace(caption, alignment=alignments.get(row))


def attended_captions_of(found: Captioned, model: Captioner, vocabulary: Vocabulary) -> list[Attended]:
    """Return the captions of a batch, with attention maps and input weights if the decoder computes them."""
    weighed = model.decoder.weighed
    nothing = torch.empty(*found.words.shape, 0, math.prod(model.cells), dtype=torch.float16)
    grids = (nothing if found.maps is None else found.maps).unflatten(-1, model.cells).cpu().numpy()
    weights = None if found.weights is None else found.weights.cpu().numpy()
    captions = []
    for row, caption in enumerate(found.words.tolist()):
        at = word_positions(caption)
        own = None if weights is None else weights[row, at]
        captions.append(attended(vocabulary.pieces(caption), grids[row, at], weighed, own))
    return captions
