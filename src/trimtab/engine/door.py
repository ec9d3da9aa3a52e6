"""The compiled door of a bank: finding a slot and writing an image into it, for loops that walk a whole block.

`Bank.write` is the same in Python, image by image, for methods whose rules are not compiled and for whoever wants to
know of every write. Both put an item with `put_item` and keep the same tables true with the same kernels, so it makes
no difference which one is taken; a test holds them to each other.

An image that is not to be learned from is written all the same, so that its answer is that of a step, but no other
image's column of a table is touched; `take_back` puts back what it overwrote.
"""

import numpy as np

from trimtab.engine import lanes
from trimtab.engine.arrays import Array
from trimtab.engine.compiled import njit
from trimtab.engine.pool import NOWHERE, USED, lay_down
from trimtab.engine.products import dot, pair_products
from trimtab.engine.tables import Affinities, Means, Penalties, ReadOuts, Retrieved, Slots, Visit


@njit(nogil=True)
def slot_for_lower(bank: Slots, label: int, start: int, stop: int, score: np.float32) -> int:
    """The slot where a class's section, slots start..stop, takes an item of this score, or NOWHERE.

    Its next free slot; if the bank is not closed, that of an item which has outlived its time, else the worst one if
    the score is strictly lower; of equals, the first.
    """
    if start == stop:
        return NOWHERE
    occupied, scores, births = bank.occupied[label], bank.scores[label], bank.births[label]
    worst = oldest = start
    for slot in range(start, stop):
        if not occupied[slot]:
            return slot
        if scores[slot] > scores[worst]:
            worst = slot
        if births[slot] < births[oldest]:
            oldest = slot
    if bank.closed[0]:
        return NOWHERE
    if bank.lifetime > 0 and bank.arrivals[label] - births[oldest] > bank.lifetime * (stop - start):
        return oldest
    return worst if score < scores[worst] else NOWHERE


@njit(nogil=True)
def put_item(
    bank: Slots,
    label: int,
    slot: int,
    row: int,
    last: int,
    score: np.float32,
    feature: Array,
    is_query: bool,
    spare: int,
) -> None:
    """Put an item into a slot: the block's image `row` itself (`is_query`), or another feature of it.

    The products of the block's images from `row` to `last` with it become known. It lies in the row `spare`, if that is
    not NOWHERE, and what the slot held stays where it is.
    """
    rows, products = bank.rows, bank.products
    if spare == NOWHERE:
        lay_down(rows, label, slot, feature, bank.first + row if is_query else NOWHERE)
    else:
        rows.features[spare], rows.places[label, slot] = feature, spare
    target = products[bank.at[label, slot]]
    if is_query:
        known = bank.among[row]
        for lane in range(row, last):
            target[lane] = known[lane]
    else:
        for lane in range(row, last):
            target[lane] = dot(bank.queries[lane], feature)
    gram = bank.gram[label]
    for other in range(len(gram)):
        place = rows.places[label, other]
        product = np.float32(0)
        if place != NOWHERE:
            product = products[bank.at[label, other], row] if is_query else dot(rows.features[place], feature)
        gram[slot, other] = product
        gram[other, slot] = product
    bank.scores[label, slot] = score
    bank.sources[label, slot] = bank.first + row
    bank.births[label, slot] = bank.arrivals[label]
    bank.occupied[label, slot] = np.float32(1)


@njit(nogil=True)
def open_tables(bank: Slots, readouts: ReadOuts) -> None:
    """Compute what every class reads out to every image of a block that was just opened."""
    classes, images = len(bank.at), bank.products.shape[1]
    _read_means(bank, readouts.means, 0, classes, 0, images)
    _read_affinities(bank, readouts.affinities, 0, classes, 0, images)
    _read_retrieved(bank, readouts.retrieved, 0, classes, 0, images)
    penalties = readouts.penalties
    penalties.table[:] = 0
    _speak(bank, penalties, 0, classes, 0, penalties.stop - penalties.start, 0, images, penalties.alpha)


@njit(nogil=True)
def open_one(bank: Slots, readouts: ReadOuts, by_row: Array) -> None:
    """The same for a block of one image, whose products with the rows in use come first."""
    rows = bank.rows.features[: bank.rows.figures[USED]]
    pair_products(rows, bank.queries[0], by_row, 0, len(rows))
    open_one_multiplied(bank, readouts, by_row)


@njit(nogil=True)
def open_one_multiplied(bank: Slots, readouts: ReadOuts, by_row: Array) -> None:
    """The same where its products with the rows in use are known: slot by slot, 0 for an empty one, they are read."""
    places, by_slot = bank.rows.places.reshape(-1), bank.products.reshape(-1)
    for slot in range(len(places)):
        by_slot[slot] = by_row[places[slot]] if places[slot] != NOWHERE else np.float32(0)
    open_tables(bank, readouts)


@njit(nogil=True)
def write(
    bank: Slots,
    readouts: ReadOuts,
    visit: Visit,
    label: int,
    slot: int,
    row: int,
    score: np.float32,
    feature: Array,
    is_query: bool,
    payload: Array,
) -> None:
    """Put an item into a slot, over whatever it held, and keep the read-outs true for the images from `row` on."""
    last, spare = bank.products.shape[1], NOWHERE
    if not visit.learned[row]:
        last, spare = row + 1, len(bank.rows.holders) + visit.writes[0]
        _remember(bank, readouts, visit, label, slot, row)
    penalties = readouts.penalties
    item = slot - penalties.start
    negative = penalties.start <= slot < penalties.stop
    if negative:
        _speak(bank, penalties, label, label + 1, item, item + 1, row, last, -penalties.alpha)
    put_item(bank, label, slot, row, last, score, feature, is_query, spare)
    if readouts.means.start <= slot < readouts.means.stop:
        _read_means(bank, readouts.means, label, label + 1, row, last)
    if readouts.affinities.start <= slot < readouts.affinities.stop:
        _read_affinities(bank, readouts.affinities, label, label + 1, row, last)
    if slot < readouts.retrieved.stop:
        _read_retrieved(bank, readouts.retrieved, label, label + 1, row, last)
    if negative:
        _mark(penalties, label, item, payload)
        _speak(bank, penalties, label, label + 1, item, item + 1, row, last, penalties.alpha)


@njit(nogil=True, inline="always")
def offer(
    bank: Slots,
    readouts: ReadOuts,
    visit: Visit,
    start: int,
    stop: int,
    label: int,
    row: int,
    score: np.float32,
    payload: Array,
) -> None:
    """Store image `row` in a section if there is room or its score is strictly lower than the worst one."""
    slot = slot_for_lower(bank, label, start, stop, score)
    if slot != NOWHERE:
        itself = bool(row >= 0)  # the bare word True would be another type, and `write` compiled twice
        write(bank, readouts, visit, label, slot, row, score, bank.queries[row], itself, payload)


@njit(nogil=True)
def _remember(bank: Slots, readouts: ReadOuts, visit: Visit, label: int, slot: int, row: int) -> None:
    """What a slot holds, before an image that must leave no trace is put there."""
    at = visit.writes[0]
    visit.writes[0] += 1
    place, numbers = visit.places[at], visit.numbers[at]
    place[0], place[1], place[2], place[3] = label, slot, bank.sources[label, slot], bank.births[label, slot]
    place[4] = bank.rows.places[label, slot]
    numbers[0], numbers[1] = bank.scores[label, slot], bank.occupied[label, slot]
    numbers[2] = bank.products[bank.at[label, slot], row] if bank.at[label, slot] != NOWHERE else np.float32(0)
    visit.grams[at] = bank.gram[label, slot]
    if len(readouts.means.present) > 0:
        visit.present[at] = readouts.means.present[label]
    penalties = readouts.penalties
    if penalties.start <= slot < penalties.stop:
        visit.marked[at] = penalties.marked[label, slot - penalties.start]
        visit.counts[at] = penalties.counts[label, slot - penalties.start]


@njit(nogil=True)
def take_back(bank: Slots, readouts: ReadOuts, visit: Visit, row: int) -> None:
    """Put back what image `row`, which is not learned from, has overwritten, the last write first.

    Its own column of the tables stays: that is its answer, and nobody else reads it.
    """
    while visit.writes[0] > 0:
        visit.writes[0] -= 1
        at = visit.writes[0]
        label, slot, source, birth, place = visit.places[at]
        bank.sources[label, slot], bank.births[label, slot] = source, birth
        score, occupied, product = visit.numbers[at]
        bank.scores[label, slot], bank.occupied[label, slot] = score, occupied
        bank.rows.features[bank.rows.places[label, slot]] = 0
        bank.rows.places[label, slot] = place
        if bank.at[label, slot] != NOWHERE:
            bank.products[bank.at[label, slot], row] = product
        bank.gram[label, slot] = visit.grams[at]
        bank.gram[label, :, slot] = visit.grams[at]
        if len(readouts.means.present) > 0:
            readouts.means.present[label] = visit.present[at]
        penalties = readouts.penalties
        if penalties.start <= slot < penalties.stop:
            penalties.marked[label, slot - penalties.start] = visit.marked[at]
            penalties.counts[label, slot - penalties.start] = visit.counts[at]


@njit(nogil=True)
def _read_means(bank: Slots, means: Means, first_class: int, last_class: int, row: int, last: int) -> None:
    if len(means.table) > 0:
        lanes.mean_products(
            bank.products,
            bank.at,
            bank.occupied,
            means.start,
            means.stop,
            first_class,
            last_class,
            row,
            last,
            means.table,
            means.present,
        )


@njit(nogil=True)
def _read_affinities(
    bank: Slots, affinities: Affinities, first_class: int, last_class: int, row: int, last: int
) -> None:
    if len(affinities.table) > 0:
        lanes.affinity_sums(
            bank.products,
            bank.at,
            bank.occupied,
            affinities.start,
            affinities.stop,
            affinities.alpha,
            affinities.beta,
            first_class,
            last_class,
            row,
            last,
            affinities.table,
        )


@njit(nogil=True)
def _read_retrieved(bank: Slots, retrieved: Retrieved, first_class: int, last_class: int, row: int, last: int) -> None:
    if len(retrieved.table) > 0:
        lanes.retrieval_cosines(
            bank.products,
            bank.at,
            bank.occupied,
            bank.gram,
            retrieved.stop,
            retrieved.beta,
            first_class,
            last_class,
            row,
            last,
            retrieved.table,
        )


@njit(nogil=True)
def _mark(penalties: Penalties, label: int, item: int, payload: Array) -> None:
    """Remember the classes that a negative item finds plausible: its row of L_n."""
    count = 0
    for c in range(len(payload)):
        if penalties.low < payload[c] < penalties.high:
            penalties.marked[label, item, count] = c
            count += 1
    penalties.counts[label, item] = count


@njit(nogil=True)
def _speak(
    bank: Slots,
    penalties: Penalties,
    first_class: int,
    last_class: int,
    first_item: int,
    last_item: int,
    row: int,
    last: int,
    alpha: np.float32,
) -> None:
    """Let negative items speak against the classes they mark; a negative alpha takes it back."""
    lanes.add_penalties(
        bank.products,
        bank.at,
        bank.occupied,
        penalties.start,
        alpha,
        penalties.beta,
        penalties.marked,
        penalties.counts,
        first_class,
        last_class,
        first_item,
        last_item,
        row,
        last,
        penalties.table,
    )
