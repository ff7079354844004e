"""Delete and rederive as rules: from a program and what changes to one that derives the facts afterwards.

Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, section 7, whose rules are taken
literally, so that every evaluator of programs can maintain them, tasks that exchange facts included: the
steps of the algorithm are strata, with negation between them.

For each predicate that a change may reach, all facts before it are given as `p old`. Rules derive

    p overdeleted   heads of instances that may have broken
    p kept          old facts that are not overdeleted
    p candidate     overdeleted facts that follow from what is left, and heads of new instances
    p added         candidates that are not kept
    p               kept and added facts: all facts afterwards
    p lost, gained  what has changed, for the strata above

Each of the rules but `kept` and `p` reads what has changed. Predicates that no change reaches stay as they
are: their facts are given.

Invariant: after any change of the given facts, `p` has exactly the facts that the program derives from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import (
    Atom,
    Fact,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.strata import strata
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.rewrite.renaming import assigned_or_tested

OLD, GIVEN, INSERTED, DELETED = "old", "given", "inserted", "deleted"
OVERDELETED, KEPT, CANDIDATE, ADDED, LOST, GAINED = (
    "overdeleted",
    "kept",
    "candidate",
    "added",
    "lost",
    "gained",
)
WITHDRAWN, TOUCHED, REDONE = "withdrawn", "touched", "redone"


class NotMaintainable(ValueError):  # noqa: N818 - what the program is, not what went wrong
    """Raised for a program that is not maintained by rules."""


@dataclass(frozen=True)
class MaintenanceProgram:
    """The program that maintains another, and the relations that its facts are given in, by predicate.

    All facts of the predicates in `old` are given there, as they were, derived ones included; of those in
    `given` the explicit ones as well, and what is inserted and deleted. Predicates in none of these are given
    as in the program itself. `gained` and `lost` are the relations of what has changed.
    """

    program: Program
    old: Mapping[str, str]
    given: Mapping[str, str]
    inserted: Mapping[str, str]
    deleted: Mapping[str, str]
    gained: Mapping[str, str]
    lost: Mapping[str, str]

    @property
    def read(self) -> frozenset[str]:
        """The relations that rules read."""
        return frozenset(name for rule in self.program.rules for name in rule.read)


def maintenance(
    program: Program,
    inserted: Collection[str],
    deleted: Collection[str],
    given: Collection[str] = (),
) -> MaintenanceProgram:
    """Return the program that applies insertions to some predicates and deletions from some.

    `given` are derived predicates that have explicit facts too; those of the program are known.
    """
    if program.timed or has_equality(program.predicates):
        raise NotMaintainable("rules over time and equality are not maintained by rules")
    return _Rewriting(program, frozenset(inserted), frozenset(deleted), frozenset(given)).maintenance()


def afterwards(
    program: Program,
    inserted: Collection[str],
    deleted: Collection[str],
    given: Collection[str] = (),
) -> MaintenanceProgram:
    """Return the program that derives everything again from facts after insertions and deletions.

    Nothing that was derived before is read: only predicates that change themselves are in `old` or `given`.
    """
    rewriting = _Rewriting(program, frozenset(inserted), frozenset(deleted), frozenset(given))
    changed, derived = rewriting.inserted | rewriting.deleted, program.derived
    old: dict[str, str] = {}
    explicit: dict[str, str] = {}
    for name in sorted(changed):
        kind, places = (GIVEN, explicit) if name in derived else (OLD, old)
        before = rewriting.atom(name, kind)
        places[name] = before.predicate
        unless = (Negation(rewriting.atom(name, DELETED)),) if name in rewriting.deleted else ()
        rewriting.add(rewriting.all_facts(name), before, *unless)
        if name in rewriting.inserted:
            rewriting.add(rewriting.all_facts(name), rewriting.atom(name, INSERTED))
    facts = tuple(rewriting.facts(changed, derived))
    predicates = {**program.predicates, **rewriting.predicates}
    rules = (*program.rules, *rewriting.rules)
    return MaintenanceProgram(
        replace(program, rules=rules, predicates=predicates, facts=facts, outputs=(), queries=()),
        old,
        explicit,
        {name: rewriting.relation(name, INSERTED) for name in sorted(rewriting.inserted)},
        {name: rewriting.relation(name, DELETED) for name in sorted(rewriting.deleted)},
        {},
        {},
    )


@dataclass
class _Rewriting:
    """The rules as they are made. Mutable: they are gathered stratum by stratum."""

    program: Program
    inserted: frozenset[str]
    deleted: frozenset[str]
    given: frozenset[str]
    rules: list[Rule] = field(default_factory=list)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    may_lose: set[str] = field(default_factory=set)
    may_gain: set[str] = field(default_factory=set)

    @cached_property
    def explicit(self) -> frozenset[str]:
        """The predicates that have explicit facts."""
        return self.given | self.inserted | self.deleted | {fact.predicate for fact in self.program.facts}

    def maintenance(self) -> MaintenanceProgram:
        """Return all rules, and the relations into which facts are loaded."""
        program, derived = self.program, self.program.derived
        changed = self.inserted | self.deleted
        for name in sorted(changed - derived):
            self._input(name)
        for stratum in strata(program.rules):
            self._stratum(frozenset(stratum.predicates), stratum.rules)
        reached = self.may_gain | self.may_lose
        facts = tuple(self.facts(reached, derived))
        predicates = {**program.predicates, **self.predicates}
        rewritten = replace(program, rules=tuple(self.rules), predicates=predicates, facts=facts)
        rewritten = replace(rewritten, outputs=(), queries=())
        return MaintenanceProgram(
            rewritten,
            {
                name: self.relation(name, OLD) if name in reached else name
                for name in sorted(reached | derived)
            },
            {name: self.relation(name, GIVEN) for name in sorted(self.explicit & derived & reached)},
            {name: self.relation(name, INSERTED) for name in sorted(self.inserted)},
            {name: self.relation(name, DELETED) for name in sorted(self.deleted)},
            {name: self.relation(name, GAINED) for name in sorted(self.may_gain)},
            {name: self.relation(name, LOST) for name in sorted(self.may_lose)},
        )

    def facts(self, reached: Collection[str], derived: Collection[str]) -> Iterator[Fact]:
        """Yield the facts of the program where they are given now."""
        for fact in self.program.facts:
            kind = GIVEN if fact.predicate in derived else OLD
            name = self.relation(fact.predicate, kind) if fact.predicate in reached else fact.predicate
            yield replace(fact, predicate=name)

    # ---- relations

    def relation(self, predicate: str, kind: str) -> str:
        """Return the relation of this kind for a predicate; define it if necessary."""
        name = f"{predicate} {kind}"
        if name not in self.predicates:
            original = self.program.predicates[predicate]
            self.predicates[name] = replace(original, name=name, written=name)
        return name

    def atom(self, predicate: str, kind: str, terms: tuple[Term, ...] | None = None) -> Atom:
        """Return an atom of such a relation, by default one with a variable for each column."""
        if terms is None:
            terms = tuple(
                Variable(f"x{position}") for position in range(self.program.predicates[predicate].arity)
            )
        return Atom(self.relation(predicate, kind), terms)

    def all_facts(self, predicate: str) -> Atom:
        """Return the atom of all facts afterwards."""
        return Atom(predicate, self.atom(predicate, OLD).terms)

    def add(self, head: Atom, *body: Literal) -> None:
        """Add a rule."""
        self.rules.append(Rule(head, body))

    # ---- given relations

    def _input(self, name: str) -> None:
        """Make the rules of a predicate that no rule derives."""
        old, inserted = self.atom(name, OLD), self.atom(name, INSERTED)
        lost, gained = self.atom(name, LOST), self.atom(name, GAINED)
        if name in self.deleted:
            self.may_lose.add(name)
            unless = (Negation(inserted),) if name in self.inserted else ()
            self.add(lost, self.atom(name, DELETED), old, *unless)
            self.add(self.all_facts(name), old, Negation(lost))
        else:
            self.add(self.all_facts(name), old)
        if name in self.inserted:
            self.may_gain.add(name)
            self.add(gained, inserted, Negation(old))
            self.add(self.all_facts(name), gained)

    # ---- derived relations

    def _stratum(self, names: frozenset[str], rules: Sequence[Rule]) -> None:
        """Make the rules of predicates that depend on one another, if a change gets there."""
        breaks, makes = [rule for rule in rules if self._breaks(rule)], list(filter(self._makes, rules))
        aggregates = any(
            rule.aggregations for rule in (*breaks, *makes)
        )  # one fact is deleted, another inserted
        loses = bool(aggregates or breaks or self.deleted & names)
        gains = bool(aggregates or makes or self.inserted & names)
        if not loses and not gains:
            return  # its facts are given
        self.may_lose |= names if loses else set()
        self.may_gain |= names if gains else set()
        for name in sorted(names):
            self._predicate(name, loses, gains)
        for number, rule in enumerate(rules):
            if rule.aggregations:
                self._aggregate(rule, number, loses)
            else:
                self._rule(rule, names, loses)

    def _breaks(self, rule: Rule) -> bool:
        """Whether changes in lower strata may break instances of a rule."""
        return any(atom.predicate in self.may_lose for atom in rule.positive) or any(
            atom.predicate in self.may_gain for atom in rule.negated
        )

    def _makes(self, rule: Rule) -> bool:
        """Whether changes in lower strata may give a rule new instances."""
        return any(atom.predicate in self.may_gain for atom in rule.positive) or any(
            atom.predicate in self.may_lose for atom in rule.negated
        )

    def _predicate(self, name: str, loses: bool, gains: bool) -> None:
        """Make the rules that lead from old facts to new ones, and those of explicit facts."""
        old, added = self.atom(name, OLD), self.atom(name, ADDED)
        overdeleted = self.atom(name, OVERDELETED)
        kept = self.atom(name, KEPT) if loses else old
        if loses:
            self.add(kept, old, Negation(overdeleted))
            self.add(self.atom(name, LOST), overdeleted, old, Negation(added))
        if gains:
            self.add(self.atom(name, GAINED), added, Negation(old))
        candidate = self.atom(name, CANDIDATE)
        self.add(added, candidate, Negation(kept))
        self.add(self.all_facts(name), kept)
        self.add(self.all_facts(name), added)
        explicit, inserted = self.atom(name, GIVEN), self.atom(name, INSERTED)
        withdrawn = self.atom(name, WITHDRAWN)
        if name in self.inserted:
            self.add(candidate, inserted)
        if name in self.deleted:
            unless = (Negation(inserted),) if name in self.inserted else ()
            self.add(withdrawn, self.atom(name, DELETED), explicit, *unless)
            self.add(overdeleted, withdrawn)
        if loses and name in self.explicit:
            unless = (Negation(withdrawn),) if name in self.deleted else ()
            self.add(candidate, overdeleted, explicit, *unless)

    def _rule(self, rule: Rule, names: frozenset[str], loses: bool) -> None:
        """Make the rules for the broken and the new instances of a rule."""
        head = rule.head
        if loses:
            overdeleted = self.atom(head.predicate, OVERDELETED, head.terms)
            for body in self._broken(rule, names):
                self.add(overdeleted, *body)
            bound = {variable for atom in rule.positive for variable in literal_variables(atom)}
            affected = self.atom(head.predicate, OVERDELETED, _hidden(head.terms, bound))
            self.add(self.atom(head.predicate, CANDIDATE, head.terms), affected, *rule.body)
        for body in self._made(rule, names):
            self.add(self.atom(head.predicate, CANDIDATE, head.terms), *body)

    def _aggregate(self, rule: Rule, number: int, loses: bool) -> None:
        """Make the rules that aggregate changed groups again.

        Groups are identified by their variables in the head; without these, all are aggregated again.
        """
        if not loses:
            return
        head = rule.head
        group = tuple(dict.fromkeys(term for term in head.terms if term in rule.group))
        facts = _hidden(head.terms, set(group))
        touched_group = self._group(head.predicate, f"{TOUCHED} {number}", group)
        redone_group = self._group(head.predicate, f"{REDONE} {number}", group)
        for body in (*self._broken(rule, frozenset()), *self._made(rule, frozenset())):
            self.add(touched_group, *body)
        overdeleted = self.atom(head.predicate, OVERDELETED, facts)
        self.add(overdeleted, touched_group, self.atom(head.predicate, OLD, facts))
        self.add(redone_group, touched_group)
        self.add(redone_group, overdeleted)
        candidate = self.atom(head.predicate, CANDIDATE, head.terms)
        grouped = (redone_group, *(assigned_or_tested(literal, redone_group.terms) for literal in rule.body))
        self.rules.append(replace(rule, head=candidate, body=grouped, name=None))

    def _group(self, predicate: str, kind: str, variables: tuple[Term, ...]) -> Atom:
        """Return the atom of a relation of groups."""
        name, none = f"{predicate} {kind}", (None,) * len(variables)
        self.predicates[name] = Predicate(name, len(none), none, (ColumnType.ANY,) * len(none), name)
        return Atom(name, variables)

    # ---- bodies

    def _broken(self, rule: Rule, names: frozenset[str]) -> Iterator[list[Literal]]:
        """Yield bodies of old instances in each of which one literal may hold no longer."""
        old = [self._before(literal, names) for literal in rule.body]
        for position, literal in enumerate(rule.body):
            changed: Literal | None = None
            match literal:
                case Atom(predicate, terms) if predicate in names:
                    changed = self.atom(predicate, OVERDELETED, terms)
                case Atom(predicate, terms) if predicate in self.may_lose:
                    changed = self.atom(predicate, LOST, terms)
                case Negation(Atom(predicate, terms)) if predicate in self.may_gain:
                    changed = self.atom(predicate, GAINED, terms)
            if changed is not None:
                yield [*old[:position], changed, *old[position + 1 :]]

    def _made(self, rule: Rule, names: frozenset[str]) -> Iterator[list[Literal]]:
        """Yield bodies of instances in each of which one literal may be new."""
        for position, literal in enumerate(rule.body):
            changed: list[Literal] = []
            match literal:
                case Atom(predicate, terms) if predicate in names:
                    changed = [self.atom(predicate, ADDED, terms)]
                case Atom(predicate, terms) if predicate in self.may_gain:
                    changed = [self.atom(predicate, GAINED, terms)]
                case Negation(Atom(predicate, terms)) if predicate in self.may_lose:
                    other_literals = (other for at, other in enumerate(rule.body) if at != position)
                    used = {variable for other in other_literals for variable in literal_variables(other)}
                    changed = [self.atom(predicate, LOST, _hidden(terms, used)), literal]
            if changed:
                yield [*rule.body[:position], *changed, *rule.body[position + 1 :]]

    def _before(self, literal: Literal, names: frozenset[str]) -> Literal:
        """Return a literal about facts as they were."""
        match literal:
            case Negation(atom):
                before = self._before(atom, names)
                assert isinstance(before, Atom)
                return Negation(before)
            case Atom(predicate, terms) if predicate in names | self.may_lose | self.may_gain:
                return self.atom(predicate, OLD, terms)
        return literal


def _hidden(terms: tuple[Term, ...], visible: Collection[Term]) -> tuple[Term, ...]:
    """Return the terms; a variable that is not visible is replaced by one that matches anything."""
    return tuple(
        Variable(f"_any {term.name}") if isinstance(term, Variable) and term not in visible else term
        for term in terms
    )
