"""What a stream may learn from, and what it notices of itself: between the stream and its method."""
