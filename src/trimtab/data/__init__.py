"""Data sets and the orders in which a stream may meet them."""
