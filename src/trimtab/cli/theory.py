"""`trimtab theory`: how much of the paper's argument for the align cache can be seen on a store."""

from typing import Annotated

import typer

from trimtab.cli.options import Json, Store

Order = Annotated[str, typer.Option(help="Order of the stream: shuffled, dirichlet:0.1, ...")]
Seed = Annotated[int, typer.Option(help="Seed of the order.")]
Beta = Annotated[float, typer.Option(help="Exponent of the low-noise assumption.")]
Rows = Annotated[int, typer.Option(min=0, help="How many classes to show.")]


def theory(
    store: Store, order: Order = "shuffled", seed: Seed = 0, beta: Beta = 1.0, rows: Rows = 20, json: Json = False
) -> None:
    """Check the paper's argument for the align cache on a store.

    MCP runs on the store; the densities and bounds behind its align cache are shown, with what they assume.

    \b
    Examples:
      trimtab theory features/cifar10
      trimtab theory features/cifar10 --order dirichlet:0.1 --rows 5
      trimtab theory features/cifar10 --json
    """  # noqa: D301
    from trimtab.cli.output import show_json, table_console
    from trimtab.features import FeatureStore
    from trimtab.study.tables import Cell, Row, Table, print_tables
    from trimtab.study.theory import CAVEATS, check_theory

    found = check_theory(FeatureStore.open(store), order=order, seed=seed, beta=beta)
    if json:
        show_json(found.data())
        return
    head = ["d0", "P(inside)", "c_a/c_t", "k_t/n_t", "k_a/n_a", "retention"]
    lines = []
    for density in found.held[:rows]:
        texts = [
            f"{density.radius:.3f}",
            f"{density.inside:.3f}",
            f"{density.density_ratio:.2f}",
            f"{density.stored_entropy}/{density.offered}",
            f"{density.stored_align}/{density.aligned}",
            f"{density.retention:.2f}",
        ]
        lines.append(Row(density.name, [Cell(text) for text in texts]))
    medians = [f"{found.median(name):.3f}" for name in ("radius", "inside", "density_ratio")]
    lines.append(Row("(median)", [Cell(t) for t in (*medians, "", "", f"{found.median('retention'):.2f}")]))
    summary = (
        f"Bounds up to a constant (d = {found.dim}, beta = {beta:g}): Proposition 1 {found.bounds.entropy_only:.4f}, "
        f"Proposition 2 {found.bounds.with_align:.4f}, ratio {found.bounds.ratio:.4f}."
    )
    title = f"{found.dataset}: the align cache's argument on this stream"
    notes = [summary, *(f"Assumed or unknown: {caveat}" for caveat in CAVEATS)]
    print_tables([Table(title, head, lines, notes, first="Class")], table_console())
