"""Search of a method's affinities and capacities on a labeled store, with Optuna. What it finds is an oracle there.

The search can leave part of the images out (`holdout`): only a figure measured on those, or on another store, is fair.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.files import FileLock
from trimtab.methods import make_method, method_class
from trimtab.study import metrics
from trimtab.study.bench.dependencies import code_fingerprint
from trimtab.study.bench.plan import labeled_store
from trimtab.study.bench.tuned import TunedParameters

if TYPE_CHECKING:
    import optuna

JOURNAL = b'{"op_code"'  # how a file of Optuna's trials begins

SLOTS_PER_CLASS = (1, 2, 3, 5, 8, 10, 16, 24, 32, 50)
Draw = Callable[["optuna.Trial", str, Any], float | int]  # draws for the parameter of that name and default

# How a parameter's name ends -> how a value is drawn. Thresholds and view counts stay as the papers have them.
SPACE: dict[str, Draw] = {
    "_slots": lambda trial, name, default: trial.suggest_categorical(name, _capacities(default)),
    "_alpha": lambda trial, name, _: trial.suggest_float(name, 0.03, 10.0, log=True),
    "_beta": lambda trial, name, _: trial.suggest_float(name, 0.5, 12.0),
    "center_weight": lambda trial, name, _: trial.suggest_float(name, 0.0, 1.0),
    "learning_rate": lambda trial, name, _: trial.suggest_float(name, 1e-5, 1e-2, log=True),
    "lr_text": lambda trial, name, _: trial.suggest_float(name, 1e-5, 1e-2, log=True),
    "lr_image": lambda trial, name, _: trial.suggest_float(name, 1e-5, 1e-2, log=True),
}


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search. Accuracies are percent; the oracle's is on the very images that were searched."""

    tuned: TunedParameters
    oracle: float
    default: float  # of the method's defaults, on the searched images
    held_out: float | None  # of the tuned parameters on images that the search has not seen
    held_out_default: float | None

    def data(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "method": self.tuned.method,
            "parameters": dict(self.tuned.parameters),
            "dataset": self.tuned.dataset,
            "tuned_on": self.tuned.tuned_on,
            "trials": self.tuned.trials,
            "oracle": {"accuracy": self.oracle, "defaults": self.default},
            "held_out": None
            if self.held_out is None
            else {"accuracy": self.held_out, "defaults": self.held_out_default},
        }

    def sentences(self) -> list[str]:
        """What may be said of it."""
        said = [
            f"ORACLE, on the images searched with their labels: {self.oracle:.2f} % "
            f"(defaults: {self.default:.2f} %). No real stream can have this figure."
        ]
        if self.held_out is not None:
            said.append(
                f"On the images held out: {self.held_out:.2f} % (defaults: {self.held_out_default:.2f} %). "
                "Their labels were not used."
            )
        return said


def tune(
    path: str | Path,
    method: str = "mcp",
    *,
    trials: int = 50,
    images: int | None = None,
    holdout: float = 0.0,
    order: str = "shuffled",
    seed: int = 0,
    journal: str | Path | None = None,
    on_trial: Callable[[int, float], None] | None = None,
) -> SearchResult:
    """Search `trials` settings of a method on a labeled store.

    The first `images` of the order are searched (all if None), less the share `holdout` at its end. With a `journal`
    file the search can be interrupted and continued. `on_trial` is called with the trials done and the best accuracy.
    """
    import optuna

    arguments.whole("trials", trials, least=1)
    arguments.whole("seed", seed, least=0, most=2**32 - 1)
    if images is not None:
        arguments.whole("images", images, least=1)
    arguments.callback("on_trial", on_trial)
    if arguments.number("holdout", holdout, least=0, most=1) == 1:
        raise TrimtabError("holdout must leave images to search on; give a share below 1.")
    store = labeled_store(path)
    names, defaults = searched_parameters(method), make_method(method).parameters()
    chosen = order_by_name(order, labels=store.labels, domains=store.domains, seed=seed)[:images]
    cut = round(len(chosen) * (1 - holdout))
    if cut < 1:
        raise TrimtabError("No images are left to search on; hold fewer out.")
    seen, unseen = chosen[:cut], chosen[cut:]
    measure = _Measure(store, method, seen)

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    code = code_fingerprint(method_class(method))  # trials of other code say nothing about this one
    states = optuna.trial.TrialState
    with _writing(journal):
        study = _study(
            journal,
            f"{method} ({code}) on {store.fingerprint[:12]}, {order} {seed}, {len(seen)} images",
            optuna.samplers.TPESampler(seed=seed, n_startup_trials=min(10, trials)),
        )
        if not study.get_trials(deepcopy=False, states=(states.COMPLETE, states.WAITING)):
            study.enqueue_trial({name: defaults[name] for name in names})  # the best is never worse than the defaults
        done = len(study.get_trials(deepcopy=False, states=(states.COMPLETE,)))
        while done < trials:  # asked and told by hand: an interrupt then ends the search without a word of Optuna's
            trial = study.ask()
            study.tell(trial, measure({name: draw(trial, name, defaults[name]) for name, draw in names.items()}))
            done += 1
            if on_trial:
                on_trial(done, study.best_value)
        best, best_value = dict(study.best_params), float(study.best_value)
    tuned = TunedParameters(
        name=f"tuned on {store.info.dataset}",
        method=method,
        parameters=best,
        tuned_on=store.fingerprint,
        dataset=store.info.dataset,
        trials=done,
        oracle_accuracy=best_value / 100,
        default_accuracy=measure({}) / 100,
    )
    fair = _Measure(store, method, unseen) if len(unseen) else None
    return SearchResult(
        tuned,
        oracle=best_value,
        default=100 * tuned.default_accuracy,
        held_out=fair(best) if fair else None,
        held_out_default=fair({}) if fair else None,
    )


def searched_parameters(method: str) -> dict[str, Draw]:
    """The method's affinities and capacities, with how each is drawn; not those that it finds by itself ("auto")."""
    found = {
        name: draw
        for name, default in make_method(method).parameters().items()
        for ending, draw in SPACE.items()
        if name.endswith(ending) and isinstance(default, int | float)
    }
    if not found:
        raise TrimtabError(f"{method} has no affinities or capacities to search.")
    return found


def _capacities(default: int) -> list[int]:
    """Slots to choose from: the papers' sizes of one class, or around the default of a memory of the whole stream."""
    whole_stream = default > max(SLOTS_PER_CLASS)
    around = (default // 8, default // 4, default // 2, 2 * default) if whole_stream else SLOTS_PER_CLASS
    return sorted({*around, default})


class _Measure:
    """Accuracy in percent of a method under some parameters, on some images of a store in their order."""

    def __init__(self, store: FeatureStore, method: str, positions: NDArray[np.int64]) -> None:
        self._method, self._task = method, store.task(make_method(method).needs)
        self._rows, self._labels = store.rows(positions), store.labels[positions]

    def __call__(self, parameters: dict[str, Any]) -> float:
        stream = make_method(self._method, **parameters).start(self._task)
        predicted = stream.run(self._rows, keep_parts=False)
        return 100 * metrics.score(predicted.probabilities, self._labels).accuracy


def _study(journal: str | Path | None, name: str, sampler: "optuna.samplers.BaseSampler") -> "optuna.Study":
    """A new search, or the one that a journal file holds."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    if journal is None:
        return optuna.create_study(direction="maximize", sampler=sampler)
    file = Path(journal).expanduser()
    try:
        _cut_torn_line(file)
        storage = JournalStorage(JournalFileBackend(str(file)))
        return optuna.create_study(
            direction="maximize", sampler=sampler, study_name=name, storage=storage, load_if_exists=True
        )
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        raise TrimtabError(f"{file} does not hold the trials of a search; delete it to begin again.") from error


@contextmanager
def _writing(journal: str | Path | None) -> Iterator[None]:
    """One search per journal; a disk that is full or read-only ends it in one sentence and without an empty file."""
    if journal is None:
        yield
        return
    file = arguments.place("journal", journal)
    with suppress(OSError):  # the lock says what is wrong
        file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        yield
    except OSError as error:
        raise TrimtabError(
            f"The trials cannot be kept in {journal}: {error.strerror or error}; those before are kept, make room or "
            "choose another place with -o."
        ) from error
    finally:
        if file.is_file() and not file.stat().st_size:
            file.unlink()
        lock.release(remove=True)


def _cut_torn_line(file: Path) -> None:
    """Remove a last line that a kill or a full disk has cut off; another one written behind it would spoil both."""
    content = file.read_bytes() if file.is_file() else b""
    if not (content.startswith(JOURNAL) or JOURNAL.startswith(content)):  # somebody else's file is left alone
        raise ValueError("not a journal")
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with file.open("r+b") as journal:
            journal.truncate(whole)
