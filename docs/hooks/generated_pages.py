"""The pages of the site that are written by the program itself, and links that leave docs/.

* `reference/cli.md` is typer's own help, `reference/methods.md` the methods' docstrings and parameters, and each room's
  page has what its package declares public.
* CHANGELOG.md, CONTRIBUTING.md and the examples live outside docs/, where a reader of the repository looks for
  them; the site shows the same files, and links to them work in both places.
"""

import importlib
import inspect
import re
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click

from trimtab.cli.main import app
from trimtab.engine.parameters import described
from trimtab.methods import Method, list_methods, method_class

# In the repository -> in the site.
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "examples/recent/recent.py": "examples/recent/recent.py",
    "examples/live/serve_cifar10.py": "examples/live/serve_cifar10.py",
}
STUDY = ("bench", "metrics", "tables", "plots", "report", "ablations")
# Page of the reference -> its title, and the packages whose public names it shows.
ROOMS = {
    "engine": ("Engine", ["trimtab.engine"]),
    "fusion": ("Fusion", ["trimtab.fusion"]),
    "encoders": ("Encoders", ["trimtab.encoders"]),
    "prompts": ("Prompts", ["trimtab.prompts"]),
    "data": ("Data", ["trimtab.data"]),
    "features": ("Feature stores", ["trimtab.features"]),
    "learn": ("Learning", ["trimtab.learn"]),
    "serve": ("Serving", ["trimtab.serve"]),
    "study": ("Studies", [f"trimtab.study.{part}" for part in STUDY]),
}
METHODS_INTRODUCTION = """# Methods

Each method is one file of `trimtab.methods` and a frozen dataclass whose fields are its parameters.
`trimtab methods NAME` shows the same in the terminal."""
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not in docs/."""
    root = Path(config.config_file_path).parent
    pages = {"reference/cli.md": command_line(), "reference/methods.md": methods()}
    pages |= {f"reference/{page}.md": room(title, packages) for page, (title, packages) in ROOMS.items()}
    for source, target in OUTSIDE.items():
        if target != "index.md":
            pages[target] = (root / source).read_text()
    for target, content in pages.items():
        files.append(File.generated(config, target, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links at the site's copy of a file that lies outside docs/."""
    home = page.file.src_uri
    in_repository = next((source for source, target in OUTSIDE.items() if target == home), f"docs/{home}")
    if in_repository == "README.md":  # docs/index.md is a page of its own, not a copy
        in_repository = "docs/index.md"

    def moved(found: re.Match[str]) -> str:
        target = normpath(join(in_repository, "..", found[2]))
        site = OUTSIDE.get(target) or target.removeprefix("docs/")
        return f"{found[1]}{relpath(site, join(home, '..'))}{found[3]}"

    return LINK.sub(moved, markdown)


def command_line() -> str:
    """Every verb and option, as `trimtab VERB --help` shows them."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="trimtab", title="Command line")
    text = text.replace("```console\n$ ", "```text\n")  # a usage line is not a command that anyone could run
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text)  # cut short there; each verb's section follows
    text = re.sub(r"\x08\s*Exit codes:\n[^#]*", "[Exit codes, logging, completion](../command-line.md)\n\n", text)
    return re.sub(r"(?m)^(\* `[^`]*`: )(.*)$", lambda line: line[1] + line[2].replace("<", "&lt;"), text)


def room(title: str, packages: list[str]) -> str:
    """The docstring of each package, and its public names in the order of its source."""
    sections = [f"# {title}"]
    for name in packages:
        package = importlib.import_module(name)
        values = {member: getattr(package, member) for member in getattr(package, "__all__", ())}
        shown = [member for member, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)]
        members = {"members": f"[{', '.join(shown)}]"} if shown else {}
        sections += [f"## `{name}`", directive(name, show_root_heading="false", show_root_toc_entry="false", **members)]
    return "\n\n".join(sections) + "\n"


def methods() -> str:
    """Each method: what its module says, and its parameters from the class itself."""
    sections = [METHODS_INTRODUCTION]
    for name in list_methods():
        found = method_class(name)
        if not found.__module__.startswith("trimtab."):  # an installed plug-in documents itself
            continue
        about = directive(found.__module__, show_root_heading="false", show_root_toc_entry="false", members="false")
        head = {"members": "false", "show_signature": "false", "separate_signature": "false"}
        sections += [f"## `{name}`", about, directive(f"{found.__module__}.{found.__qualname__}", **head)]
        sections += [parameter_table(found)]
    sections += ["## Finding and making them", *map(directive, ("trimtab.list_methods", "trimtab.make_method"))]
    sections += [directive("trimtab.preset"), "## What every method is"]
    sections += map(directive, (f"trimtab.methods.base.{name}" for name in ("Method", "CacheMethod", "WeighedMethod")))
    sections += [
        directive("trimtab.methods.three_cache_method.ThreeCacheMethod.paper"),
        directive("trimtab.check_method"),
    ]
    return "\n\n".join(sections) + "\n"


def directive(name: str, **options: str) -> str:
    """What mkdocstrings replaces by the documentation of `name`."""
    given = {"heading_level": "3", **options}
    return "\n".join([f"::: {name}", "    options:", *(f"      {option}: {value}" for option, value in given.items())])


def parameter_table(method: type[Method]) -> str:
    """The parameters of a method as they are declared: meaning, the paper's symbol, default, range."""
    rows = [
        [f"`{found.name}`", found.about, found.symbol, f"`{found.default}`", found.allowed]
        for found in described(method)
    ]
    if not rows:
        return "No parameters."
    lines = ["| parameter | meaning | symbol | default | may be |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)])
