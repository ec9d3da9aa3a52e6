"""Poisoned streams: what crafted images do to methods, with a guard and without."""
