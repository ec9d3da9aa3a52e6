"""Class names as a text tower reads them: token numbers of the name, and of what closes the sentence."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.encoders.tokens import Tokenize
from trimtab.errors import TrimtabError
from trimtab.prompts.names import words_of


@dataclass(frozen=True)
class Wording:
    """The tokens of "<context> <name>." without the context: the start mark, then for each class its name and the rest.

    The rest is the full stop and the end mark. A name that ends in a mark of its own may share a token with the full
    stop; it then counts to the rest, as in CoOp.
    """

    class_names: tuple[str, ...]
    start: int
    names: tuple[tuple[int, ...], ...]
    rests: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, class_names: Sequence[str], tokenize: Tokenize) -> "Wording":
        """Tokenize the names."""
        words = [words_of(name) for name in class_names]
        if not all(words):
            raise TrimtabError("A class name is empty; give every class a name.")
        whole = tokens_of([f"{name}." for name in words], tokenize)
        lengths = [len(ids) - 2 for ids in tokens_of(words, tokenize)]
        names = tuple(ids[1 : 1 + length] for ids, length in zip(whole, lengths, strict=True))
        rests = tuple(ids[1 + length :] for ids, length in zip(whole, lengths, strict=True))
        return cls(tuple(class_names), whole[0][0], names, rests)

    def check_length(self, context: int, longest: int) -> None:
        """Refuse a class whose sentence does not fit, with a context of so many tokens."""
        for name, ids, rest in zip(self.class_names, self.names, self.rests, strict=True):
            length = 1 + context + len(ids) + len(rest)
            if length > longest:
                raise TrimtabError(
                    f"The class name {name[:60]!r} is too long: with a context of {context} tokens it takes more than "
                    f"the {longest} tokens that this encoder reads; shorten the name."
                )


def tokens_of(texts: Sequence[str], tokenize: Tokenize) -> list[tuple[int, ...]]:
    """The token numbers of each text with its start and end marks, without padding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is too long is refused, not cut
        ids, mask = tokenize(list(texts))
    return [tuple(row[kept > 0].tolist()) for row, kept in zip(ids, mask, strict=True)]
