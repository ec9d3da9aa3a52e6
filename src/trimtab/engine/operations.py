"""What adapting to one image costs, counted by formula: multiply-adds (2 operations each) of full caches.

Each method counts its own formulas with these (`Method.operations`): the inner products with texts and stored items,
the norms of retrieved vectors, the masks of negative items, and for methods that learn the forward and backward
products of a step. Left out are the image encoder (the same for all methods with the same number of views),
exponentials and bookkeeping, together a few percent. trimtab's own code does less by reusing products between images.
Methods that tune prompts also pass through an encoder; what one pass takes is the encoder's to say, and a method whose
encoder is not known is not counted.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The sizes that a count depends on."""

    classes: int
    dim: int
    views: int
    kept: int  # confident views
    text_pass: float | None = None  # operations of all classes' texts through the text encoder, as released
    image_pass: float | None = None  # operations of one view through the image encoder

    def products(self, left: float, right: float) -> float:
        """Operations of the inner products of `left` with `right` vectors."""
        return 2.0 * left * right * self.dim

    def masks(self, slots: int) -> float:
        """Operations of letting `slots` negative items per class speak against all classes."""
        return 2.0 * self.classes * slots * self.classes

    def norms(self, items: int) -> float:
        """Operations of the norms of one weighted sum of `items` per class, from the items' own products."""
        return 2.0 * self.classes * items * items


def transformer_pass(tokens: int, blocks: int, width: int, hidden: int) -> float:
    """Operations of `tokens` through a transformer: attention's four matrices, the perceptron's two, and attention."""
    return 2.0 * tokens * blocks * (4 * width * width + 2 * width * hidden + 2 * tokens * width)
