"""The methods by name: those that come with trimtab, and those of installed packages.

A name leads to "module:Class", as in an entry point, and the module is imported only when its method is asked for.
Nothing here knows a method, so everything may look one up. A package of yours joins with an entry point in the group
"trimtab.methods" whose name is the method's and whose value is its class.
"""

import importlib
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from trimtab import arguments
from trimtab.errors import TrimtabError

GROUP = "trimtab.methods"
DEFAULT_METHOD = "keel"  # where nobody chooses: classifiers, pipelines, the command line; docs/keel.md says why

# In the order of the tables. A new method is one more line here, and one file.
BUILT_IN = {
    "zero_shot": "trimtab.methods.zero_shot:ZeroShot",
    "zero_vote": "trimtab.methods.zero_vote:ZeroVote",
    "tda": "trimtab.methods.tda:TDA",
    "dmn": "trimtab.methods.dmn:DMN",
    "boostadapter": "trimtab.methods.boostadapter:BoostAdapter",
    "dpe": "trimtab.methods.dpe:DPE",
    "tps": "trimtab.methods.tps:TPS",
    "tpt": "trimtab.methods.tpt:TPT",
    "ctpt": "trimtab.methods.ctpt:CTPT",
    "rtpt": "trimtab.methods.rtpt:RTPT",
    "difftpt": "trimtab.methods.difftpt:DiffTPT",
    "promptalign": "trimtab.methods.promptalign:PromptAlign",
    "mcp": "trimtab.methods.mcp:MCP",
    "mcp_plus": "trimtab.methods.mcp_plus:MCPPlus",
    "keel": "trimtab.methods.keel:Keel",
}


def list_methods() -> list[str]:
    """The names of all methods, those of installed packages included."""
    return [*BUILT_IN, *sorted(_plugins())]


def method_class(name: str) -> Any:
    """The class of a method by its name."""
    arguments.text("the method's name", name)
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name].split(":")
        return getattr(importlib.import_module(module), attribute)
    plugins = _plugins()
    if name not in plugins:
        raise TrimtabError(f"There is no method {name!r}; the methods are {', '.join(list_methods())}.")
    found = plugins[name].load()
    if getattr(found, "name", None) != name:
        raise TrimtabError(
            f"The entry point {name!r} leads to {plugins[name].value}, whose name is {getattr(found, 'name', None)!r}; "
            "give both the same name."
        )
    return found


def make_method(name: str, /, **parameters: Any) -> Any:
    """A method by its name, with hyper-parameters by theirs."""
    found = method_class(name)
    known = sorted(field.name for field in fields(found))
    for parameter in parameters:
        if parameter not in known:
            raise TrimtabError(f"{name} has no parameter {parameter!r}; it has {', '.join(known) or 'no parameters'}.")
    return found(**parameters)


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in BUILT_IN}
