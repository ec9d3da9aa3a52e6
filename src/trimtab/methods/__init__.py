"""The methods: one file per paper, behind one interface.

The table is data; a method's module is imported only when it is asked for. A package of yours joins it with an entry
point in the group "trimtab.methods" whose value is the method's class.
"""

import importlib
from importlib.metadata import entry_points
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.methods.base import Method
from trimtab.methods.table import METHODS, TRAITS, MethodInfo

__all__ = ["METHODS", "TRAITS", "Method", "MethodInfo", "list_methods", "make_method", "method_class"]


def list_methods() -> list[str]:
    """The names of all methods, those of installed packages included."""
    return [info.name for info in METHODS] + sorted(_plugins())


def method_class(name: str) -> type[Method]:
    """The class of a method by its name."""
    for info in METHODS:
        if info.name == name:
            module, attribute = info.where.split(":")
            found: type[Method] = getattr(importlib.import_module(module), attribute)
            return found
    plugins = _plugins()
    if name in plugins:
        loaded: type[Method] = plugins[name].load()
        return loaded
    raise TrimtabError(f"There is no method {name!r}; the methods are {', '.join(list_methods())}.")


def make_method(name: str, **parameters: Any) -> Method:
    """A method by its name, with hyper-parameters by theirs."""
    found = method_class(name)
    known = set(found.__dataclass_fields__)
    for parameter in parameters:
        if parameter not in known:
            raise TrimtabError(
                f"{name} has no parameter {parameter!r}; it has {', '.join(sorted(known)) or 'no parameters'}."
            )
    return found(**parameters)


def _plugins() -> dict[str, Any]:
    return {entry.name: entry for entry in entry_points(group="trimtab.methods")}
