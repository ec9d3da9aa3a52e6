"""`make bench`: every speed that the documentation claims, measured in one run."""

import importlib

from rich.console import Console

# Each module has a function `show(console)` that measures and prints its table.
TABLES = (
    "engine_speed",
    "method_speed",
    "keel_speed",
    "fusion_cost",
    "guard_cost",
    "encoder_speed",
    "precision_speed",
    "view_speed",
    "text_tower_speed",
    "serve_load",
)

console = Console(width=130)
for table in TABLES:
    importlib.import_module(f"benchmarks.{table}").show(console)
