"""Pictures of what holds when: lanes of intervals as SVG, as a page, and as text."""
