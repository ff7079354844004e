"""Tests of text to tree and back. `trees` draws random trees, `oracle` reads programs by the grammar."""
