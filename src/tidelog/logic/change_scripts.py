"""Change scripts: from signed facts and rules to the deletions and insertions of one transaction; comparison
of rules by meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tidelog.errors import Diagnostic, Label, codes, suggest
from tidelog.logic import clauses
from tidelog.logic.expressions import IntervalReader
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Fact, MetricRule, Program, Rule, Variable
from tidelog.logic.resolve import Resolver
from tidelog.logic.scopes import Report, Scope, ScopedStatement
from tidelog.logic.signatures import Signatures
from tidelog.records import dataclass
from tidelog.syntax import ast

# ---- rules compared by meaning


class Rules:
    """An index of rules by meaning. Mutable: rules are added."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules: dict[object, list[Rule]] = {}
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        """Add a rule to those that `find` searches."""
        self._rules.setdefault(_outline(rule), []).append(rule)

    def find(self, rule: Rule) -> tuple[Rule, ...]:
        """All rules that mean the same as `rule`: names, spelling and order do not matter.

        >>> from tidelog import parse
        >>> rules = parse("p(?x) :- q(?x, ?y), ~r(?y) . q(1, 2) . r(3) .").rules
        >>> other = parse('#[name("other")] p(?b) :- q(?b, ?a), ~r(?a) . q(1, 2) . r(3) .').rules
        >>> Rules(rules).find(other[0]) == rules
        True
        """
        candidates = self._rules.get(_outline(rule), ())
        return tuple(candidate for candidate in candidates if is_same(candidate, rule))


def is_same(rule: Rule, other: Rule) -> bool:
    """Whether two rules differ in the names of variables and the order of literals only."""
    fixed = (rule.head, rule.group, rule.aggregations, rule.after, _moves(rule))
    other_fixed = (other.head, other.group, other.aggregations, other.after, _moves(other))
    names = _matched(fixed, other_fixed, {})
    return names is not None and _bodies_match(rule.body, list(other.body), names)


def _moves(rule: Rule) -> tuple[object, ...]:
    """The operators of time in a rule's head."""
    return rule.moves if isinstance(rule, MetricRule) else ()


Names = dict[str, str]


def _bodies_match(body: Sequence[object], others: list[Any], names: Names) -> bool:
    """Whether each literal is one of the others, each of these once, under one renaming."""
    if not body:
        return not others
    for position, other in enumerate(others):
        extended = _matched(body[0], other, names)
        if extended is not None and _bodies_match(
            body[1:], others[:position] + others[position + 1 :], extended
        ):
            return True
    return False


def _matched(item: object, other: object, names: Names) -> Names | None:
    """Extend the renaming so that it maps `item` to `other`; return None if that is impossible."""
    if isinstance(item, Variable) and isinstance(other, Variable):
        renamed = names.get(item.name)
        if renamed is None and other.name not in names.values():
            return {**names, item.name: other.name}
        return names if renamed == other.name else None
    if type(item) is not type(other):
        return None
    components, other_components = _components(item), _components(other)
    if components is None or other_components is None:
        return names if item == other else None
    if len(components) != len(other_components):
        return None
    for component, other_component in zip(components, other_components, strict=True):
        extended = _matched(component, other_component, names)
        if extended is None:
            return None
        names = extended
    return names


def _components(item: object) -> tuple[object, ...] | None:
    """The components of a literal, term or tuple; None if it is atomic."""
    if isinstance(item, tuple):
        return item
    if is_dataclass(item) and type(item).__module__ == Variable.__module__:
        return tuple(getattr(item, field.name) for field in fields(item))
    return None


@lru_cache(maxsize=4096)
def _outline(rule: Rule) -> object:
    """A key of a rule that does not depend on variable names: equal for rules that mean the same."""
    blind = replace(rule, name=None, span=None)
    return repr((_blind(blind.head), sorted(map(_blind, blind.body)), _blind(blind.aggregations)))


def _blind(item: object) -> str:
    return "(" + " ".join(_words(item)) + ")"


def _words(item: object) -> Iterator[str]:
    components = _components(item)
    if isinstance(item, Variable):
        yield "?"
    elif components is None:
        yield repr(item)
    else:
        yield type(item).__name__
        yield from map(_blind, components)


# ---- change scripts
#
# All errors of a transaction are raised together, like those of a program. Rules to delete are
# found by meaning; the caller looks up facts.

SHOWN = 3  # similar rules that are shown for one that is missing

_IN_SCRIPTS = (
    ast.ClauseNode,
    ast.PrefixDirectiveNode,
    ast.BaseDirectiveNode,
    ast.DeclareDirectiveNode,
    ast.CommitDirectiveNode,
    ast.AdvanceDirectiveNode,
)


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """Rules to delete and to add, as they are written, and the rules before."""

    before: tuple[Rule, ...]
    deleted: tuple[Rule, ...] = ()
    inserted: tuple[Rule, ...] = ()

    def outcome(self) -> RuleOutcome:
        """Apply the changes: delete rules, then add missing ones; a rule that is in both stays."""
        index = Rules(self.before)
        deleted: dict[int, Rule] = {}
        errors = []
        for rule in self.deleted:
            matches = index.find(rule)
            deleted.update((id(match), match) for match in matches)
            if not matches:
                errors.append(_missing_rule(rule, self.before))
        added: list[Rule] = []
        for rule in self.inserted:
            matches = index.find(rule)
            for match in matches:
                deleted.pop(id(match), None)
            if not matches:
                index.add(rule)
                added.append(rule)
        rules = self.before
        if deleted or added:
            rules = (*(rule for rule in rules if id(rule) not in deleted), *added)
        return RuleOutcome(rules, tuple(deleted.values()), tuple(added), tuple(errors))


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The rules afterwards, those deleted, those added, and errors for those that are missing."""

    rules: tuple[Rule, ...]
    removed: tuple[Rule, ...] = ()
    added: tuple[Rule, ...] = ()
    missing: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """The changes that a script requests in a transaction: facts, and the rules of the transaction so far.

    `program` is the program afterwards, without facts.
    """

    program: Program
    rules: RuleChanges
    outcome: RuleOutcome
    removed: tuple[Fact, ...] = ()
    added: tuple[Fact, ...] = ()
    advance: Interval | None = None  # the point to which time advances


def transactions(document: ast.DocumentNode) -> Iterator[ast.DocumentNode]:
    """The transactions of a script: each ends at a commit, the last perhaps at the end of the text."""
    waiting: list[ast.Statement] = []
    for statement in document.statements:
        if isinstance(statement, ast.CommitDirectiveNode):
            yield ast.DocumentNode(tuple(waiting))
            waiting = []
        else:
            waiting.append(statement)
    if waiting:
        yield ast.DocumentNode(tuple(waiting))


def is_program(document: ast.DocumentNode) -> bool:
    """Whether the document has several statements, and none of them is signed."""
    clauses = [statement for statement in document.statements if isinstance(statement, ast.ClauseNode)]
    return len(clauses) > 1 and not any(clause.sign for clause in clauses)


def resolve_changes(
    document: ast.DocumentNode,
    program: Program,
    earlier: RuleChanges,
    *,
    unsigned: str | None = None,
    folder: Path | None = None,
) -> RequestedChanges:
    """The changes that a script requests of a program, which contains no facts.

    `earlier` are the rules that the transaction has changed so far. A clause without a sign has the sign
    `unsigned`. Without that it is an error, as are directives other than those about how to read
    the script.
    """
    resolver = _Resolver(program, earlier, unsigned)
    after = replace(resolver.resolve(document, folder), facts=(), rules=resolver.outcome.rules)
    return RequestedChanges(
        program if resolver.is_plain else after,
        resolver.changes,
        resolver.outcome,
        tuple(resolver.facts_removed),
        tuple(resolver.facts),
        resolver.advance_to,
    )


class _Resolver(Resolver):
    """Resolves the statements of one transaction. Mutable: it collects their changes."""

    def __init__(self, program: Program, earlier: RuleChanges, unsigned: str | None) -> None:
        super().__init__(program, {}, {})
        self.changes = earlier
        self.outcome = RuleOutcome(program.rules)
        self.unsigned = unsigned
        self.facts_removed: list[Fact] = []
        self.advance_to: Interval | None = None
        self.is_plain = True  # only facts of known predicates, so that the program stays as it is
        self._count = len(self.signatures.predicates)
        self._timed = len(self.given_times)
        # Deletions do not declare predicates: warnings about them are ignored.
        self._ignored = Report()
        self._deletion_signatures = Signatures(self._ignored, program.predicates)

    def resolve(self, document: ast.DocumentNode, folder: Path | None) -> Program:
        """The program after the changes, or all that is wrong with them; of a program, that it is one."""
        if self.unsigned is None and is_program(document):
            count = len(document.statements)
            message = f"this is a program, not a change script: none of these {count:,} statements has a sign"
            help = (
                "write `+` before what to insert, `-` before what to delete; "
                "to run a program: `tidelog run`; to add its facts to another: `@include`"
            )
            self.report.error(codes.UNSIGNED, message, document.statements[0].span, help)
            self.report.check()
        return super().resolve(document, folder)

    def statement(self, placed: ScopedStatement) -> None:
        """Process one statement."""
        statement = placed.statement
        is_fact = isinstance(statement, ast.ClauseNode) and not statement.body
        self.is_plain = self.is_plain and (is_fact or isinstance(statement, ast.AdvanceDirectiveNode))
        if self.unsigned is None and not isinstance(statement, _IN_SCRIPTS):
            message = "a change script consists of signed facts and rules"
            help = "move this to the program"
            self.report.error(codes.NOT_IN_SCRIPTS, message, statement.span, help)
            return
        super().statement(placed)

    def commit(self, directive: ast.CommitDirectiveNode) -> None:
        """Report a commit: the script is a single transaction."""
        message = "a single transaction is expected here, and this ends it early"
        self.report.error(
            codes.COMMIT_INSIDE, message, directive.span, "use `stream` for several transactions"
        )

    def advance(self, directive: ast.AdvanceDirectiveNode) -> None:
        """Take the time to which time advances."""
        self.advance_to = IntervalReader(self.report, self.parameters).at(directive.to)

    def clause(self, clause: ast.ClauseNode, scope: Scope) -> None:
        """Add the facts or rules of a clause to the changes."""
        sign = clause.sign or self.unsigned
        if sign is None:
            what = "rule" if clause.body else "fact"
            message = f"a {what} in a change script needs a sign"
            help = "write `+` before it to insert it, `-` to delete it"
            self.report.error(codes.UNSIGNED, message, clause.span, help)
        elif sign == "+" and clause.body:
            rules = clauses.rules(clause, self.context(scope))
            self.changes = replace(self.changes, inserted=self.changes.inserted + rules)
        elif sign == "+":
            self.take_facts(clauses.facts(clause, self.context(scope)))
        else:
            context = clauses.ClauseContext(scope, self.parameters, self._ignored, self._deletion_signatures)
            if clause.body:
                rules = clauses.rules(clause, context)
                self.changes = replace(self.changes, deleted=self.changes.deleted + rules)
            else:
                self.facts_removed.extend(clauses.facts(clause, context))

    def check_whole(self) -> None:
        """Report errors that only the whole program shows, if it changes."""
        self.report.add(*self._ignored.errors)
        self.is_plain = self.is_plain and len(self.signatures.predicates) == self._count
        self.is_plain = self.is_plain and len(self.given_times) == self._timed
        if self.is_plain:
            return
        self.outcome = self.changes.outcome()
        self.rules = list(self.outcome.rules)
        super().check_whole()


def _missing_rule(rule: Rule, rules: Sequence[Rule]) -> Diagnostic:
    """The error that a rule cannot be deleted because it is missing."""
    head = rule.head.predicate
    spans = [each.span for each in rules if each.head.predicate == head and each.span is not None]
    if spans:
        help: str | None = "rules are matched by meaning: variable names and order do not matter"
    else:
        help = suggest(head, {each.head.predicate for each in rules}) or f"no rule derives `{head}`"
    labels = tuple(Label(span, "this rule exists") for span in spans[:SHOWN])
    return Diagnostic(codes.NO_SUCH_RULE, "the rule to delete does not exist", rule.span, help, labels)
