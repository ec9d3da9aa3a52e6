"""Learning prompts from a few labeled images of other data: the only place where labels teach anything."""
