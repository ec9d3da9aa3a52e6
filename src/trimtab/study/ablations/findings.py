"""A study on a store: its runs, and what they came to."""

import math
from dataclasses import dataclass
from pathlib import Path

from trimtab import arguments
from trimtab.methods import make_method
from trimtab.study.ablations.studies import Point, Study, study_by_name
from trimtab.study.bench.plan import BASELINE, Plan, Run, labeled_store, possible_weights
from trimtab.study.bench.record import Record, read_record
from trimtab.study.bench.rows import mean_accuracy, spread, weights_title


@dataclass(frozen=True)
class Ablation:
    """A study on a store: its runs, point by point."""

    study: Study
    weights: str
    points: tuple[tuple[Point, tuple[Run, ...]], ...]
    zero_shot: tuple[Run, ...]

    @property
    def plan(self) -> Plan:
        """All runs, zero-shot first."""
        return Plan((*self.zero_shot, *(run for _, runs in self.points for run in runs)))

    def read(self, folder: str | Path) -> "Findings":
        """What the runs came to, from the records that they have left in a folder."""
        root = Path(folder)
        outcomes = [
            Outcome(point, [read_record(root / file) for run in runs for file in run.files.values()])
            for point, runs in self.points
        ]
        return Findings(self, outcomes, [read_record(root / run.file_of("fixed")) for run in self.zero_shot])


@dataclass(frozen=True)
class Outcome:
    """What a point came to, one record for each order."""

    point: Point
    records: list[Record]

    @property
    def mean(self) -> float | None:
        """Percent; None if an order failed."""
        return mean_accuracy(self.records)

    @property
    def spread(self) -> float:
        """The standard deviation over orders, in points."""
        return spread(self.records)


@dataclass(frozen=True)
class Findings:
    """A finished study."""

    ablation: Ablation
    outcomes: list[Outcome]
    zero_shot: list[Record]

    @property
    def zero_shot_accuracy(self) -> float:
        """Percent; NaN if zero-shot itself has failed."""
        mean = mean_accuracy(self.zero_shot)
        return math.nan if mean is None else mean

    @property
    def reference(self) -> Outcome | None:
        """The paper's own setting, where the study has one."""
        return next((outcome for outcome in self.outcomes if outcome.point.reference), None)

    @property
    def where(self) -> str:
        """The store and the weights, for titles; an oracle is called one."""
        about = self.zero_shot[0].about
        return f"{about.dataset}, {about.encoder}, {weights_title(self.ablation.weights)}"


def make_ablation(
    name: str, store: str | Path, *, method: str | None = None, seeds: int = 3, weights: str = "fixed"
) -> Ablation:
    """A study on a store; `method` is the one under study, where it is one."""
    arguments.whole("seeds (the number of orders)", seeds, least=1)
    study, opened = study_by_name(name), labeled_store(store)
    points = study.points(opened, method or study.default_method)

    def runs(point: Point) -> tuple[Run, ...]:
        made = make_method(point.method, **point.parameters)
        return tuple(
            Run(
                store=str(store),
                dataset=opened.info.dataset,
                fingerprint=opened.fingerprint,
                method=point.method,
                parameters=point.parameters,
                order=point.order,
                seed=seed,
                weights=possible_weights(made, [weights]),
                views=point.views,
                variant=point.label,
            )
            for seed in range(seeds)
        )

    zero_shot = Point("", (), BASELINE)
    return Ablation(study, weights, tuple((point, runs(point)) for point in points), runs(zero_shot))
