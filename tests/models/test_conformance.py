"""Properties of every model of MODELS, and of decoders that are no transformers (decoder_protocol.py).

A new model is tested without being named here. A class of sizes needs a line in SIZES, a setting a value in
VALUES.
"""

import math
from dataclasses import replace

import pytest
import torch

import models
from models import MODELS, Sizes
from models.clip4idc.encoders import ClipSizes
from models.common.captioner import Captioner, rows
from models.common.decoder_protocol import Exchange, NextWord
from models.common.dynamic_speaker import SpeakerSizes
from models.common.grid_embedding import TransformerSizes
from models.common.trainable import KINDS, Labels
from models.idc_pcl.switches import PclSizes
from models.mccformers.model import MccSizes
from models.medic.switches import MedicSizes
from models.scorer.subtraction import Subtraction
from models.vard.model import VardSizes
from pipeline.decoding.beam_search import beam_search, n_best
from pipeline.decoding.decode_split import searching
from pipeline.decoding.greedy import greedy, greedy_attending
from pipeline.text.vocabularies import END, NULL, START
from tests.lstm_speaker import Speaker
from tests.own_settings import Noted, settings_of
from tests.random_models import randomise

V, LONGEST, GRID = 14, 9, (4, 6)
SIZES = {
    Sizes: Sizes(5, GRID, V, LONGEST, 8, 2, 2, 2, 4),
    PclSizes: PclSizes(5, GRID, V, LONGEST, 8, 2, 1, 2, 2, 2),
    SpeakerSizes: SpeakerSizes(5, GRID, V, LONGEST, 8, 8, 4),
    VardSizes: VardSizes(5, GRID, V, LONGEST, 8, 8, 4, 8, 2),
    TransformerSizes: TransformerSizes(5, GRID, V, LONGEST, 8, 2, 2, 4),
    MccSizes: MccSizes(5, GRID, V, LONGEST, 8, 2, 2, 2),
    ClipSizes: ClipSizes(3, (16, 24), V, LONGEST, 8, 16, 2, 2, 1, 12, 2, 2, 10, 12, 2, 2),
    MedicSizes: MedicSizes(5, GRID, V, LONGEST, 8, 2, 2, 2, 4, 4, 3),
}
VALUES = {"coef_lr": 0.001, "tau1": 0.7, "tau2": 0.6, "default_dropout": 0.0, "kinds": list(KINDS)}
VALUES |= dict.fromkeys(("masked_words", "masked_words_captioning", "masked_cells"), 0.3)
EVERY = [(name, variant) for name in MODELS for variant in ("paper", "released")]
EVERY += [("lstm", "two maps"), ("lstm", "no map")]
CASES = pytest.mark.parametrize(("name", "variant"), EVERY)


def built(name, variant, switches=None, phase=None):
    """Build a model in float64, without dropout; its random parameters depend only on their names."""
    if name == "lstm":
        speaker = Speaker(SIZES[Sizes], variant == "two maps")
        model = Captioner(SIZES[Sizes], Subtraction(8), {}, 0.0, decoder=speaker)
    else:
        kind = MODELS[name].sizes
        assert kind in SIZES, f"enter sizes of {kind.__name__} in SIZES of {__file__}"
        own = {"variant": variant, "switches": switches or {}}
        model = models.build(name, SIZES[kind], settings_of(name, **VALUES) | own, phase)
    return randomise(model.double())


def seeded(number):
    return torch.Generator().manual_seed(number)


def images(model, count):
    """Return before and after: feature grids, or images if the model reads images."""
    shape = 2, count, model.sizes.channels, *model.sizes.grid
    if isinstance(model.sizes, ClipSizes):
        return torch.randint(0, 256, shape, generator=seeded(1)).double()
    return torch.randn(shape, generator=seeded(1), dtype=torch.float64)


def captions(count):
    """Return captions of 1 to 5 words with <START> and <END>, NULL-padded."""
    tokens = torch.randint(4, V, (count, LONGEST), generator=seeded(2))
    for row in range(count):
        tokens[row, 0], tokens[row, 2 + row % 5], tokens[row, 3 + row % 5 :] = START, END, NULL
    return tokens


@torch.no_grad()
def speaking(name, variant, count=24):
    """Return a model whose captions differ in words and length, and the Difference of `count` pairs.

    The mean logits of the first words are subtracted, and <END> is about as likely as the best word.
    """
    model = built(name, variant)
    difference, step = model.encode(*images(model, count)), model.decoder.step
    first = step(torch.full((count,), START), 0, model.decoder.begin(difference)).logits
    mean, spread = first.mean(0), first.std(0).mean()
    words = [token for token in range(first.shape[1]) if token != END and token not in model.never]

    def centred(tokens, position, state):
        found = step(tokens, position, state)
        logits = (found.logits - mean) / spread
        chance = torch.sin(50 * logits[:, 5] + 2 * position)
        logits[:, END] = logits[:, words].amax(1) + chance - 0.5
        return NextWord(logits, found.trace)

    model.decoder.step = centred
    return model, difference


def lengths(words):
    """Return the lengths of captions, with <END>; a caption may contain <NULL>."""
    places = torch.arange(1, words.shape[1] + 1)
    return ((words != NULL) * places).amax(1).tolist()


@CASES
@torch.no_grad()
def test_a_step_is_forwards_last_word(name, variant):
    """Captions are exchanged and pairs removed between the steps."""
    model, count, k = built(name, variant), 6, 3
    difference = model.encode(*images(model, count))
    state, pairs, draw = model.decoder.begin(difference, k), torch.arange(count), seeded(3)
    written = torch.full((count * k, 1), START)
    for position in range(LONGEST - 1):
        step = model.decoder.step(written[:, -1], position, state)
        # V is IDC-PCL's [MASK], where a word is predicted; other models do not read the last token
        asked = torch.cat([written, torch.full_like(written[:, :1], V)], 1)
        whole = model.decoder(asked, rows(difference, lambda x, pairs=pairs: x[pairs])).logits[:, -1]
        torch.testing.assert_close(step.logits, whole, rtol=1e-6, atol=1e-8)
        first = k * torch.arange(len(pairs)).repeat_interleave(k)
        parents = first + torch.randint(k, first.shape, generator=draw)
        state.follow(parents)
        word = torch.randint(4, V, first.shape, generator=draw)
        written = torch.cat([written[parents], word[:, None]], 1)
        ended = torch.zeros(len(pairs), dtype=torch.bool)
        ended[position % len(pairs)] = position % 2 and len(pairs) > 1
        state.leave(ended)
        remaining = Exchange(ended).remaining
        pairs, written = remaining(pairs), remaining(written.unflatten(0, (-1, k))).flatten(0, 1)
    assert len(pairs) == 2


@CASES
@torch.no_grad()
def test_word_logits_are_those_of_the_steps(name, variant):
    model, tokens = built(name, variant), captions(6)
    difference = model.encode(*images(model, 3))
    found = model.word_logits(tokens, difference)
    state = model.decoder.begin(difference, 2)
    for position in range(LONGEST - 1):
        step = model.decoder.step(tokens[:, position], position, state)
        real = tokens[:, position] != NULL
        expected = step.logits[real].float()
        torch.testing.assert_close(found[real, position], expected, rtol=1e-5, atol=1e-6)
    assert found.shape == (6, LONGEST - 1, step.logits.shape[1])


@CASES
def test_a_beam_of_one_is_greedy_search(name, variant):
    model, difference = speaking(name, variant)
    found = greedy_attending(model, difference)
    words = found.words
    assert len(set(lengths(words))) > 2
    assert torch.equal(words, greedy(model, difference))
    for length_penalty in (0.0, 1.0):
        assert torch.equal(words, beam_search(model, difference, 1, length_penalty).words)
    beams = beam_search(model, difference, 1)
    assert torch.equal(words, beams.words)
    best = [own[0].tokens for own in n_best(model, difference, 1, 1)]
    assert best == [tuple(row[:length]) for row, length in zip(words.tolist(), lengths(words), strict=True)]
    for one, other in ((found.maps, beams.maps), (found.weights, beams.weights)):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one[words != NULL], other[words != NULL])


@CASES
@pytest.mark.parametrize("beam", [1, 3])
def test_a_caption_does_not_depend_on_the_other_pairs(name, variant, beam):
    model, difference = speaking(name, variant)
    found = searching(beam, 0.5)(model, difference)
    words = found.words
    assert len(set(lengths(words))) > 2
    for row, length in enumerate(lengths(words)):
        alone = searching(beam, 0.5)(model, rows(difference, lambda x, row=row: x[row : row + 1]))
        assert alone.words[0, :length].tolist() == words[row, :length].tolist()
        assert lengths(alone.words) == [length]
        for one, other in ((alone.maps, found.maps), (alone.weights, found.weights)):
            if one is not None:
                torch.testing.assert_close(one[0, :length], other[row, :length], rtol=2e-3, atol=1e-4)


@CASES
def test_maps_and_weights_of_a_word_sum_to_1_or_there_are_none(name, variant):
    model, difference = speaking(name, variant)
    found, weighed = searching(3, 0.5)(model, difference), model.decoder.weighed
    words, maps, weights = found.words, found.maps, found.weights
    assert isinstance(model.decoder.compiles, bool)
    assert (maps is None) == ((name, variant) == ("lstm", "no map"))
    assert (weights is None) == (weighed == ())
    if maps is not None:  # of one image or both
        assert maps.shape[2] in (1, 2)
        assert maps.shape == (*words.shape, maps.shape[2], math.prod(model.cells))
    if weights is not None:
        assert len(set(weighed)) == len(weighed)
        assert weights.shape == (*words.shape, len(weighed))
    for each in (maps, weights):
        if each is not None:
            assert each.dtype == torch.float16
            said = each[words != NULL].float()
            torch.testing.assert_close(said.sum(-1), torch.ones(said.shape[:-1]), rtol=0, atol=2e-3)
            assert (said >= 0).all()
            assert (said.flatten(1).std(0) > 0).any()  # they differ from word to word


def test_an_entry_names_the_switches_that_its_model_reads(monkeypatch):
    """They are the switches that are read when the model and its phases are built and compute losses."""
    resolve = models.common.switches.resolve
    monkeypatch.setattr(models.common.switches, "resolve", lambda *given: Noted(resolve(*given), read))
    for name, entry in MODELS.items():
        read = set()
        for phase in (None, *(phase.name for phase in entry.pretraining)):
            settings = settings_of(name, **VALUES)
            model = models.build(name, SIZES[entry.sizes], settings, phase)
            before, after = (model.encoding(side.float()) for side in images(model, 4))
            tasks = [term for term in model.terms if term != "fda"] if phase else [""]
            for task in tasks:
                labels = Labels(torch.tensor([1, 0, 1, 1]), task, kinds=torch.tensor([2, 5, 2, 4]))
                model.losses_of(before, after, captions(4), labels=labels)
        for asked in (entry.reads, entry.pretraining_of, *filter(None, [entry.fills])):
            asked(Noted(entry.released, read))
        assert read == entry.switches, name


@pytest.mark.parametrize(
    ("kind", "wrong", "named"),
    [
        (TransformerSizes, {"heads": 3}, "width"),
        (MccSizes, {"width": 9, "heads": 3}, "width"),
        (SpeakerSizes, {"maps": 6}, "maps"),
        (VardSizes, {"heads": 3}, "width"),
        (TransformerSizes, {"word_width": 3}, "word_width"),
        (ClipSizes, {"text_heads": 5}, "text_width"),
        (ClipSizes, {"grid": (16, 20)}, "patches"),
        (ClipSizes, {"longest": 13}, r"text\.max_tokens"),
        (PclSizes, {"heads": 3}, "width"),
        (PclSizes, {"pool": 3}, "pool"),
        (MedicSizes, {"heads": 3}, "width"),
        (MedicSizes, {"word_width": 3}, "word_width"),
    ],
)
def test_sizes_that_make_no_model_are_refused(kind, wrong, named):
    with pytest.raises(ValueError, match=named):
        replace(SIZES[kind], **wrong)


@pytest.mark.parametrize(
    ("name", "sizes", "encoder", "decoder"),
    [
        ("card", TransformerSizes(1024, (14, 14), 2033, 70, 512, 8, 2, 300), 5_617_153, 10_215_005),
        ("mccformers_d", MccSizes(1024, (16, 16), 56, 68, 512, 4, 2, 2), 6_837_760, 33_708_088),
        ("mccformers_s", MccSizes(1024, (16, 16), 56, 68, 512, 4, 2, 2), 6_838_784, 33_708_088),
    ],
)
def test_as_many_parameters_as_the_authors_program(name, sizes, encoder, decoder):
    with torch.device("meta"):
        model = models.build(name, sizes, settings_of(name, temperature=0.07, default_dropout=0.1))
    of_decoder = sum(p.numel() for p in model.decoder.parameters())
    assert of_decoder == decoder
    assert sum(p.numel() for p in model.parameters()) - of_decoder == encoder
