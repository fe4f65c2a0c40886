"""MEDIC against loops (tests/reference/medic.py), and the rules of its gate."""

import math

import pytest
import torch

import models
from models.common.trainable import KINDS, Labels
from models.medic import experts, routing
from models.medic.model import dirl_medic
from models.medic.routing import experts_of
from models.medic.switches import (
    RELEASED_DIRL_MEDIC,
    RELEASED_SCORER_MEDIC,
    DirlMedicSwitches,
    MedicSizes,
    MedicSwitches,
    ScorerMedicSwitches,
)
from pipeline.decoding.beam_search import beam_search
from pipeline.decoding.greedy import greedy
from tests.reference import medic
from tests.reference.medic import NONE, batch, labels, make

OF = {
    ("dirl_medic", "paper"): DirlMedicSwitches(),
    ("dirl_medic", "released"): RELEASED_DIRL_MEDIC,
    ("scorer_medic", "paper"): ScorerMedicSwitches(),
    ("scorer_medic", "released"): RELEASED_SCORER_MEDIC,
}
SWITCHED = {  # of `paper`, one at a time, and of `released`
    "paper": [
        {},
        {"gate": "label"},
        {"confidence": True},
        {"type_pairs": "routed"},
        {"consistency_pairs": "routed"},
        {"consistency_groups": "kinds"},
        {"prototypes": "mixture"},
        {"memory": "mlp"},
        {"routers": "one"},
    ],
    "released": [{}, {"memory": "mlp"}, {"routers": "one"}, {"gate": "verdict"}],
}
CASES = [
    (name, variant, switches)
    for name in ("dirl_medic", "scorer_medic")
    for variant, each in SWITCHED.items()
    for switches in (each if name == "dirl_medic" else each[:1])
]


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
    monkeypatch.setattr("tests.reference.transcription.SIZES", medic.SIZES)


def same(found, expected, said, tolerance=1e-9):
    scale = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(
        found, expected, rtol=0, atol=tolerance * scale, msg=lambda why: f"{said}: {why}"
    )


def stacked(each):
    return torch.stack([torch.stack(list(x)) for x in each])


@pytest.mark.parametrize(("name", "variant", "switches"), CASES)
def test_values_losses_and_gradients_by_loops(name, variant, switches):
    model, inputs = make(name, variant, switches), batch()
    before, after, tokens, kinds = inputs
    s = models.switches_of(name, {"variant": variant, "switches": switches})
    P = {place: value for place, value in model.named_parameters() if value.requires_grad}
    expected, values = getattr(medic, name)(dict(model.named_parameters()), s, inputs)
    b, a = model.encoding(before), model.encoding(after)
    losses = model.losses_of(b, a, tokens, labels=labels(kinds))
    pair = model.compared(b, a, labels(kinds))
    if s.routers == "two":
        assert pair.verdict.tolist() == list(values["r"])
        changed = kinds != NONE
        assert (pair.verdict & changed).any()
        assert (pair.verdict & ~changed).any()
        assert (~pair.verdict & changed).any()
        assert (~pair.verdict & ~changed).any()
        same(pair.change_logits, torch.stack(values["z"]), "z")
        same(model.encode(before, after).kind_logits, torch.stack(values["s"]), "s")
    for field, value in (("paired", "F"), ("mixture", "m"), ("memory", "memory")):
        same(getattr(pair, field), stacked(values[value]), field)
    terms = [term for term in model.terms if term in expected]
    assert len(terms) == len(expected) >= 3
    for term in terms:
        same(losses[term], expected[term], term)
    # different weights, so that an error in one term's gradient is not hidden by another's
    ours, theirs = (
        torch.autograd.grad(
            sum(math.sqrt(2 + number) * each[term] for number, term in enumerate(terms)),
            P.values(),
            allow_unused=True,
        )
        for each in (losses, expected)
    )
    for place, own, other in zip(P, ours, theirs, strict=True):
        zero = torch.zeros_like(P[place])
        same(zero if own is None else own, zero if other is None else other, place)
    assert all(losses[term].abs() > 0 for term in terms if term != "dis")


def test_margins_of_the_disentangling_by_loops():
    """Values that are alike give both parts of L_dis."""
    for variant in ("paper", "released"):
        model, inputs = make(variant=variant), batch()
        with torch.no_grad():
            for group in (model.difference.routing.change, model.difference.routing.no_change):
                group.values.add_(1.0)
        P = dict(model.named_parameters())
        expected, _ = medic.dirl_medic(P, OF["dirl_medic", variant], inputs)
        before, after, tokens, kinds = inputs
        found = model.losses_of(model.encoding(before), model.encoding(after), tokens, labels=labels(kinds))
        assert expected["dis"] > 0.1
        same(found["dis"], expected["dis"], variant)


def test_the_loss_of_a_scenes_pairs_is_the_mean_of_two_calls():
    model, (before, after, tokens, kinds) = make(), batch()
    order = torch.arange(10)
    calls = kinds[order < 5], torch.full((5,), NONE)
    both = torch.cat(calls)
    b, a = model.encoding(before), model.encoding(after)
    found = model.losses_of(b, a, tokens, parts=2, labels=labels(both))
    halves = [
        model.losses_of(b[part], a[part], tokens[part], labels=labels(both[part]))
        for part in (slice(0, 5), slice(5, 10))
    ]
    for term in model.terms:
        same(found[term], (halves[0][term] + halves[1][term]) / 2, term)
    assert halves[1]["type"] == halves[1]["dis"] == 0
    pair = model.compared(b[:5], a[:5], labels(both[:5]))
    assert model.regularisers["dis"].parts(pair)[0] == 0  # L_inter never has an effect
    one = make(switches={"calls": "one"})
    same(
        one.losses_of(b, a, tokens, 2, labels(both))["con"],
        model.losses_of(b, a, tokens, 1, labels(both))["con"],
        "one call",
    )


@pytest.mark.parametrize(("verdict", "idle"), [(1, {"no_change"}), (0, {"change", "kind_router"})])
def test_experts_without_pairs_have_no_gradient(verdict, idle):
    """With gradients of 0, Adam would move them."""
    model, (before, after, tokens, kinds) = make(), batch()
    with torch.no_grad():
        model.difference.routing.change_router[2].bias[1] += 1000.0 * (2 * verdict - 1)
    losses = model.losses_of(model.encoding(before), model.encoding(after), tokens, labels=labels(kinds))
    sum(losses.values()).backward()
    without = {name.split(".")[2] for name, p in model.named_parameters() if p.grad is None}
    assert without == idle
    assert verdict or losses["type"] == 0


def steps(model, inputs, count=10):
    """Ten steps of Adam with a decaying rate; return the losses of each."""
    before, after, tokens, kinds = inputs
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    found = []
    for step in range(count):
        rows = torch.arange(10)[(torch.arange(10) + step) % 3 > 0]
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * (1 - (step + 1) / count) ** 0.9
        b, a = model.encoding(before[rows]), model.encoding(after[rows])
        losses = model.losses_of(b, a, tokens[rows], labels=labels(kinds[rows]))
        optimiser.zero_grad()
        sum(losses.values()).backward()
        optimiser.step()
        found.append(torch.stack([losses[term].detach() for term in model.terms]))
    return torch.stack(found)


@pytest.mark.parametrize("name", ["dirl_medic", "scorer_medic"])
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_skipping_pairs_changes_no_step(monkeypatch, name, variant):
    """All experts and routers compute all pairs, and masks choose: the same losses in ten steps."""
    found = steps(make(name, variant), batch())

    def dense(chosen, compute, *inputs):
        if not chosen.any():
            return None
        values = compute(*inputs)
        return torch.where(chosen.view(-1, *[1] * (values.dim() - 1)), values, 0)

    monkeypatch.setattr(routing, "placed", dense)
    same(steps(make(name, variant), batch()), found, "losses", 1e-11)


@pytest.mark.parametrize("name", ["dirl_medic", "scorer_medic"])
def test_under_autocast_verdicts_and_terms_are_in_float32(name):
    """On a GPU, training computes in bfloat16."""
    model, (before, after, tokens, kinds) = make(name).float(), batch()
    exact = model.losses_of(
        model.encoding(before.float()), model.encoding(after.float()), tokens, labels=labels(kinds)
    )
    with torch.autocast("cpu", torch.bfloat16):
        b, a = model.encoding(before.bfloat16()), model.encoding(after.bfloat16())
        pair = model.compared(b, a, labels(kinds))
        found = model.losses_of(b, a, tokens, labels=labels(kinds))
    assert pair.change_logits.dtype == pair.kind_logits.dtype == pair.similarity.dtype == torch.float32
    for term in ("cls", "type", "con"):
        assert found[term].dtype == torch.float32
        assert found[term].item() == pytest.approx(exact[term].item(), rel=0.1)
    sum(found.values()).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


# --- the gate in decoding ---


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", ["dirl_medic", "scorer_medic"])
@torch.no_grad()
def test_the_label_opens_the_gate_only_on_request(name, variant):
    model, (before, after, _, kinds) = make(name, variant), batch()
    found = model.encode(before, after)
    right = found.verdict == (kinds != NONE)
    assert right.any()
    assert not right.all()
    assert (found.opened == found.verdict.long()).all()
    assert (found.mixture.abs().sum((1, 2)) > 0).all()
    gated = model.encode(before, after, labels(kinds))
    same(gated.mixture[right], found.mixture[right], "m of right verdicts")
    assert not gated.mixture[~right].any()
    # the authors' modules are gated by the verdict if the labels follow it
    follows = torch.where(found.verdict, torch.where(kinds == NONE, 0, kinds), NONE)
    assert torch.equal(model.encode(before, after, labels(follows)).memory, found.memory)
    # in training, the switch `gate` decides
    trained = model.compared(model.encoding(before), model.encoding(after), labels(kinds))
    assert torch.equal(trained.opened, gated.opened if variant == "released" else found.opened)
    assert torch.equal(model.eval().encode(before, after).memory, found.memory)


@torch.no_grad()
def test_six_numbers_and_the_kind_of_each_pair():
    model, (before, after, _, kinds) = make(), batch()
    pair = model.encode(before, after)
    p, q = pair.change_logits.softmax(-1), pair.kind_logits.softmax(-1)
    numbers, (kind, probability) = pair.probabilities(), pair.routed_kinds()
    for row in range(10):
        if p[row, 1] > p[row, 0]:
            assert numbers[row].sum().item() == pytest.approx(1)
            assert kind[row] == q[row].argmax()
            assert probability[row] == (p[row, 1] * q[row]).max()
        else:
            assert not numbers[row, :NONE].any()
            assert kind[row] == NONE
            assert probability[row] == p[row, 0]
        assert numbers[row, NONE] == p[row, 0]
    gated = model.encode(before, after, labels(kinds)).probabilities()
    assert not gated[pair.verdict & (kinds == NONE), :NONE].any()


@torch.no_grad()
def test_a_tie_is_no_change():
    model, (before, after, _, _) = make(), batch()
    for parameter in model.difference.routing.change_router[2].parameters():
        parameter.zero_()
    assert not model.encode(before, after).verdict.any()


@torch.no_grad()
def test_a_caption_ends_at_null_and_only_unk_is_never_written():
    model, (before, after, _, _) = make(), batch()
    bias = model.decoder.vocabulary.bias
    bias[1], bias[0] = 1e6, 1e5
    assert greedy(model, model.encode(before, after)).tolist() == [[0]] * 10
    assert beam_search(model, model.encode(before, after), 3).words.tolist() == [[0]] * 10
    bias[0], bias[2] = -1e5, 1e5
    assert (greedy(model, model.encode(before, after)) == 2).all()  # <START>, which the text leaves out


def test_kinds_that_are_unknown_or_without_an_expert_are_refused():
    model, (before, after, tokens, kinds) = make(variant="paper", kinds=("add", "drop", "none")), batch()
    b, a = model.encoding(before), model.encoding(after)
    for wrong in (None, Labels(kinds), labels(kinds), labels(torch.full_like(kinds, -1))):
        with pytest.raises(ValueError, match="kind"):
            model.losses_of(b, a, tokens, labels=wrong)
    fitting = torch.tensor([2, 3, 5, 5, 5, 2, 3, 3, 2, 5])
    losses = model.losses_of(b, a, tokens, labels=labels(fitting))
    assert all(loss.isfinite() for loss in losses.values())
    assert model.kinds == ("add", "drop", "none")


def test_without_unchanged_pairs_there_is_no_change_router():
    model = make(variant="paper", kinds=KINDS[:NONE])
    before, after, tokens, kinds = batch()
    assert "cls" not in model.terms
    pair = model.encode(before, after)
    assert pair.verdict.all()
    losses = model.losses_of(
        model.encoding(before), model.encoding(after), tokens, labels=labels(kinds % NONE)
    )
    sum(losses.values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("kinds", [["add"], ["add", "none"], ["add", "add", "drop"], ["add", "grow"], []])
def test_lists_of_kinds_that_make_no_model_are_refused(kinds):
    with pytest.raises(ValueError, match="kinds"):
        experts_of(kinds, MedicSwitches())
    assert experts_of(kinds, MedicSwitches(experts="six")) == KINDS


# --- initial weights (all sizes differ, so that a bound belongs to one tensor) ---

WIDE = MedicSizes(48, (14, 14), 60, 12, 64, 4, 2, 2, 50, 40, 30)
START = {"variant": "released", "dropout": 0.1, "alpha": 0.003, "temperature": 0.5, "kinds": []}


def spread(weight, bound):
    assert weight.abs().max().item() == pytest.approx(bound, rel=0.05)
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


@torch.no_grad()
def test_the_programs_first_weights():
    torch.manual_seed(0)
    model = models.build("dirl_medic", WIDE, START | {"switches": {}})
    routing = model.difference.routing
    conv = routing.change_router[0]
    spread(conv.weight, (6 / (9 * 128 + 9 * 40)) ** 0.5)
    spread(routing.change.keys, (6 / (30 + 128)) ** 0.5)
    spread(routing.no_change.values, (6 / (30 + 128)) ** 0.5)
    spread(model.difference.attentions[0].query.weight, (6 / (64 + 3 * 64)) ** 0.5)
    spread(model.decoder.embedding.weight, (6 / (60 + 50)) ** 0.5)
    assert model.decoder.embedding.weight[0].any()
    assert not model.difference.attentions[0].output.bias.any()
    assert conv.bias.abs().max() <= (9 * 128) ** -0.5
    assert conv.bias.any()


@torch.no_grad()
def test_the_programs_first_weights_for_clevr_change():
    torch.manual_seed(0)
    model = models.build("dirl_medic", WIDE, START | {"switches": {"first_weights": "orthonormal"}})
    routing = model.difference.routing
    for keys in (*routing.change.keys, *routing.no_change.values):
        torch.testing.assert_close(keys @ keys.T, torch.eye(30), atol=1e-5, rtol=0)
    for conv in (routing.change_router[0], routing.kind_router[0], model.encoding.project):
        assert conv.weight.std().item() == pytest.approx((2 / conv.weight[0].numel()) ** 0.5, rel=0.1)
        assert not conv.bias.any()
    for linear in (model.difference.attentions[1].output, model.regularisers["dirl"].mlp[0]):
        assert linear.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert not linear.bias.any()
    spread(model.encoding.column.weight, 0.1)
    spread(model.difference.attentions[0].key.weight, (6 / (64 + 3 * 64)) ** 0.5)
    spread(model.difference.fuse.map.weight, (6 / (256 + 64)) ** 0.5)
    assert model.difference.fuse.map.bias.any()


@torch.no_grad()
def test_opposed_first_weights_see_the_difference_of_both_differences():
    torch.manual_seed(0)
    model = models.build("dirl_medic", WIDE, START | {"switches": {"first_weights": "opposed"}})
    first, second, third, fourth = model.difference.fuse.map.weight.chunk(4, 1)
    assert torch.equal(first, -second)
    assert not torch.equal(third, -fourth)


def test_as_many_parameters_as_the_authors_model():
    sizes = MedicSizes(1024, (14, 14), 87, 40, 512, 8, 2, 2, 300, 512, 100)
    with torch.device("meta"):
        model = models.build("dirl_medic", sizes, START | {"switches": {}})
    routing = model.difference.routing
    routers = [p.numel() for name, p in routing.named_parameters() if "router" in name]
    memories = [p.numel() for name, p in routing.named_parameters() if "router" not in name]
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 2) == 25.12
    assert round(sum(routers) / 1e6, 2) == 9.47
    assert round(sum(memories) / 1e6, 2) == 1.23


def test_an_addressing_sharpens_by_its_temperature():
    memories = experts.ExpertMemories(1, 4, 2).double()
    with torch.no_grad():
        memories.keys.copy_(torch.tensor([[[1.0, 0, 0, 0], [0, 3.0, 0, 0]]]))
    weights = memories.addresses(torch.tensor([[[2.0, 0, 0, 0]]]).double(), torch.tensor([0]))
    assert weights[0, 0, 0].item() == pytest.approx(1 / (1 + math.exp(-10)))
    assert dirl_medic.__kwdefaults__ is None
