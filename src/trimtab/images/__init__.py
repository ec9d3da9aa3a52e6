"""Images: safe decoding, views, and augmentation."""
