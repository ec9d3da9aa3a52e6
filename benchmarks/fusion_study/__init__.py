"""The study behind `fusion="auto"`: which label-free way of weighing MCP's parts is best, on which streams."""
