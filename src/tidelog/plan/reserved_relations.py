"""The names of the relations that are made for queries, proofs and checks, beside those of a program.

A name with a space in it is no predicate's. Some of these names are in snapshots and journals of stores: they
stay as they are.
"""

from __future__ import annotations

from typing import Final

# ---- Answers to one query, each in a relation of its own that is dropped with it.

ANSWERS: Final = "?- answers"  # heads of a rule, found by its plan
CONSTANTS: Final = "?- given"  # the bound constants of a plan, or the parameters of a query, in one row
MAGIC_ANSWERS: Final = "?- magic"
MAGIC_BOTTOM: Final = "?- bottom"  # whether the program is inconsistent, as far as magic sets derive it
BINDING: Final = "?- asked"  # the binding for which a prepared query is answered now
VIOLATIONS: Final = "?- violation"  # instances of a rule that derives bottom()
UNEQUAL_PAIRS: Final = "?- unequal"  # pairs that a rule says are not equal
LISTED: Final = "?- changed"  # facts that name a constant whose class has changed
ABSENT: Final = "?- absent"  # whether a fact is missing

# ---- Queries that stay: `?- NUMBER of ARITY`, with the bindings that are asked for.

KEPT_BOTTOM: Final = "?- bottom, kept"  # not `MAGIC_BOTTOM`, which is dropped with its query
REQUERIED: Final = "?- looked up"  # and a number: queries that are asked again after each transaction


def kept_query(number: int, arity: int) -> str:
    """The relation of the answers to a query that is kept."""
    return f"?- {number} of {arity}"


# ---- Proofs: temporary relations, each with a number of columns behind the name.

INSTANCES: Final = "why"
EXPLAINED: Final = "why asked"  # the answers that are explained
EXPLAINED_MEMBERS: Final = "why equal"  # the same over representatives of equal constants
DOUBTED: Final = "why not"  # the fact of which it is asked why it does not hold

# ---- Tables: what names begin with; the predicate, and the pattern in which it is asked for, stand behind.

ASKED: Final = "ask "  # bound arguments that are asked for
CALLED: Final = "call "  # those among them that are evaluated
CONTEXT: Final = "within "  # what is asked on behalf of what
ANSWERED: Final = "answer "
JOINED: Final = "joined "  # the beginning of a rule's body
COLLECTED: Final = "collect "  # rows that are aggregated
INSERTED: Final = "came "
DELETED: Final = "gone "
RETRACTED: Final = "taken "  # rows of a table that an instance with a deleted fact has given
