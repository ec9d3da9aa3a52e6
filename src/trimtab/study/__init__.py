"""Studies: measuring, comparing and drawing."""
