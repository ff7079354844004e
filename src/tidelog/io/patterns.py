"""The forms of RDF terms, as regular expressions that mean the same to Arrow's kernels and to Python."""

from __future__ import annotations

_IRI_CHARACTER = r'[^\x00-\x20<>"{}|^`\\]'
_ESCAPE = (
    r'\\[tbnrf"\x27\\]'
    r"|\\u[0-9A-CEFa-cef][0-9A-Fa-f]{3}|\\u[dD][0-7][0-9A-Fa-f]{2}"  # no halves of surrogate pairs
    r"|\\U000[1-9A-Fa-f][0-9A-Fa-f]{4}|\\U0010[0-9A-Fa-f]{4}"
)
NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
IRI = f"<{_IRI_CHARACTER}*>"
BLANK = r"_:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?"
LITERAL = rf'"(?:[^"\\\n\r]|{_ESCAPE})*"(?:@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*|\^\^{IRI})?'
NODE = f"(?:{IRI}|{BLANK})"
OBJECT = f"(?:{IRI}|{BLANK}|{LITERAL})"
EXACT = f"(?:{IRI}|{BLANK}|{LITERAL}|{NAME}|-?[0-9]+)"
NOT_IRI = r'[\x00-\x20<>"{}|^`\\]|^_:|^$'
