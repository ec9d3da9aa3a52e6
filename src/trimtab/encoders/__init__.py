"""Encoders: each turns images and texts into features of one space."""
