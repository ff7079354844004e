"""From text to a tree and back, without knowing what a program means.

`lexer` makes tokens, `parser` (statements) on top of `clause_parser` (literals and expressions) makes the
nodes of `ast`, `printer` writes them in the one layout, `syntax_errors` says what was probably meant.

Imports `errors` only. Begin with `ast`, then `parser.parse`.
"""
