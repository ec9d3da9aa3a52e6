"""The demo: a real zero-shot classifier gets better on real images, without labels, in about three minutes."""
