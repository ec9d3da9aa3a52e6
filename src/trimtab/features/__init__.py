"""Feature stores: encode a data set once, run every method on it in seconds."""

from trimtab.features.arrays import write_arrays
from trimtab.features.manifest import StoreInfo
from trimtab.features.npz import import_npz
from trimtab.features.store import FeatureStore
from trimtab.features.writer import FeatureWriter

__all__ = ["FeatureStore", "FeatureWriter", "StoreInfo", "import_npz", "write_arrays"]
