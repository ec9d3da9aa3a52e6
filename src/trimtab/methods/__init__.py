"""The methods: one file per paper, behind one interface.

`registry.BUILT_IN` is the list of their names; a method's module is imported only when it is asked for.
"""

from collections.abc import Callable

from trimtab import registry
from trimtab.methods.base import Method
from trimtab.methods.facts import TRAITS, MethodInfo
from trimtab.registry import list_methods

method_class: Callable[[str], type[Method]] = registry.method_class
make_method: Callable[..., Method] = registry.make_method


def info_of(name: str) -> MethodInfo:
    """The record of a method; one that brings none is known by its name."""
    return method_class(name).info or MethodInfo(title=name)


__all__ = ["TRAITS", "Method", "MethodInfo", "info_of", "list_methods", "make_method", "method_class"]
