"""Plans, proofs, lineage and time as text, SVG, HTML, DOT and Mermaid, all in one style.

`picture` has boxes and arrows as data, `picture_formats` writes them; `plan_stages` and `proof_draw` make
such pictures; `chart_lanes` and `chart` are the timeline; `column_lineage` says which inputs a column
depends on.

Imports `proof`, `temporal` and what lies below them. Begin with `picture`.
"""
