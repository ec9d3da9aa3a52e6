"""Data sets and the orders in which a stream may meet them."""

from trimtab.data.base import UNLABELED, ImageSet, joined
from trimtab.data.catalog import load_dataset
from trimtab.data.class_order import check_class_order
from trimtab.data.corruptions import corrupted
from trimtab.data.folder import image_folder, unlabeled_images
from trimtab.data.orders import order_by_name

__all__ = [
    "UNLABELED",
    "ImageSet",
    "check_class_order",
    "corrupted",
    "image_folder",
    "joined",
    "load_dataset",
    "order_by_name",
    "unlabeled_images",
]
