"""Compiled parts of a model give the same bits; validation and sampled captions are not compiled."""

from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from models.common import decoder
from models.common.captioner import Captioner, Sizes
from models.common.decoder import ALL_WORDS
from models.scorer.subtraction import Subtraction
from pipeline.compute import devices
from pipeline.config import recipe_file
from pipeline.datasets.schema import of_split
from pipeline.training import compiling
from pipeline.training.loop import Training, seed_all
from pipeline.training.reinforce import SelfCritical, constant
from pipeline.training.sampling import training_batches
from tests.killed import KilledError
from tests.lstm_speaker import Speaker
from tests.pipeline.training.test_loop import SIZES, recipe, same
from tests.samplers import sampler_of

# torch's tracer looks at gradients of tensors that are no leaves
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


class Compiler:
    """A compiler that runs the traced code unchanged, and counts its runs."""

    def __init__(self):
        self.runs = 0

    def __call__(self, graph, inputs):
        def run(*given):
            self.runs += 1
            return graph.forward(*given)

        return run


def training(prepared, state, compiler, validate=lambda _: 0.0, dropout=0.1):
    devices.repeatable()
    chosen = recipe(iterations=4, validate_every=2)
    chosen = replace(chosen, settings={"dropout": dropout, "temperature": 0.5})
    seed_all(1, 0)
    words = prepared.vocabulary
    model = recipe_file.build(chosen, Sizes(6, (3, 3), len(words), words.longest, **SIZES))
    made = Training(model, chosen, 1, state / "state.pt", validate)
    compiling.compile_pieces(model, compiler)
    return made


def drawn(prepared, batch):
    sampler = sampler_of(of_split(prepared.pairs, "train"), batch, 1, True)
    return next(training_batches(sampler, prepared.store, prepared.vocabulary, range(1)))


def run(prepared, state, compiler, validate=lambda _: 0.0):
    """Train, and take a step on a batch of another size."""
    made = training(prepared, state, compiler, validate)
    made.run(sampler_of(of_split(prepared.pairs, "train"), 4, 1, True), prepared.store, prepared.vocabulary)
    made.step(drawn(prepared, 3), 4)
    return made.model.state_dict()


def test_a_compiled_training_resumes_and_gives_the_same_bits(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(decoder, "RealWords", lambda read: ALL_WORDS)  # as on a GPU
    compiler, during = Compiler(), []

    def validate(model):
        before, grids = compiler.runs, torch.randn(5, 6, 3, 3)
        model.encode(grids, grids)
        during.append(compiler.runs - before)
        if len(during) == 2:
            raise KilledError
        return 0.0

    with suppress(KilledError):
        run(prepared, tmp_path / "a", compiler, validate)
    assert during == [0, 0]  # validation is not compiled
    assert compiler.runs == 4 * 4  # pair encoding, difference, decoder, and CBR's imagined images
    resumed = run(prepared, tmp_path / "a", compiler)
    assert compiler.runs == (4 + 3) * 4
    assert same(resumed, run(prepared, tmp_path / "b", None))
    assert compiler.runs == (4 + 3) * 4


@pytest.mark.parametrize(
    ("wanted", "device", "capability", "triton", "compiler"),
    [
        ("auto", "cuda", (9, 0), True, "inductor"),
        ("off", "cuda", (9, 0), True, None),
        ("auto", "cpu", (9, 0), True, None),
        ("auto", "cuda", (7, 5), True, None),
        ("auto", "cuda", (9, 0), False, None),
    ],
)
def test_only_a_gpu_with_triton_compiles(monkeypatch, wanted, device, capability, triton, compiler):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(compiling, "TRITON", triton)
    assert compiling.backend(wanted, torch.device(device)) == compiler


@pytest.mark.parametrize("compiles", [True, False])
def test_a_decoder_may_be_left_out(monkeypatch, compiles):
    sizes = Sizes(6, (3, 3), 9, 5, **SIZES)
    decoder = None if compiles else Speaker(sizes, attends=True)
    model = Captioner(sizes, Subtraction(sizes.width), {}, 0.0, decoder=decoder)
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **_: compiled.append(module))
    compiling.compile_pieces(model, "inductor")
    assert (model.decoder in compiled) is compiles
    assert model.encoding in compiled
    assert model.difference in compiled


def test_sampled_captions_of_the_reward_phase_are_not_compiled(prepared, tmp_path):
    made, batch = training(prepared, tmp_path, compiler := Compiler()), drawn(prepared, 3)
    settings = {"samples": 2, "baseline": "mean", "cross_entropy": 0.0, "both_ways": False}
    made.objective = SelfCritical(constant, settings, prepared.vocabulary)
    encoded = made.model.encoding.eval()(batch.images.float())
    before, after, runs = encoded[batch.before], encoded[batch.after], compiler.runs
    made.objective(made.model, before, after, batch.tokens, batch, None)
    assert compiler.runs == runs > 0
    made.model.difference(before, after)
    assert compiler.runs > runs
