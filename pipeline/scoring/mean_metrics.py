"""Metrics of a corpus that are means over its pairs: the table to which a metric is added.

A metric that is added here is in metrics.json (of every subset) and in pairs.jsonl. No code of a training
imports this file, so a new metric trains nothing again.
"""

from collections.abc import Callable

import numpy as np

from pipeline.scoring.metrics import Captions, References, rouge_l

# name -> function that returns each pair's score
MEANS: dict[str, Callable[[Captions, References], np.ndarray]] = {"ROUGE-L": rouge_l}
