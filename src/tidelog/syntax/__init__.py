"""Text to tree and back; knows no meaning."""
