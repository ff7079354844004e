"""The strategies by name, and how one is chosen for a query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from tidelog.errors import Diagnostic, ProgramError, counted, suggest
from tidelog.errors.codes import NOT_DERIVED, NOT_OVER_REPRESENTATIVES, UNKNOWN_STRATEGY
from tidelog.logic.program import BOTTOM, Assignment, Atom, Constant, Query, Variable
from tidelog.logic.strata import dependency_graph
from tidelog.query.magic import Magic, rewritten
from tidelog.query.strategy import Answers, QueryContext, Strategy, as_streaming
from tidelog.records import dataclass
from tidelog.rewrite.magic_sets import Rewritten
from tidelog.rewrite.renaming import AdornedKind

# ---- `lookup` and `full`: answers from complete relations


class Lookup:
    """Matches the query against existing facts, without deriving."""

    name = "lookup"

    def answer(self, query: Query, context: QueryContext) -> Answers:
        """Return the rows of the query's head; raise ProgramError if a predicate in it is not derived."""
        missing = context.derived_in(query) if context.look_up is None else list(context.program.predicates)
        if missing and not context.is_materialised:
            written = context.program.predicates[missing[0]].written
            message = f"`{written}` is not derived yet, so it cannot be looked up"
            help = "use another strategy, or derive everything first"
            raise ProgramError(Diagnostic(NOT_DERIVED, message, help=help))
        if not context.is_materialised:
            context.engine.rounds.begin(
                {atom.predicate for atom in (*query.rule.positive, *query.rule.negated)}
            )
        return context.answer(query)

    def explain(self, query: Query, context: QueryContext) -> str:
        """What it would do."""
        return "matches the query against the existing facts"


class Full:
    """Derives everything once, and looks up the answers."""

    name = "full"

    def answer(self, query: Query, context: QueryContext) -> Answers:
        """The rows of the query's head."""
        context.materialise()
        return context.answer(query)

    def explain(self, query: Query, context: QueryContext) -> str:
        """What it would do."""
        count = len(context.program.rules)
        return f"derives everything by {counted(count, 'rule')}, and looks the answers up"


# ---- choosing a strategy
#
# Invariant: all strategies give the same answers; only their speed differs.

FEW = 200  # facts: deriving everything from these takes less time than rewriting the program
PLANNED = 50  # facts from which everything is derived in the time of planning a pair of rewritten rules
MANY_RULES, MANY_TIMES = 50, 4  # rules that rewriting makes, in all and of each original one
TABLED = 600  # facts from which everything is derived in the time of tables for one of these rules
FEW_OF = 10  # one rule in this many costs almost nothing
MANY_FACTS = 50_000  # with more facts, a ground query by tables is faster than deriving everything


@dataclass(frozen=True, slots=True)
class QueryStrategyChoice:
    """The strategy to be used, and why."""

    strategy: str
    reason: str


def choose(query: Query, context: QueryContext) -> QueryStrategyChoice:
    """The strategy that is expected to be fastest.

    Everything is derived only if the query needs every rule: evaluation of the others may not terminate.
    """
    if context.is_materialised:
        return QueryStrategyChoice("lookup", "everything is derived already")
    if context.look_up is not None:
        return QueryStrategyChoice("full", "facts are kept over representatives of equal constants")
    requested = context.derived_in(query)
    if not requested and not context.is_constrained:
        return QueryStrategyChoice("lookup", "only explicit facts are queried")
    needed = _needed(requested, context)
    is_all = len(needed) == len(context.program.rules)
    if is_all and _facts(needed, context) <= FEW:
        return QueryStrategyChoice("full", f"every rule is needed, and there are no more than {FEW} facts")
    if _is_free(query) and is_all:
        return QueryStrategyChoice("full", "nothing is bound, and every rule is needed")
    if _is_free(query) and _are_rest_harmless(needed, context):
        return QueryStrategyChoice("full", "nothing is bound, and nearly all rules are needed")
    is_large = not is_all or _facts(needed, context) >= MANY_FACTS
    if is_large and all(_are_bound(query)):
        return QueryStrategyChoice("tabling", "nothing is free: only a few subgoals to decide")
    if context.is_tabled and any(_are_bound(query)):
        return QueryStrategyChoice("tabling", "tables of earlier queries exist")
    return _by_rewriting(query, needed, context)


def _by_rewriting(query: Query, needed: Sequence[int], context: QueryContext) -> QueryStrategyChoice:
    """Choose magic sets unless they produce too many rules or bind no argument."""
    rewritten_program = rewritten(query, context)
    bound, rules = _bound(rewritten_program), len(rewritten_program.rules)
    is_all = len(needed) == len(context.program.rules)
    facts = _facts(needed, context)
    if not bound and is_all:
        return QueryStrategyChoice("full", "nothing is bound, and every rule is needed")
    many = f"rewriting would make {counted(rules, 'rule')} of {len(needed):,}"
    is_manifold = rules > MANY_RULES and rules > MANY_TIMES * len(needed)
    if is_all and facts < (TABLED * rules if is_manifold else PLANNED * rules**2):
        return QueryStrategyChoice("full", f"{many}: too many for so few facts")
    if is_manifold and bound:
        return QueryStrategyChoice("tabling", f"{many}: tables need only those that are reached")
    count = f"{len(needed):,} of {counted(len(context.program.rules), 'rule')}"
    if not bound:
        return QueryStrategyChoice("magic", f"nothing is bound, but {count} are enough")
    names = [context.program.predicates[name].written for name in bound if name in context.program.predicates]
    return QueryStrategyChoice(
        "magic", f"arguments of {', '.join(names[:3]) or 'a closure'} are bound; {count} are needed"
    )


def _are_rest_harmless(needed: Collection[int], context: QueryContext) -> bool:
    """Whether the rules that are not needed are few and compute no values, so that they terminate."""
    rest = [rule for number, rule in enumerate(context.program.rules) if number not in needed]
    computing = (isinstance(literal, Assignment) for rule in rest for literal in (*rule.body, *rule.after))
    return FEW_OF * len(rest) <= len(context.program.rules) and not any(computing)


def _are_bound(query: Query) -> Iterator[bool]:
    """Of each argument of a query's atoms, whether it is a constant."""
    for atom in query.rule.body_atoms:
        yield from (isinstance(term, Constant) for term in atom.terms)


def _is_free(query: Query) -> bool:
    """Whether a query requests all facts of one predicate."""
    match query.rule.body:
        case (Atom(_, terms),):
            return len(set(terms)) == len(terms) and all(isinstance(term, Variable) for term in terms)
    return False


def _needed(predicates: Collection[str], context: QueryContext) -> list[int]:
    """The numbers of the rules that these predicates depend on."""
    rules = context.program.rules
    graph = dependency_graph(rules)
    needed, waiting = set(predicates), list(predicates)
    if context.is_constrained:
        needed.add(BOTTOM)
        waiting.append(BOTTOM)
    while waiting:
        for name in graph.get(waiting.pop(), ()):
            if name not in needed:
                needed.add(name)
                waiting.append(name)
    return [number for number, rule in enumerate(rules) if rule.head.predicate in needed]


def _facts(needed: Collection[int], context: QueryContext) -> int:
    """How many explicit facts the rules read."""
    rules = context.program.rules
    read = {atom.predicate for number in needed for atom in (*rules[number].positive, *rules[number].negated)}
    return sum(context.engine.storage.size(name) for name in read)


def _bound(program: Rewritten) -> list[str]:
    """The predicates that are requested with a bound argument."""
    predicates = {
        each.predicate: None
        for each in program.relations.values()
        if each.kind is AdornedKind.ADORNED and "b" in each.adornment
    }
    return list(predicates)


# ---- strategies by name


def _tabling() -> Strategy:
    from tidelog.query.tabling import Tabling  # few queries need tables

    return Tabling()


AUTO = "auto"
STREAMED = "tabling"  # gives its first answers early
STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "lookup": Lookup,
    "magic": Magic,
    STREAMED: _tabling,
    "full": Full,
}
WHOLE = (Lookup.name, Full.name)  # those that look answers up in relations that are whole
NAMES = (AUTO, *STRATEGIES)
BY_AXIOMS = 'use `--equality axiomatise` (`equality="axiomatise"`), or derive everything and look answers up'


def chosen(name: str, query: Query, context: QueryContext) -> QueryStrategyChoice:
    """Return the strategy of this name, or the choice of `auto`; raise ProgramError if there is none."""
    check_name(name)
    if name == AUTO:
        return choose(query, context)
    by_axioms = context.look_up is not None and name not in WHOLE
    return QueryStrategyChoice(
        name, "as requested, by the axioms of equality as rules" if by_axioms else "as requested"
    )


def not_over_representatives(what: str, help: str = BY_AXIOMS) -> ProgramError:
    """The error for features that do not work over representatives of equal constants."""
    message = f"{what} cannot be combined with equality by rewriting"
    return ProgramError(Diagnostic(NOT_OVER_REPRESENTATIVES, message, help=help))


def settle(strategies: Iterable[Strategy]) -> None:
    """Compute the remaining answers of all open streams before facts or rules change."""
    for strategy in filter(None, map(as_streaming, strategies)):
        strategy.settle()


def are_following(strategies: Iterable[Strategy]) -> bool:
    """Whether a strategy has tables that must follow insertions and deletions."""
    return any(strategy.is_following for strategy in filter(None, map(as_streaming, strategies)))


def check_name(name: str) -> None:
    """Raise ProgramError if no strategy has this name."""
    if name == AUTO or name in STRATEGIES:
        return
    help = suggest(name, NAMES) or f"choose one of {', '.join(NAMES)}"
    raise ProgramError(Diagnostic(UNKNOWN_STRATEGY, f"unknown strategy `{name}`", help=help))
