"""Codes of the faults found in resolving, each with its meaning; `tests/errors` holds an example of each."""

from __future__ import annotations

from typing import Final

# names
CANNOT_INCLUDE: Final = "E201"
PREFIX_DECLARED_TWICE: Final = "E202"
UNKNOWN_PREFIX: Final = "E203"
BASE_DECLARED_TWICE: Final = "E204"
UNKNOWN_PARAMETER: Final = "E205"
PARAMETER_WITHOUT_VALUE: Final = "E206"
PARAMETER_DECLARED_TWICE: Final = "E207"
ARITY_MISMATCH: Final = "E210"
PREDICATE_DECLARED_TWICE: Final = "E211"
UNKNOWN_COLUMN_TYPE: Final = "E212"
COLUMN_NAMED_TWICE: Final = "E213"
UNKNOWN_PREDICATE: Final = "E214"
RESERVED_PREDICATE: Final = "E215"
UNKNOWN_FORMAT: Final = "E220"
UNKNOWN_OPTION: Final = "E221"
MISSING_RESOURCE: Final = "E222"
BAD_OPTION_VALUE: Final = "E223"
OPTION_GIVEN_TWICE: Final = "E224"

# safety, strata, types, aggregates
UNSAFE_VARIABLE: Final = "E301"
VARIABLE_WITHOUT_BODY: Final = "E302"
ANONYMOUS_WITHOUT_VALUE: Final = "E303"
NOT_STRATIFIED: Final = "E310"
CONSTANT_OF_OTHER_TYPE: Final = "E320"
VARIABLE_OF_TWO_TYPES: Final = "E321"
AGGREGATE_OUTSIDE_HEAD: Final = "E330"
AGGREGATE_IN_FACT: Final = "E331"
NESTED_AGGREGATE: Final = "E332"
EXISTENTIAL: Final = "E340"
BAD_TIME: Final = "E350"
TIME_IN_RULE: Final = "E351"
MISPLACED_OPERATOR: Final = "E352"
TIMED_AGGREGATE: Final = "E353"
SEVERAL_TIMES: Final = "E354"
TIMED_EQUALITY: Final = "E355"
CHANGE_IN_PROGRAM: Final = "E393"
COMMIT_IN_PROGRAM: Final = "E394"

# functions and values
UNKNOWN_FUNCTION: Final = "E401"
FUNCTION_ARITY: Final = "E402"
NO_VALUE: Final = "E403"
BAD_LITERAL: Final = "E404"
OVERFLOW: Final = "E405"

# warnings
SINGLE_VARIABLE: Final = "W101"
EMPTY_PREDICATE: Final = "W102"
UNKNOWN_ATTRIBUTE: Final = "W103"
FOREIGN_VARIABLES: Final = "W104"
NEVER_MATCHES: Final = "W105"

# What these refuse is missing from the program, so what seems empty may not be.
LEFT_OUT: Final = frozenset(
    {
        CHANGE_IN_PROGRAM,
        COMMIT_IN_PROGRAM,
    }
)

# In Python, warnings of these are told when a program is read; `program.warnings` has all.
HARDLY_MEANT: Final = frozenset({FOREIGN_VARIABLES, NEVER_MATCHES})

# Errors that may only follow from a statement that could not be read: it may have declared what is missing.
FOLLOW_UPS: Final = frozenset(
    {
        UNKNOWN_PREFIX,
        UNKNOWN_PARAMETER,
        UNKNOWN_PREDICATE,
    }
)

MEANINGS: Final = {
    CANNOT_INCLUDE: "an included file that cannot be read",
    PREFIX_DECLARED_TWICE: "a prefix declared twice in a file, with different IRIs",
    UNKNOWN_PREFIX: "a prefix that is not declared",
    BASE_DECLARED_TWICE: "a base declared twice in a file",
    UNKNOWN_PARAMETER: "a parameter that is used or given, but not declared",
    PARAMETER_WITHOUT_VALUE: "a parameter with neither a default nor a given value",
    PARAMETER_DECLARED_TWICE: "a parameter declared twice",
    ARITY_MISMATCH: "a predicate used with different numbers of arguments",
    PREDICATE_DECLARED_TWICE: "a predicate declared twice, with different columns",
    UNKNOWN_COLUMN_TYPE: "a column type that does not exist",
    COLUMN_NAMED_TWICE: "two columns of a predicate with one name",
    UNKNOWN_PREDICATE: "a predicate asked for that occurs nowhere, or whose columns are not known",
    RESERVED_PREDICATE: "a built-in name used as a predicate, or a built-in predicate with arguments",
    UNKNOWN_FORMAT: "a data format that does not exist",
    UNKNOWN_OPTION: "an option that the data format does not have",
    MISSING_RESOURCE: "an import that does not say from where",
    BAD_OPTION_VALUE: "an option with a value of the wrong kind",
    OPTION_GIVEN_TWICE: "an option given twice",
    UNSAFE_VARIABLE: "a variable that nothing in the body binds",
    VARIABLE_WITHOUT_BODY: "a variable in a fact, a parameter or an option, where nothing can bind it",
    ANONYMOUS_WITHOUT_VALUE: "`_` where a value is needed",
    NOT_STRATIFIED: "recursion through negation or an aggregate",
    CONSTANT_OF_OTHER_TYPE: "a constant that is not of its column's declared type",
    VARIABLE_OF_TWO_TYPES: "a variable in columns whose declared types have no value in common",
    AGGREGATE_OUTSIDE_HEAD: "an aggregate outside the head of a rule",
    AGGREGATE_IN_FACT: "an aggregate in a fact",
    NESTED_AGGREGATE: "an aggregate inside an aggregate",
    EXISTENTIAL: "an existential variable",
    BAD_TIME: "a bound that is no time, or an interval without a time point",
    TIME_IN_RULE: "a time at an atom of a rule: it belongs to facts and queries",
    MISPLACED_OPERATOR: "a metric operator at a fact, or around a function",
    TIMED_AGGREGATE: "an aggregate over facts that hold at times",
    SEVERAL_TIMES: "a query with two variables for the time",
    TIMED_EQUALITY: "equality in a head, in a program whose facts hold at times",
    CHANGE_IN_PROGRAM: "a signed fact or rule in a program: it belongs into a change script",
    COMMIT_IN_PROGRAM: "a commit, or time that advances, in a program",
    UNKNOWN_FUNCTION: "a function that does not exist",
    FUNCTION_ARITY: "a function with too few or too many arguments",
    NO_VALUE: "a constant expression without a value, such as a division by zero",
    BAD_LITERAL: "a literal whose text is not of its datatype",
    OVERFLOW: "a constant expression that leaves 64 bits",
    SINGLE_VARIABLE: "a variable that occurs once in a rule",
    EMPTY_PREDICATE: "a predicate with neither facts, imports nor rules",
    UNKNOWN_ATTRIBUTE: "an attribute that does not exist",
    FOREIGN_VARIABLES: "a rule with names where Prolog has variables, such as `X`: they are constants here",
    NEVER_MATCHES: "a join, comparison or argument whose types can never match, or never have a value",
}
