"""The one training loop, of every phase of every model: step, validate, keep the best (SCORER section 4.3).

Everything random is drawn from the seed and the iteration's number, so a run that was killed continues from
its last validation (resuming.py) and ends in the same weights, bit for bit.

Several processes may share each batch (models/distributed_batch.py): each computes its scenes' part of the
losses and gradients, these are added up (gradient_all_reduce.py), and all take the same step with the same
weights. What a run leaves, the first process writes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models import Model
from models.distributed_batch import total
from pipeline.compute import devices
from pipeline.compute.process_group import ALONE, Ranks
from pipeline.errors import InputError
from pipeline.features.memory_cache import Resident
from pipeline.features.store import FeatureStore
from pipeline.progress import track
from pipeline.recipes.recipe_file import Recipe
from pipeline.training import compiling, optimisers, resuming
from pipeline.training.gradient_all_reduce import add_gradients
from pipeline.training.learning_rate import factor
from pipeline.training.phases import Phase, captioning
from pipeline.training.resuming import History
from pipeline.training.sampling import Batch, Sampler, training_batches
from pipeline.vocabularies import Vocabulary

LOG_EVERY = 10  # iterations whose mean losses make one row of the learning curve


def seed_all(seed: int, iteration: int, rank: int = 0) -> None:
    """Seed torch for one iteration: dropout depends on nothing that came before; each rank has its own."""
    entropy = [seed, iteration, rank] if rank else [seed, iteration]
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1))


class Training:
    """One run of one phase of a recipe, with one seed.

    The phase says its settings, what `validate` measures and which of equal snapshots is kept; without one
    it is the recipe's captioning, and the earlier. `validate` scores the model on the validation split,
    higher is better; it is called in the first of `ranks`. `state` is the file that the run is resumed from.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        seed: int,
        state: Path,
        validate: Callable[[Any], float] | None,
        ranks: Ranks = ALONE,
        phase: Phase | None = None,
    ):
        phase = phase or captioning(recipe, None)
        self.settings, self.metric, self.later = phase.settings, phase.metric, phase.later
        self.device = devices.device()
        self.dtype = devices.precision(self.settings["precision"], self.device)
        self.model = model.to(self.device)
        self.recipe, self.seed, self.state, self.validate = recipe, seed, state, validate
        self.ranks = ranks
        self.optimiser = optimisers.build(self.model, self.model.groups, self.settings)
        self.history = resuming.resume(state, self.model, self.optimiser, self.device)

    def compile(self, compiler: str | None) -> None:
        """Take the steps that follow with compiled pieces (compiling.py); None: leave them as they are."""
        if compiler is not None:
            compiling.compile_pieces(self.model, compiler)
            self.validate = self.validate and compiling.eagerly(self.validate)

    def run(self, sampler: Sampler, store: FeatureStore | Resident, vocabulary: Vocabulary) -> History:
        """Train to the phase's last iteration, or the end of its patience.

        Raises InputError where a loss is not finite.
        """
        iterations, every = self.settings["iterations"], self.settings["validate_every"]
        todo = range(self.history.iteration, iterations)
        if self._out_of_patience():
            return self.history
        batches = training_batches(sampler, store, vocabulary, todo, self.ranks.part(sampler.batch))
        shown = track(batches, "training", "iterations", iterations, done=todo.start)
        logged: list[Tensor] = []
        self.model.train()
        for iteration, batch in zip(todo, shown, strict=True):
            self._set_rate(iteration, sampler.epoch)
            logged.append(self.step(batch, iteration))
            last = iteration + 1 == iterations
            validating = (iteration + 1) % every == 0 or last
            if validating or (iteration + 1) % LOG_EVERY == 0:
                self._log(iteration + 1, logged)
                logged = []
            if validating:
                self._validate(iteration + 1)
                if self._out_of_patience():
                    break
        return self.history

    def _out_of_patience(self) -> bool:
        """Whether so many validations brought no new best; the first process knows, and tells the others."""
        if (patience := self.settings.get("patience")) is None:
            return False
        rows = self.history.validation
        since = sum(row["iteration"] > self.history.best_iteration for row in rows)
        return bool(total(torch.tensor(float(since > patience))))

    def _set_rate(self, iteration: int, epoch: int) -> None:
        settings = self.settings
        change = factor(settings["schedule"], iteration, settings["iterations"], epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = settings["learning_rate"] * group.get("rate", 1.0) * change

    def step(self, batch: Batch, iteration: int) -> Tensor:
        """One step of the optimiser on the parts' losses; returns the terms, in the model's order.

        Of several processes each gets its share of the terms, of which the sum is the batch's.
        """
        seed_all(self.seed, iteration, self.ranks.rank)
        weights = torch.tensor([1.0, *(self.recipe.loss[name] for name in self.model.terms[1:])])
        terms = self._terms(batch)
        self.optimiser.zero_grad(set_to_none=True)
        (weights.to(self.device) * terms).sum().backward()
        add_gradients(self.model.parameters())
        if (norm := self.settings.get("clip_norm")) is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), norm)
        self.optimiser.step()
        self.model.constrain()
        return terms.detach()

    def _terms(self, batch: Batch) -> Tensor:
        # converted on the device; straight to bfloat16, as autocast would convert float32 ones
        images = batch.images.to(self.device, non_blocking=True).to(self.dtype)
        before, after, tokens = (
            x.to(self.device, non_blocking=True) for x in (batch.before, batch.after, batch.tokens)
        )
        with devices.autocast(self.device, self.dtype):
            encoded = self.model.encoding(images)  # U x N x D
            losses = self.model.losses_of(encoded[before], encoded[after], tokens, batch.parts)
        return torch.stack([losses[name].float() for name in self.model.terms])

    def _log(self, iteration: int, logged: list[Tensor]) -> None:
        """Read the losses off the device, all at once, and refuse to go on where one is not finite."""
        table = total(torch.stack(logged)).double().cpu()  # iterations x terms
        first = iteration - len(logged) + 1
        if len(bad := (~table.isfinite()).nonzero()):
            row, column = bad[0].tolist()
            term, value = self.model.terms[column], table[row, column].item()
            raise InputError(
                f"the loss {term!r} is {value} at iteration {first + row}; "
                f"lower train.learning_rate (now {self.settings['learning_rate']:g}) or the loss's weight"
            )
        means = dict(zip(self.model.terms, table.mean(0).tolist(), strict=True))
        self.history.losses.append({"iteration": iteration, **means})

    def _validate(self, iteration: int) -> None:
        self.history.iteration = iteration
        if self.ranks.rank == 0:
            assert self.validate is not None
            self._keep(iteration, self.validate(self.model))
        self.ranks.wait()

    def _keep(self, iteration: int, score: float) -> None:
        history = self.history
        history.validation.append({"iteration": iteration, self.metric: score})
        if score > history.best_score or (self.later and score == history.best_score):
            history.best_iteration, history.best_score = iteration, score
            history.best = {k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()}
        resuming.save(self.state, history, self.model, self.optimiser)
