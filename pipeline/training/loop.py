"""Training loop of all models and phases: take steps, validate, keep the best snapshot.

The procedure is that of SCORER, section 4.3.

All random numbers depend only on the seed and the iteration number. So a run that was killed resumes from its
last validation and gives the same weights, bit for bit. Several processes may share each batch: each computes
the gradients of its scenes, and all take the same step with the sum (distributed_batch.py).

B: pairs; U: images of a batch; N: cells of an image; D: width; R: captions per pair; L: words.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.common.distributed_batch import add_gradients, total
from models.common.trainable import Trainable
from pipeline.compute import devices
from pipeline.compute.process_group import ALONE, Ranks
from pipeline.config.recipe_file import Recipe
from pipeline.features.memory_cache import Resident
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.io.progress import track
from pipeline.text.vocabularies import Vocabulary
from pipeline.training import compiling, not_learning, optimisers, resuming
from pipeline.training.live_curves import LiveCurves
from pipeline.training.optimisers import factor
from pipeline.training.phases import Phase, phase_of
from pipeline.training.reinforce import SelfCritical
from pipeline.training.resuming import History
from pipeline.training.sampling import Batch, Draws, training_batches
from pipeline.training.validation import DISTINCT

Step = tuple[Tensor, tuple[bool, ...]]
"""Values of a step's losses and measures, and a mask: False if the step's task does not define the value."""


def seed_all(seed: int, iteration: int, rank: int = 0) -> None:
    """Seed torch for an iteration and a rank, so that dropout does not depend on earlier iterations."""
    entropy = [seed, iteration, rank] if rank else [seed, iteration]
    torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1))


class Training:
    """Training run of one phase of a recipe, with one seed.

    model: trained in place
    state: file from which the run resumes
    validate: function that scores a model on the validation split, called in the first rank only; it returns
        a score (higher is better), or several scores by name
    phase: training phase; None: the recipe's last phase
    live: writer of learning curves, called with each row of the history
    objective: defines the losses and measures; None: those of the model
    """

    def __init__(
        self,
        model: Trainable,
        recipe: Recipe,
        seed: int,
        state: Path,
        validate: Callable[[Any], float | dict[str, float]] | None,
        ranks: Ranks = ALONE,
        phase: Phase | None = None,
        live: LiveCurves | None = None,
        objective: SelfCritical | None = None,
    ):
        phase = phase or phase_of(recipe)
        self.objective = objective
        names: tuple[tuple[str, ...], tuple[str, ...]] = (model.terms, model.measures)
        self.terms, self.measures = objective.names(model) if objective else names
        self.phase, self.settings = phase, phase.settings
        self.device = devices.device()
        self.dtype = devices.precision(self.settings["precision"], self.device)
        self.model = model.to(self.device)
        self.recipe, self.seed, self.state, self.validate = recipe, seed, state, validate
        self.ranks, self.live = ranks, live or LiveCurves(None)
        self.optimiser = optimisers.build(self.model, self.model.groups, self.settings)
        self.weights = self._weights()
        self.history = resuming.resume(state, self.model, self.optimiser, self.device)
        self.warned = False  # True after the warning that the training does not learn
        self.defined: tuple[bool, ...] = ()  # for each value of the last step, True if its task defines it

    def _weights(self) -> dict[str, float]:
        """Return loss term -> weight. Raises InputError if the recipe has no weight for a term."""
        weights = self.phase.weights or dict.fromkeys(self.terms, 1.0)
        if missing := [name for name in self.terms if name not in weights]:
            raise InputError(
                f"the recipe of {self.recipe.dataset}, {self.recipe.model} has no weight of the loss term "
                f"{missing[0]!r} (under `loss`); run `dvc repro recipe` to write the recipe again"
            )
        return {name: weights[name] for name in self.terms}

    def run(self, sampler: Draws, store: FeatureStore | Resident, vocabulary: Vocabulary) -> History:
        """Train until the last iteration, or until the setting `patience` stops it; return the history."""
        iterations, interval = self.settings["iterations"], self.settings["validate_every"]
        remaining = range(self.history.iteration, iterations)
        if self._out_of_patience():
            return self.history
        batches = training_batches(sampler, store, vocabulary, remaining, self.ranks.part(sampler.batch))
        progress = track(batches, "training", "iterations", iterations, done=remaining.start)
        logged: list[Step] = []
        self.live.begin(self.history)
        self.model.train()
        for iteration, batch in zip(remaining, progress, strict=True):
            self._set_rate(iteration, sampler.epoch)
            logged.append((self.step(batch, iteration), self.defined))
            last = iteration + 1 == iterations
            validating = (iteration + 1) % interval == 0 or last
            if validating or (iteration + 1) % self.phase.log_every == 0:
                self._log(iteration + 1, logged)
                logged = []
            if validating:
                self._validate(iteration + 1)
                if self._out_of_patience():
                    break
        return self.history

    def _out_of_patience(self) -> bool:
        """Return True, in all processes, if the last `patience` validations gave no new best score."""
        if (patience := self.settings.get("patience")) is None:
            return False
        rows = self.history.validation
        without_best = sum(row["iteration"] > self.history.best_iteration for row in rows)
        return bool(total(torch.tensor(float(without_best >= patience))))

    def _set_rate(self, iteration: int, epoch: int) -> None:
        scheduled = factor(self.settings, iteration, epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings["learning_rate"] * group.get("rate", 1.0) * scheduled

    def step(self, batch: Batch, iteration: int) -> Tensor:
        """Take an optimiser step; return the values of `terms` (losses), then of `measures`, in one tensor.

        What the batch's task does not define is 0, and False in the mask `defined`. If there are several
        processes, the values of the whole batch are the sums over the processes.
        """
        seed_all(self.seed, iteration, self.ranks.rank)
        values = self._losses(batch)
        names = [name for name in self.terms if name in values]
        # numbers, not a tensor: copying one to a GPU would wait for the forward pass
        weighted = [self.weights[name] * values[name] for name in names]
        self.optimiser.zero_grad(set_to_none=True)
        torch.stack(weighted).sum().backward()
        self._fill_idle_gradients()
        add_gradients(self.model.parameters())
        if (norm := self.settings.get("clip_norm")) is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), norm)
        self.optimiser.step()
        self.model.constrain()
        every, undefined = (*self.terms, *self.measures), torch.zeros((), device=self.device)
        self.defined = tuple(name in values for name in every)
        return torch.stack([values.get(name, undefined).detach() for name in every])

    def _fill_idle_gradients(self) -> None:
        """With `model.zero_idle`, set missing gradients to 0, so that Adam also moves unused parameters."""
        if not self.model.zero_idle:
            return
        for parameter in self.model.parameters():
            if parameter.grad is None and parameter in self.optimiser.state:
                parameter.grad = torch.zeros_like(parameter)

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        # convert on the device, directly to the dtype to which autocast would convert
        images = batch.images.to(self.device, non_blocking=True).to(self.dtype)
        before, after, tokens = (
            x.to(self.device, non_blocking=True) for x in (batch.before, batch.after, batch.tokens)
        )
        with devices.autocast(self.device, self.dtype):
            encoded = self.model.encoding(images)  # (U, N, D)
            labels = batch.labels(self.device)
            pair = encoded[before], encoded[after]
            if self.objective is None:
                losses = self.model.losses_of(*pair, tokens, batch.parts, labels=labels)
            else:
                losses = self.objective(self.model, *pair, tokens, batch, labels)
        return {name: loss.float() for name, loss in losses.items()}

    def _log(self, iteration: int, logged: list[Step]) -> None:
        """Append to the history the mean of each loss and measure over the iterations that define it, or NaN.

        A loss that is not finite is an InputError.
        """
        table = total(torch.stack([values for values, _ in logged])).double().cpu()  # (iterations, names)
        is_defined = torch.tensor([defined for _, defined in logged])
        first_iteration, losses = iteration - len(logged) + 1, len(self.terms)
        if len(not_finite := (~table.isfinite() & is_defined)[:, :losses].nonzero()):
            row, column = not_finite[0].tolist()
            term, value = self.terms[column], table[row, column].item()
            raise InputError(
                f"the loss {term!r} is {value} at iteration {first_iteration + row}; "
                f"lower train.learning_rate (now {self.settings['learning_rate']:g}) or the loss's weight"
            )
        defined = table.masked_fill(~is_defined, torch.nan)
        means = torch.where(defined.isnan().any(0), defined.nanmean(0), table.mean(0)).tolist()
        names = (*self.terms, *self.measures)
        self.history.losses.append({"iteration": iteration, **dict(zip(names, means, strict=True))})
        self.live.losses(self.history.losses[-1])

    def _validate(self, iteration: int) -> None:
        """Validate in the first process, and save the run's state. The other processes wait."""
        self._check_finite(iteration)
        self.history.iteration = iteration
        if self.ranks.rank == 0:
            assert self.validate is not None
            with compiling.eager():
                self._record_scores(iteration, self.validate(self.model))
        self.ranks.wait()

    def _check_finite(self, iteration: int) -> None:
        """Raise InputError if a weight of the model is not finite. The message names the weight."""
        for name, weights in self.model.named_parameters():
            if not weights.isfinite().all():
                raise InputError(
                    f"the weights {name!r} are not finite after iteration {iteration}; "
                    f"lower train.learning_rate (now {self.settings['learning_rate']:g})"
                )

    def _record_scores(self, iteration: int, result: float | dict[str, float]) -> None:
        """Append scores to the history, copy the weights if they are the best, and save the state.

        `result` is the score that selects the best weights, or name -> score with the key `phase.metric`.
        """
        history, metric = self.history, self.phase.metric
        scores = result if isinstance(result, dict) else {metric: result}
        history.validation.append({"iteration": iteration, **scores})
        self.live.validation(history.validation[-1])
        score, best = scores[metric], history.best_score
        better = score > best or (self.phase.keep == "later" and score == best) or self.phase.keep == "last"
        if better and iteration > self.settings.get("select_after", 0):
            history.best_iteration, history.best_score = iteration, score
            history.best = {k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()}
        resuming.save(self.state, history, self.model, self.optimiser)
        self._warn(iteration, scores.get(DISTINCT))

    def _warn(self, iteration: int, distinct: float | None) -> None:
        """Warn once if the training does not seem to learn."""
        terms = not_learning.chances(getattr(self.model, "regularisers", {}))
        iterations = self.settings["iterations"]
        found = not_learning.sign(iteration, iterations, self.history.losses, distinct, terms)
        if found and not self.warned:
            self.warned = True
            print(f"warning: {found}; {not_learning.HELP}", file=sys.stderr)
