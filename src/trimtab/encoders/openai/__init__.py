"""OpenAI's original checkpoints, without OpenAI's package."""
