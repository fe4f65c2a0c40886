"""Which settings matter: whether the values tried of one setting differ by more than seeds do.

The papers draw such values without a spread (SCORER's Figures 3 to 5, 9 and 10): of single runs one
value is always the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import f_oneway

from pipeline.results.claims import LEAST_SEEDS
from pipeline.results.record_comparisons import Group
from pipeline.scoring.metric_names import CLAIMED

LEVEL = 0.05
LEAST_VALUES = 3  # of two a claim or the reader's eye says enough


@dataclass(frozen=True)
class Spread:
    """What one metric says: the groups of the least and of the greatest mean, and how likely by chance."""

    least: Group
    greatest: Group
    p: float  # that values alike differ so; one setting of several asked: Bonferroni's correction is in it

    @property
    def matters(self) -> bool:
        return self.p < LEVEL


@dataclass(frozen=True)
class Setting:
    """One setting of one model on one dataset: a group a value, that of params.yaml among them."""

    key: str
    values: tuple[Group, ...]
    by: dict[str, Spread]

    @property
    def seeds(self) -> int:
        """Of the value that has fewest."""
        return min(len(group.records) for group in self.values)


def tried(groups: Sequence[Group]) -> list[Setting]:
    """The settings of one dataset's groups of which three values or more have three seeds and have begun.

    A one-way analysis of variance over the cells' scores, each metric by itself: its p speaks of other
    seeds and of these test pairs. Where several settings are asked, p is multiplied by their number.
    """
    enough = [group for group in groups if len(group.records) >= LEAST_SEEDS and group.begun]
    plain = {group.model: group for group in enough if not group.changes}
    found: dict[tuple[str, str], list[Group]] = {}
    for group in enough:
        if len(group.changes) == 1 and group.model in plain:
            (key,) = group.changes
            found.setdefault((group.model, key), [plain[group.model]]).append(group)
    asked = {own: values for own, values in found.items() if len(values) >= LEAST_VALUES}
    return [
        Setting(key, tuple(values), {metric: _spread(values, metric, len(asked)) for metric in CLAIMED})
        for (_, key), values in sorted(asked.items(), key=lambda own: own[0])
    ]


def _spread(values: Sequence[Group], metric: str, asked: int) -> Spread:
    ordered = sorted(values, key=lambda group: group.score("total", metric).mean)
    cells = [[one.score("total", metric).mean for one in group.each()] for group in values]
    return Spread(ordered[0], ordered[-1], min(1.0, _chance(cells) * asked))


def _chance(cells: Sequence[Sequence[float]]) -> float:
    """The analysis' p; where seeds do not differ at all, as of silent models, F has no denominator."""
    if all(len(set(own)) == 1 for own in cells):
        return 1.0 if len({own[0] for own in cells}) == 1 else 0.0
    return float(f_oneway(*cells).pvalue)
