"""Orders by name, as a command line or a plan of runs gives them: "shuffled", "dirichlet:0.1", "few-classes:2"."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from trimtab.data import orders
from trimtab.data.orders import Indices
from trimtab.errors import TrimtabError

# What to write -> what one gets. The letters stand for numbers, "names" for domains with commas between.
ORDERS: Final[dict[str, str]] = {
    "stored": "as the set has them",
    "shuffled": "uniformly random (the papers' default)",
    "class-sorted": "one class after another",
    "dirichlet:A": "classes correlated in time; small A means long runs (0.1 is usual)",
    "domain-sequence[:names]": "one domain after another, in the order given or of first appearance",
    "domain-mixture[:names]": "domains shuffled together",
    "long-tailed:R": "a part whose most common class is R times its rarest",
    "few-classes:K": "K classes at a time, then the next K",
}


def order_by_name(name: str, *, labels: ArrayLike, domains: Sequence[str] | None = None, seed: int = 0) -> Indices:
    """The indices of the order that `name` describes (see ORDERS), drawn with `seed`."""
    kind, _, argument = name.strip().partition(":")
    known = np.asarray(labels)
    match kind:
        case "stored":
            order = orders.as_stored(len(known))
        case "shuffled":
            order = orders.shuffled(len(known), seed=seed)
        case "class-sorted":
            order = orders.class_sorted(known, seed=seed)
        case "dirichlet":
            return orders.dirichlet(known, _number(name, argument), seed=seed)
        case "long-tailed":
            return orders.long_tailed(known, _number(name, argument), seed=seed)
        case "few-classes":
            return orders.few_classes(known, _whole(name, argument), seed=seed)
        case "domain-sequence" | "domain-mixture":
            if domains is None:
                raise TrimtabError(f"The order {name!r} needs a set with domains, and this one has none.")
            which = [part.strip() for part in argument.split(",")] if argument else None
            make = orders.domain_sequence if kind == "domain-sequence" else orders.domain_mixture
            return make(domains, seed=seed, which=which)
        case _:
            raise TrimtabError(f"There is no order {name!r}; choose one of {', '.join(ORDERS)}.")
    if argument:
        raise TrimtabError(f"The order {kind!r} takes nothing after a colon, but {argument!r} was given.")
    return order


def _number(name: str, argument: str) -> float:
    try:
        return float(argument)
    except ValueError:
        raise TrimtabError(f"The order {name!r} needs a number after the colon, as in 'dirichlet:0.1'.") from None


def _whole(name: str, argument: str) -> int:
    number = _number(name, argument)
    if number != int(number):
        raise TrimtabError(f"The order {name!r} needs a whole number after the colon, not {argument}.")
    return int(number)
