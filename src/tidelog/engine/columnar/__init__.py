"""The embedded engine: columns of dense ids, and a compiled plan interpreter."""
