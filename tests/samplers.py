"""Samplers of training batches, for tests."""

from pipeline.training.sampling import Sampler


def sampler_of(pairs, batch, seed, exchanging, references=1, by_sentence=False, **settings):
    """Return the sampler of a training phase with these settings."""
    settings |= {"batch": batch, "exchange": exchanging, "references": references}
    return Sampler(pairs, settings, seed, by_sentence)
