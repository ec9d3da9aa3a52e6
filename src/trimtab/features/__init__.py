"""Feature stores: encode a data set once, run every method on it in seconds."""

from trimtab.features.importing import from_arrays, import_npz
from trimtab.features.manifest import StoreInfo
from trimtab.features.store import FeatureStore
from trimtab.features.writer import FeatureWriter

__all__ = ["FeatureStore", "FeatureWriter", "StoreInfo", "from_arrays", "import_npz"]
