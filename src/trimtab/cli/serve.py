"""`trimtab serve`: an adapting classifier behind HTTP."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trimtab.cli.bench import changes_of
from trimtab.cli.options import Changes, Labels, LabelsFile, ViewBudget, choices
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.serve.config import ServerConfig
    from trimtab.serve.settings import StreamSettings


def serve(
    labels: Labels = None,
    labels_file: LabelsFile = None,
    name: Annotated[str | None, typer.Option(help="The stream's name (default).")] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", "-e", help="Encoder: lite (if not given), hf:<folder>, ...")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="The method; see `trimtab methods`.")] = None,
    change: Changes = None,
    views: Annotated[int | None, typer.Option(min=1, max=256, help="Views per image.")] = None,
    view_budget: ViewBudget = None,
    templates: Annotated[str | None, typer.Option(help="Template set, template or file.")] = None,
    unknown: Annotated[bool, typer.Option("--unknown", help="Let the answer be 'none of these'.")] = False,
    guard: Annotated[bool, typer.Option("--guard/--no-guard", help="Learn only from images that seem genuine.")] = True,
    thumbnails: Annotated[bool, typer.Option("--thumbnails", help="Keep small pictures, for the page.")] = False,
    folder: Annotated[Path | None, typer.Option(help="Where streams are kept (trimtab-streams).")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (8000); 0 for a free one.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="Tokens, as `trimtab token` makes them.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="All of this and more, in a TOML file.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:<n> or mps.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, fp16, bf16 or int8 (cpu).")] = None,
    log: Annotated[
        str, typer.Option(help="The log: auto, json, short or off.", autocompletion=choices("json", "short", "off"))
    ] = "auto",
) -> None:
    """Serve streams over HTTP: pictures in, answers out, better as they come.

    With --labels, one stream is made, or continued if the folder holds it. Without, the streams are those of the
    folder and of the configuration; more can be made over HTTP. Nothing that was answered is lost, however the server
    ends. Only this machine is listened to, unless there are tokens. Ctrl-C finishes what is under way and stops.

    \b
    Examples:
      trimtab serve --labels cat,dog,frog
      trimtab serve --config server.toml --port 9000
      trimtab serve --host 0.0.0.0 --token-file tokens.json
    """  # noqa: D301  (not a raw string: click looks for the character itself)
    # Streams are small products side by side, one thread each; NumPy reads this when it is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if log not in ("auto", "json", "short", "off"):
        raise TrimtabError(f"--log is auto, json, short or off, not {log!r}.")
    from trimtab.serve.access import Access, refuse_open_door
    from trimtab.serve.config import ServerConfig
    from trimtab.serve.running import bind

    chosen = ServerConfig() if config is None else ServerConfig.read(config.expanduser())
    chosen = chosen.changed(
        folder=folder and folder.expanduser(),
        host=host,
        port=port,
        token_file=token_file and token_file.expanduser(),
        device=device,
        precision=precision,
        encoders=None if encoder is None else (encoder, *chosen.encoders),
    )
    asked = {
        "name": name,
        "encoder": encoder,
        "method": method,
        "views": views,
        "view_budget": view_budget,
        "templates": templates,
        "unknown": unknown or None,
        "guard": None if guard else False,
        "thumbnails": thumbnails or None,
    }
    settings = _stream(labels, labels_file, change, asked)
    if settings is not None:
        chosen = chosen.with_stream(settings)
    access = Access() if chosen.token_file is None else Access.read(chosen.token_file)
    refuse_open_door(chosen.host, access)
    with bind(chosen.host, chosen.port) as server:
        _serve(chosen, access, server, log)


def _stream(
    labels: str | None, labels_file: Path | None, change: list[str] | None, asked: dict[str, Any]
) -> "StreamSettings | None":
    """The stream of the command line, if it names labels."""
    from trimtab.cli.labels import given_labels
    from trimtab.registry import DEFAULT_METHOD
    from trimtab.serve.settings import StreamSettings

    given = {key: value for key, value in asked.items() if value is not None}
    names = given_labels(labels, labels_file)
    if names is None:
        if change or given.keys() - {"encoder"}:
            raise TrimtabError("Options of a stream need its labels: --labels cat,dog,... or --labels-file FILE.")
        return None
    method = given.get("method", DEFAULT_METHOD)
    changes = changes_of(change or [])
    if others := set(changes) - {method}:
        raise TrimtabError(f"--set gives a parameter of {min(others)!r}, but the method is {method!r}.")
    return StreamSettings(labels=names, parameters=changes.get(method, {}), **{"name": "default", **given})


def _serve(config: "ServerConfig", access: Any, server: Any, log: str) -> None:
    from trimtab.files import say
    from trimtab.serve.assembly import assemble
    from trimtab.serve.logs import log_to_standard_error, started
    from trimtab.serve.running import run

    as_json = log == "json" or (log == "auto" and not sys.stderr.isatty())
    app = assemble(config, access)
    if log != "off":
        log_to_standard_error(as_json=as_json)
    host, port = server.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def tell() -> None:
        if as_json:
            started(address, config.folder)
        else:
            say(f"Serving on {address}, streams in {config.folder}. Ctrl-C stops.")

    run(app, server, config.limits, started=tell)
