"""Routes: the interface, one file per subject."""
