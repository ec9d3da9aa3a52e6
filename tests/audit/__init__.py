"""Hostile audits: bad inputs, damaged files, kills."""
