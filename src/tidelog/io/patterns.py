"""The forms of RDF terms, as regular expressions that mean the same to Arrow's kernels and to Python.

Those of usual terms are for Arrow's kernels only.
"""

from __future__ import annotations

_IRI_CHARACTER = r'[^\x00-\x20<>"{}|^`\\]'
_ESCAPE = (
    r'\\[tbnrf"\x27\\]'
    r"|\\u[0-9A-CEFa-cef][0-9A-Fa-f]{3}|\\u[dD][0-7][0-9A-Fa-f]{2}"  # no halves of surrogate pairs
    r"|\\U000[1-9A-Fa-f][0-9A-Fa-f]{4}|\\U0010[0-9A-Fa-f]{4}"
)
# What labels of blank nodes are made of, by the grammar of N-Triples.
_LETTER = (
    "A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_IN_LABEL = _LETTER + "0-9\u00b7\u0300-\u036f\u203f-\u2040-"
NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
IRI = f"<{_IRI_CHARACTER}*>"
BLANK = f"_:[0-9{_LETTER}](?:[.{_IN_LABEL}]*[{_IN_LABEL}])?"
LITERAL = rf'"(?:[^"\\\n\r]|{_ESCAPE})*"(?:@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*|\^\^{IRI})?'
NODE = f"(?:{IRI}|{BLANK})"
OBJECT = f"(?:{IRI}|{BLANK}|{LITERAL})"
EXACT = f"(?:{IRI}|{BLANK}|{LITERAL}|{NAME}|-?[0-9]+)"
# Terms that every format of RDF holds and every parser reads as they are; there are others.
_USUAL_TEXT = r'"(?:[ !#-\[\]-~\x{a0}-\x{d7ff}]|\\[nrt"\\])*"'
_USUAL_IRI = (
    r"<(?:https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::[0-9]+)?/|(?:urn|tag):[a-z]+:)"
    r"(?:[A-Za-z0-9_~!$&'()*+,;=@:/.\x{c0}-\x{1fff}-]|%[0-9A-Fa-f]{2})*"
)
_USUAL_END = "(?:#[A-Za-z_][A-Za-z0-9_-]*)?>"
USUAL = (
    f"^(?:{_USUAL_IRI}{_USUAL_END}|_:[A-Za-z][A-Za-z0-9_]*"
    rf"|{_USUAL_TEXT}(?:@[a-z][a-z](?:-[a-z][a-z])?|\^\^{_USUAL_IRI}{_USUAL_END})?)$"
)
USUAL_PREDICATE = f"^{_USUAL_IRI}(?:/|#)[A-Za-z_][A-Za-z0-9_-]*>$"
NOT_IRI = r'[\x00-\x20<>"{}|^`\\]|^_:|^$'
