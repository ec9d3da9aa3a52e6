"""The tables of the study, in Markdown:  python -m benchmarks.fusion_study.tables RESULTS.jsonl"""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import place, run_study

GENUINE = ("clip_", "whurs19_")  # how the names of stores of genuine CLIP features begin
TEXT, SUM, ORACLE, AUTO = "paper: text", "paper: sum", "paper: oracle", "matched: auto"
MAIN = {
    TEXT: "zero-shot",
    "paper: prototype": "prototype, 3 and 8",
    "matched: prototype": "prototype, auto",
    "paper: retrieval": "retrieval",
    SUM: "sum (1,1,1)",
    "paper: product": "product",
    AUTO: "auto",
    ORACLE: "oracle (labels)",
    "matched: oracle": "oracle (labels) over prototype, auto",
}

Row = dict[str, float]


def read(path: Path) -> dict[tuple[str, str], Row]:
    """(store, order) -> name -> mean accuracy over the seeds."""
    seeds: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for line in path.read_text().splitlines():
        record = json.loads(line)
        store, order, _ = record["stream"]
        seeds[store, order].append(record["accuracy"])
    return {key: {name: float(np.mean([row[name] for row in rows])) for name in rows[0]} for key, rows in seeds.items()}


def means(cells: list[Row], names: list[str]) -> NDArray[np.float64]:
    """Mean over cells."""
    return np.mean([[cell[name] for name in names] for cell in cells], axis=0)


def recovered(cells: list[Row], name: str) -> float:
    """Share of the gap between (1,1,1) and the oracle."""
    reached, equal, best = means(cells, [name, SUM, ORACLE])
    return float((reached - equal) / (best - equal))


def table_of_means(cells: dict[tuple[str, str], Row], names: dict[str, str]) -> str:
    """One line per half and kind of order."""
    lines = ["| stores | orders | " + " | ".join(names.values()) + " | recovered |"]
    lines.append("|---|---|" + "---|" * (len(names) + 1))
    for half in ("genuine CLIP", "others", "all"):
        for kind in ("shuffled", "hard"):
            found = [
                row
                for (store, order), row in cells.items()
                if (half == "all" or store.startswith(GENUINE) == (half == "genuine CLIP"))
                and (order == "shuffled") == (kind == "shuffled")
            ]
            if not found:
                continue
            figures = " | ".join(f"{value:.1f}" for value in means(found, list(names)))
            lines.append(f"| {half} | {kind} | {figures} | {100 * recovered(found, AUTO):.0f} % |")
    return "\n".join(lines)


def table_of_cells(cells: dict[tuple[str, str], Row]) -> str:
    """Every store and order."""
    lines = ["| store | order | " + " | ".join(MAIN.values()) + " | auto - zero-shot |"]
    lines.append("|---|---|" + "---|" * (len(MAIN) + 1))
    for (store, order), row in cells.items():
        figures = " | ".join(f"{row[name]:.1f}" for name in MAIN)
        lines.append(f"| {store} | {order} | {figures} | {row[AUTO] - row[TEXT]:+.1f} |")
    return "\n".join(lines)


def table_of_candidates(cells: dict[tuple[str, str], Row]) -> str:
    """Every candidate: means, and the worst loss against zero-shot."""
    columns = ("shuffled, CLIP", "shuffled, others", "hard, CLIP", "hard, others", "worst cell")
    lines = ["| candidate | " + " | ".join(columns) + " |"]
    lines.append("|---|---|---|---|---|---|")
    for name in next(iter(cells.values())):
        groups = []
        for kind in ("shuffled", "hard"):
            for genuine in (True, False):
                found = [
                    row[name]
                    for (store, order), row in cells.items()
                    if store.startswith(GENUINE) == genuine and (order == "shuffled") == (kind == "shuffled")
                ]
                groups.append(f"{np.mean(found):.2f}" if found else "")
        loss, where = min((row[name] - row[TEXT], " ".join(key)) for key, row in cells.items())
        lines.append(f"| {name} | {' | '.join(groups)} | {loss:+.1f} {where} |")
    return "\n".join(lines)


def losses(cells: dict[tuple[str, str], Row]) -> list[str]:
    """The cells where auto misses the bounds: half a point below zero-shot when shuffled, one point otherwise."""
    return [
        f"{store} {order}: {row[AUTO] - row[TEXT]:+.2f}"
        for (store, order), row in cells.items()
        if row[AUTO] - row[TEXT] < (-0.5 if order == "shuffled" else -1.0)
    ]


def main(file: Path) -> None:
    results = read(file)
    print(table_of_means(results, MAIN), table_of_candidates(results), table_of_cells(results), sep="\n\n")
    print("\nBelow the bounds:", "; ".join(losses(results)) or "none")


if __name__ == "__main__":
    run_study(main, __doc__, place("RESULTS.jsonl"))
