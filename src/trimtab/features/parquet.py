"""A store's features as Parquet, for whoever does not read NumPy: one file per shard, one row per view."""

from pathlib import Path

import numpy as np

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features.store import FeatureStore

ROWS_PER_FILE = 131_072


def write_parquet(store: FeatureStore, out: str | Path) -> list[Path]:
    """Write id, view, label, class_name, domain and embedding (float32) into features-00000.parquet, ... of a folder.

    `label` is -1 and `class_name` null where the label is not known; `view` 0 is the plain one.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise TrimtabError("Parquet needs the package pyarrow; run: pip install 'trimtab[cluster]'") from None
    folder = arguments.place("out", out)
    folder.mkdir(parents=True, exist_ok=True)
    at_once = max(1, ROWS_PER_FILE // store.views)
    written = []
    for number, start in enumerate(range(0, len(store), at_once)):
        images = range(start, min(start + at_once, len(store)))
        rows = store.rows(slice(images.start, images.stop)).astype(np.float32).reshape(-1, store.dim)
        labels = np.repeat(store.labels[images.start : images.stop], store.views)
        names = [store.class_names[label] if label >= 0 else None for label in labels.tolist()]
        columns = {
            "id": pa.array(np.repeat(np.array(store.ids[images.start : images.stop], object), store.views)),
            "view": pa.array(np.tile(np.arange(store.views, dtype=np.int32), len(images))),
            "label": pa.array(labels),
            "class_name": pa.array(names, pa.string()),
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), store.dim),
        }
        if store.domains is not None:
            domains = np.array(store.domains[images.start : images.stop], object)
            columns["domain"] = pa.array(np.repeat(domains, store.views))
        path = folder / f"features-{number:05d}.parquet"
        part = path.with_name(f".{path.name}.part")
        try:
            pq.write_table(pa.table(columns), part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        written.append(path)
    return written
