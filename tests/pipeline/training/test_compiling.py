"""Compiled pieces: the same numbers, for batches of any size, after a resume; validation stays as it is."""

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
from pipeline.training.reinforce import SelfCritical
from pipeline.training.rewards import constant
from pipeline.training.sampling import Sampler, training_batches
from tests.killed import KilledError
from tests.lstm_speaker import Speaker
from tests.pipeline.training.test_loop import SIZES, recipe, same

# torch's tracer itself looks at gradients of tensors that are no leaves
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


class Compiler:
    """Runs what it is given as it is, and counts."""

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
    made.compile(compiler)
    return made


def drawn(prepared, batch):
    """A batch of so many scenes."""
    sampler = Sampler(of_split(prepared.pairs, "train"), batch, 1, True)
    return next(training_batches(sampler, prepared.store, prepared.vocabulary, range(1)))


def run(prepared, state, compiler, validate=lambda _: 0.0):
    """A training, and a step on a batch of another size."""
    made = training(prepared, state, compiler, validate)
    made.run(Sampler(of_split(prepared.pairs, "train"), 4, 1, True), prepared.store, prepared.vocabulary)
    made.step(drawn(prepared, 3), 4)
    return made.model.state_dict()


def test_traced_resumed_and_with_another_batch_it_ends_in_the_same_bits(prepared, tmp_path, monkeypatch):
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


def test_auto_compiles_on_a_gpu_that_triton_writes_for_and_nowhere_else(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(compiling, "TRITON", True)
    assert compiling.backend("auto", GPU) == "inductor"
    assert compiling.backend("off", GPU) is None
    assert compiling.backend("auto", CPU) is None
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert compiling.backend("auto", GPU) is None
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(compiling, "TRITON", False)
    assert compiling.backend("auto", GPU) is None


@pytest.mark.parametrize("compiles", [True, False])
def test_a_decoder_says_whether_it_is_compiled(monkeypatch, compiles):
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
