"""The codes of syntax errors, each with what it means. `tests/errors` holds an example of each."""

from __future__ import annotations

from typing import Final

UNEXPECTED_CHARACTER: Final = "E101"
UNTERMINATED_STRING: Final = "E102"
UNTERMINATED_COMMENT: Final = "E103"
MALFORMED_IRI: Final = "E104"
BAD_ESCAPE: Final = "E105"
BAD_NUMBER: Final = "E106"
UNEXPECTED_TOKEN: Final = "E107"
MISSING_FULL_STOP: Final = "E108"
MISSING_COMMA: Final = "E109"
FOREIGN_ARROW: Final = "E110"
FOREIGN_NEGATION: Final = "E111"
FOREIGN_OPERATOR: Final = "E112"
UNKNOWN_DIRECTIVE: Final = "E113"
FOREIGN_DIRECTIVE: Final = "E114"
METRIC_WORD: Final = "E115"
HEAD_NOT_ALLOWED: Final = "E116"
MISPLACED_ATTRIBUTE: Final = "E117"
NESTED_TOO_DEEPLY: Final = "E118"
UNKNOWN_AGGREGATE: Final = "E119"
BAD_FORMAT_STRING: Final = "E120"
UNCLOSED_BRACKET: Final = "E121"
FOREIGN_VARIABLE: Final = "E122"
FOREIGN_COMMENT: Final = "E123"

MEANINGS: Final = {
    UNEXPECTED_CHARACTER: "a character that begins no token",
    UNTERMINATED_STRING: "a string without its closing quotes",
    UNTERMINATED_COMMENT: "a comment without its closing `*/`",
    MALFORMED_IRI: "an IRI without its closing `>`, or with a character that IRIs may not hold",
    BAD_ESCAPE: "an escape in a string that stands for no character",
    BAD_NUMBER: "a number with something else attached to it",
    UNEXPECTED_TOKEN: "something stands where the grammar asks for something else",
    MISSING_FULL_STOP: "a statement without its full stop",
    MISSING_COMMA: "two things in a list without a comma between them",
    FOREIGN_ARROW: "a rule arrow of another language, such as `<-`",
    FOREIGN_NEGATION: "a negation of another language, such as `not p` or `!p`",
    FOREIGN_OPERATOR: "an operator of another language, such as `==` or `is`",
    UNKNOWN_DIRECTIVE: "a directive that does not exist",
    FOREIGN_DIRECTIVE: "a directive of another language, such as `.decl`",
    METRIC_WORD: "a metric operator used as a name, without its interval, or in a chain",
    HEAD_NOT_ALLOWED: "a head that is neither an atom nor an equality, or has more than boxes before it",
    MISPLACED_ATTRIBUTE: "an attribute that stands before something else than a fact or rule",
    NESTED_TOO_DEEPLY: "an expression nested more deeply than the parser allows",
    UNKNOWN_AGGREGATE: "an aggregate that does not exist",
    BAD_FORMAT_STRING: "a format string with unbalanced or empty braces",
    UNCLOSED_BRACKET: "a bracket that is never closed",
    FOREIGN_VARIABLE: "a variable without its question mark",
    FOREIGN_COMMENT: "a comment of another language, such as `// …`",
}
