"""The book: what a watch keeps in arrays of fixed sizes, all in one piece of memory.

At a step, when the method's items have driven all else from the processor's caches, each array that compiled code is
given costs a tenth of a microsecond. So the admission's figures, the verdicts, the answers that were noted and the log
are fields of one record; outside, each is an array like any other.
"""

import numpy as np
from numpy.typing import NDArray

Book = NDArray[np.void]  # one record, of the fields that `watch.BOOK` names
