"""Plain-loop twins of every method, written from the papers and independent of the package under test."""
