"""Jobs, published versions and streams."""
