"""Plans, proofs and charts as text, SVG and pages."""
