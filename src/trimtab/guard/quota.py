"""Quota: how much of what is learned may come from one source.

Counted are the last images to which nothing else was objected, learned or held back, in a ring of who sent them. So
what a source has sent too much of is forgotten in time. Where all of these came from few named sources, each may have
an equal share: a quarter of one camera's images, where there is no other, is a guard against nobody.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.compiled import njit
from trimtab.guard.sources import NO_SOURCE


@njit(nogil=True)
def is_over(origins: NDArray[np.int64], turn: int, source: int, quota: float) -> bool:
    """Whether a source has had its share already, when its image would be the `turn`-th of the ring."""
    if quota == 0 or source == NO_SOURCE:
        return False
    count = 0
    for k in range(len(origins)):
        count += origins[k] == source
    count -= origins[turn % len(origins)] == source  # whose place it takes
    return count >= quota * len(origins) and count >= _equal_share(origins, quota) * len(origins)


@njit(nogil=True)
def take_turn(origins: NDArray[np.int64], turn: int, source: int, learned: bool) -> None:
    """Write down who sent the `turn`-th image, below NO_SOURCE if it was held back."""
    origins[turn % len(origins)] = source if learned else NO_SOURCE - 1 - source


@njit(nogil=True)
def _equal_share(origins: NDArray[np.int64], quota: float) -> float:
    """What each source may have if all have as much; the quota, if there are more, or if somebody has no name."""
    senders, count = np.empty(len(origins), np.int64), 0
    for k in range(len(origins)):
        if origins[k] == NO_SOURCE:
            return quota
        sender = origins[k] if origins[k] > NO_SOURCE else NO_SOURCE - 1 - origins[k]
        known = False
        for other in senders[:count]:
            known |= other == sender
        if not known:
            senders[count] = sender
            count += 1
            if count * quota >= 1:
                return quota
    return 1 / count
