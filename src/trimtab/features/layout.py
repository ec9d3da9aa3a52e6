"""How a store's rows are divided into files.

Version 1, of stores up to a million views: shards of about 4,096 views, and one manifest that lists every image.
Version 2, of larger ones: shards of about 128 MB, and beside each shard its images' labels and names, so that the
manifest lists shards only. Either way a shard is the features of consecutive images, known by its number alone.
"""

from dataclasses import dataclass

import numpy as np

from trimtab import arguments
from trimtab.features.manifest import StoreInfo

VIEWS_PER_SHARD = 4096  # 4 MB of float16 at 512 dimensions: few files, and little to read for a few rows
LARGE = 1 << 20  # views, from which on a store has sidecars: 256 shards of the first kind
BYTES_PER_SHARD = 128 << 20  # of a large store: 131,072 views of float16 at 512 dimensions


@dataclass(frozen=True)
class Layout:
    """The version of the format, and how many images make a shard."""

    version: int
    images_per_shard: int

    @property
    def stated(self) -> int | None:
        """What a manifest says of it: nothing in version 1, whose shards are all made alike."""
        return self.images_per_shard if self.version == 2 else None

    def shards(self, images: int) -> int:
        """How many shards so many images make."""
        return -(-images // self.images_per_shard)

    def span(self, shard: int, images: int) -> range:
        """The positions of a shard's images."""
        first = shard * self.images_per_shard
        return range(first, min(first + self.images_per_shard, images))


def layout_for(info: StoreInfo, shard_images: int | None = None) -> Layout:
    """The layout of a new store: by its size, or with so many images in a shard."""
    if shard_images is not None:
        return Layout(2, arguments.whole("shard_images", shard_images, least=1))
    if len(info.ids) * info.views <= LARGE:
        return first_layout(info.views)
    bytes_per_image = info.views * info.dim * np.dtype(info.dtype).itemsize
    return Layout(2, max(1, BYTES_PER_SHARD // bytes_per_image))


def first_layout(views: int) -> Layout:
    """Version 1, of so many views of each image."""
    return Layout(1, max(1, VIEWS_PER_SHARD // views))
