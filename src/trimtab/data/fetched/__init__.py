"""Sets that can be fetched."""
