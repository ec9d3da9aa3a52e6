"""The three caches that MCP and MCP++ share: what they keep, and which images they admit.

| cache    | keeps                                                        | keyed by                          |
|----------|--------------------------------------------------------------|-----------------------------------|
| entropy  | the items of lowest entropy                                  | the plain view's class            |
| align    | items of low entropy that are nearer to the class's center   | the vote of the confident views   |
| negative | uncertain items, and the classes that they speak against     | the class after reflection        |

| equation or rule         | function                                   |
|--------------------------|--------------------------------------------|
| M_entropy, admission     | `ThreeCaches.write`, `Bank.slot_for_lower` |
| M_align, admission       | `ThreeCaches._align_slot`                  |
| mu_c (Eq. 2)             | `ThreeCaches._with_center`                 |
| reflecting, three cases  | `ThreeCaches._reflect`                     |
| Q_n, L_n                 | `engine.readouts.NegativePenalties`        |
| v_c                      | `engine.readouts.MeanProducts` (<f, v_c>), `engine.prototypes.Prototypes` (v_c itself) |

Where the paper leaves room we do as the authors' released program does: v_c is a plain mean, not normalized, and an
image that both caches keep counts twice. One difference: an item that the reflecting mechanism promotes is visible at
once, as the paper's text says; in the released program only when its class is next written.
"""

from dataclasses import dataclass

from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image
from trimtab.engine.clarity import Clarity
from trimtab.engine.equations import normalized_entropy
from trimtab.engine.kernels import best_of, softmax_in_place
from trimtab.engine.readouts import AffinitySums, MeanProducts, NegativePenalties, RetrievalCosines
from trimtab.engine.state import State
from trimtab.engine.wide import WideBank
from trimtab.engine.wide_readouts import kind_for
from trimtab.methods.three_cache_method import ThreeCacheMethod
from trimtab.task import Task


@dataclass
class ThreeCaches(State):
    """One bank: slot 0 holds the text prototype, then come the entropy, align and negative caches."""

    bank: Bank  # (C, 1 + entropy_slots + align_slots + negative_slots) slots
    visual: MeanProducts  # <f, v_c>
    reflected: AffinitySums  # what the entropy cache alone says, for the reflecting mechanism
    retrieved: RetrievalCosines  # <f, r_c>
    penalties: NegativePenalties  # what the negative cache says against each class
    clarity: Clarity  # whether items age

    @classmethod
    def empty(cls, rules: ThreeCacheMethod, task: Task) -> "ThreeCaches":
        """No items beside the text prototypes."""
        sections = {"entropy": rules.entropy_slots, "align": rules.align_slots, "negative": rules.negative_slots}
        kind = kind_for(task.classes)
        bank = kind.bank(
            task.classes,
            task.dim,
            sections,
            anchors=task.text_prototypes,
            lifetime=rules.lifetime,
        )
        items = slice(1, bank.sections["align"].stop)
        return cls(
            bank=bank,
            visual=kind.mean_products(bank, items),
            reflected=kind.affinity_sums(bank, bank.sections["entropy"], *rules.affinity),
            retrieved=kind.retrieval_cosines(bank, slice(0, items.stop), rules.retrieval_beta),
            penalties=kind.negative_penalties(
                bank,
                bank.sections["negative"],
                rules.negative_alpha,
                rules.negative_beta,
                rules.mask_low,
                rules.mask_high,
            ),
            clarity=Clarity(),
        )

    def __post_init__(self) -> None:
        self._last: Block | None = None  # that was opened

    def open(self, block: Block) -> None:
        """Make everything ready, once; a single image's products with slot 0 are its cosines with the text."""
        if block is self._last:
            return
        super().open(block)
        self._last = block
        if not isinstance(self.bank, WideBank):
            block.take_cosines(self.bank.products_with_anchors)

    def before_judging(self, block: Block) -> None:
        """A guard asks for a single image's cosines before the caches do; of several views, it decides which count.

        A wide bank has no cosines to give. It asks for logits, for which the guard must have judged the image.
        """
        if block.views.shape[:2] == (1, 1) and not isinstance(self.bank, WideBank):
            self.open(block)

    def write(self, image: Image, rules: ThreeCacheMethod) -> None:
        """Offer the image to the entropy cache, the align cache and, if it is uncertain, to the negative cache."""
        self.bank.grow_older(image.label, self.clarity.take_in(image.logits))
        # The align test uses the visual prototype as it was before this image, so it comes before any write.
        align_slot = self._align_slot(image, rules)
        self.bank.offer("entropy", image.label, image, image.entropy)
        if align_slot is not None:
            plain = None if rules.query == "plain" else image.plain  # the align cache always holds plain views
            self.bank.write(image.vote_label, align_slot, image, image.vote_entropy, feature=plain)
        if _is_uncertain(image.entropy, image, rules):
            self._reflect(image, rules)

    def _align_slot(self, image: Image, rules: ThreeCacheMethod) -> int | None:
        """Where the align cache would take the image.

        It must be more certain than the least certain item of its class, and nearer to the class's center.
        """
        bank, label = self.bank, image.vote_label
        slot = bank.slot_for_lower("align", label, image.vote_entropy)
        if slot is None or not bank.occupied[label, slot]:
            return slot
        arriving = bank.items(label) @ image.plain
        leaving = bank.gram[label, slot]
        # Squared distances to the center, less |mu|^2, which both share.
        arriving_distance = float(image.plain @ image.plain) - 2 * self._with_center(arriving, label, rules)
        leaving_distance = float(leaving[slot]) - 2 * self._with_center(leaving, label, rules)
        return slot if arriving_distance < leaving_distance else None

    def _with_center(self, products: Array, label: int, rules: ThreeCacheMethod) -> float:
        """<x, mu_c> from the products of x with the slots of a class that holds something."""
        items = slice(1, self.bank.sections["align"].stop)
        occupied = self.bank.occupied[label, items]
        with_visual = float(products[items] @ occupied) / float(occupied.sum())  # <x, v_c>
        return rules.center_weight * with_visual + (1 - rules.center_weight) * float(products[0])  # Eq. 2

    def _reflect(self, image: Image, rules: ThreeCacheMethod) -> None:
        """The reflecting mechanism: ask the entropy cache again before trusting an uncertain image as a negative."""
        probabilities = image.logits + self.reflected.at(image)
        calibrated = float(softmax_in_place(probabilities))
        label = int(best_of(probabilities))
        if _is_uncertain(calibrated, image, rules):  # case 1: still uncertain, a negative item
            self.bank.offer("negative", label, image, calibrated, payload=probabilities)
        elif normalized_entropy(calibrated, len(image.logits)) <= rules.entropy_low:  # case 2: certain now, promoted
            if rules.promotion:
                self.bank.offer("entropy", label, image, calibrated)
        else:  # case 3: more uncertain than before, dropped
            return


def _is_uncertain(entropy_in_nats: float, image: Image, rules: ThreeCacheMethod) -> bool:
    return rules.entropy_low < normalized_entropy(entropy_in_nats, len(image.logits)) < rules.entropy_high
