"""Which code a record depends on: the modules that its figures pass through, found by following imports.

Starting from what computes a run and from the method's own module, every import of trimtab's modules is followed, those
inside functions too; a method from another package brings that package's modules along. So an edit to one method leaves
the records of the others valid, and a module that is moved or added is still in. Comments, formatting and docstrings do
not count.
"""

import ast
import hashlib
import importlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path

from trimtab.methods.base import Method
from trimtab.study import metrics
from trimtab.study.bench import predicting

# Imported on the way, but no figure passes through them: saving a stream, finding a method by its name, and where
# compiled code is kept.
BESIDE = frozenset({"trimtab.engine.state_io", "trimtab.engine.compiled", "trimtab.methods", "trimtab.registry"})
# What the figures of a method that learns prompts pass through as well; the weights are in the store's fingerprint.
TEXT_TOWERS = (
    "trimtab.encoders.prompted.making",
    "trimtab.encoders.prompted.layouts",
    "trimtab.encoders.prompted.sentences",
)
# The same for a method that needs pixels: how views are cut, and the towers that prompts are tuned in.
IMAGE_PROMPTS = ("trimtab.images.views", "trimtab.encoders.maple.encoder")
BEHIND = {"text_tower": TEXT_TOWERS, "pixels": IMAGE_PROMPTS}

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def code_fingerprint(method: type[Method]) -> str:
    """A hash of the code that a method's figures depend on."""
    digest = hashlib.sha256()
    for module in sorted(modules_behind(method)):
        digest.update(f"{module}\0".encode() + _meaning(module) + b"\0")
    return digest.hexdigest()[:12]


@cache
def modules_behind(method: type[Method]) -> frozenset[str]:
    """The names of the modules that a method's figures pass through."""
    homes = {base.__module__ for base in method.__mro__}
    packages = {_top(predicting.__name__), *map(_top, homes)} - sys.stdlib_module_names
    needed = (module for need in method.needs for module in BEHIND[need])
    waiting = {predicting.__name__, metrics.__name__, *homes, *needed}
    found: set[str] = set()
    while waiting:
        module = waiting.pop()
        if _top(module) in packages and module not in BESIDE and module not in found:
            found.add(module)
            waiting.update(_imported_by(module))
    return frozenset(found)


def _top(module: str) -> str:
    return module.partition(".")[0]


@cache
def _imported_by(module: str) -> frozenset[str]:
    """The modules that a module imports from its own top-level package or from trimtab."""
    tree = _tree(module)
    if tree is None:
        return frozenset()
    spec = find_spec(module)
    package = (spec.parent or "") if spec else ""
    near = {_top(module), _top(__name__)}
    found: set[str] = set()
    for node in _imports(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            source = resolve_name("." * node.level + (node.module or ""), package)
            found.update(_home(source, alias.name) for alias in node.names if _top(source) in near)
    return frozenset(found)


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that may run; those for the type checker alone do not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for otherwise in child.orelse:
                yield from _imports(otherwise)
        else:
            yield from _imports(child)


def _home(source: str, name: str) -> str:
    """The module that `from source import name` is about: behind a package's door, that of the thing itself."""
    spec = find_spec(source)
    if name == "*" or spec is None or spec.submodule_search_locations is None:
        return source
    if find_spec(f"{source}.{name}") is not None:
        return f"{source}.{name}"
    thing = getattr(importlib.import_module(source), name, None)
    home = getattr(thing, "__module__", "") if hasattr(thing, "__qualname__") else ""  # a class or a function
    return home if _top(home) == _top(source) else source


@cache
def _meaning(module: str) -> bytes:
    """What a module does: its source without comments, formatting and docstrings, or the file where there is none."""
    tree = _tree(module)
    if tree is not None:
        for node in ast.walk(tree):
            if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        return ast.unparse(tree).encode()
    spec = find_spec(module)
    return Path(spec.origin).read_bytes() if spec and spec.has_location and spec.origin else b""


def _tree(module: str) -> ast.Module | None:
    """The syntax tree of a module, None if it has no Python source."""
    spec = find_spec(module)
    source = getattr(spec.loader, "get_source", None) if spec else None
    text = source(module) if source else None
    return None if text is None else ast.parse(text)
