"""The methods as the field's programs are written: torch, a dictionary of lists per cache, one image at a time.

They are the yardstick of `make bench`: straightforward and free of avoidable waste, but with the field's data
structures, so that every image concatenates what the caches hold. They return the same numbers as the oracles.
"""
