"""The embedded engine: columns of dense ids, and a plan interpreter compiled by Numba."""
