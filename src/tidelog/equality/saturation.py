"""What follows from checked facts alone, over representatives of its own. Mutates itself and the engine.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, Algorithms 5 to 7 (saturate, rewrite, prove), for sets of facts. In the
paper's letters: the checked facts C are stored facts, over the representatives π; the proved ones P are over
γ, whose classes begin with one constant each and are merged as equalities are proved. What is proved and not
checked is delayed (Y).

Line 40 looks for explicit facts among all that a checked one stands for; here the members of one argument's
class lead to them. Whether all or none of what a fact stands for is proved is found by counting: so many
proved facts, of so many combinations of γ's representatives. Equalities by a common key merge a class along
its members, without a pair for every two of them.

Invariant: γ and the proved facts are the r-materialisation of all that has a proof from explicit facts in
which every fact is checked; each instance of a rule is found once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import chain

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids, Rows, codes_of, concatenate, select
from tidelog.equality.classes import Classes, Moved, Pairs, neighbours
from tidelog.equality.work_relations import CHECKED, Facts, Scratch, united
from tidelog.logic.program import EQUAL, Atom, Literal, Negation, Rule, Variable
from tidelog.logic.values import Value
from tidelog.maintenance.maintainer import Check
from tidelog.query.table_rules import Prepared, run_once
from tidelog.rewrite.representatives import ALIAS, GROUP, Constants, positive_rules, stored

PROVED, FOUND = "proved", "found"
EQUALITIES = stored(EQUAL)
Counts = npt.NDArray[np.int64]
Said = Callable[[str, Rows], Rows]  # the explicit facts that stored ones stand for
Renaming = Callable[[Iterable[Value], Classes], Constants]  # the representatives of constants in rules


class Saturation:
    """The proved facts of one search after another, by rules as they are said."""

    def __init__(self, rules: Iterable[Rule], scratch: Scratch, renaming: Renaming, check: Check) -> None:
        self._scratch = scratch
        self._engine = scratch.engine
        self._renaming = renaming
        self._check = check
        self._own = frozenset(scratch.relation(PROVED, name) for name in scratch.arities)
        self._as_said = {rule: self._prepared(rule, {}) for rule in rules}
        self._constants = {rule: _constants_of(rule) for rule in rules}
        heads = (each.head.predicate for rule in self._as_said for each in positive_rules(rule, {}))
        self._heads = tuple(name for name in dict.fromkeys(heads) if name in scratch.arities)
        self.matches = 0  # instances of rules that were found

    def begin(self, lost: Collection[Rule], former: Classes, said: Said) -> None:
        """Begin without proved facts; `former` has the classes of the stored facts, `lost` rules to omit."""
        self.classes = Classes()
        self._former = former
        self._said = said
        self._delayed: Facts = {}
        self._read = dict.fromkeys(self._heads, 0)  # how many of the facts found were looked at
        self._rules = {rule: some for rule, some in self._as_said.items() if rule not in lost}
        self._renamed: dict[Rule, Constants] = {rule: {} for rule in self._rules}
        self._fresh: set[str] = set()  # the relations that have facts which are new in this round
        for prepared in chain.from_iterable(self._rules.values()):
            prepared.look_over()

    # ---- more is checked

    def extend(self, checked: Facts) -> None:
        """Prove what follows now that these facts are checked, too."""
        came = united(
            chain(
                ((name, self._said(name, rows)) for name, rows in checked.items()),
                ((name, self._checked_now(name)) for name in checked if name in self._delayed),
            )
        )
        is_open = EQUALITIES in checked  # equalities by keys were passed over until now
        while came or is_open:
            while moved := self._merge(came, is_open):
                came = united(chain(came.items(), self._rewrite(moved)))
            is_open = False
            came = self._derive(self._enter(came))

    def _checked_now(self, name: str) -> Rows:
        """The delayed facts that are checked by now."""
        delayed = self._delayed.pop(name)
        checked = self._is_checked(name, delayed)
        if not checked.all():
            self._delayed[name] = select(delayed, ~checked)
        return select(delayed, checked)

    def _is_checked(self, name: str, rows: Rows) -> npt.NDArray[np.bool_]:
        return self._scratch.has(CHECKED, name, self._former.normalise(rows))

    def _enter(self, came: Facts) -> set[str]:
        """Add proved facts; return the relations that have new ones."""
        self._engine.show(self._fresh)
        fresh = self._fresh = set()
        for name, rows in came.items():
            normal = rows if name == ALIAS else united([(name, self.classes.normalise(rows))])[name]
            self._scratch.enter(PROVED, name, normal)
            relation = self._scratch.relation(PROVED, name)
            if self._engine.advance([relation]):
                fresh.add(relation)
        return fresh

    def _derive(self, fresh: set[str]) -> Facts:
        """What follows from proved facts that are new, and is checked; the rest is delayed."""
        for prepared in chain.from_iterable(self._rules.values()):
            before = prepared.matches
            prepared.run(fresh, self._check)
            self.matches += prepared.matches - before
        return self._found()

    def _found(self) -> Facts:
        """What rules have found since this was last asked, and is checked."""
        found = {}
        for name in self._heads:
            relation = self._scratch.relation(FOUND, name)
            first = self._read[name]
            rows = Rows(*self._engine.appended(relation, first))
            if rows.count:
                self._read[name] = first + rows.count
                checked = self._is_checked(name, rows)
                self._delay(name, select(rows, ~checked))
                found[name] = select(rows, checked)
        return {name: rows for name, rows in found.items() if rows.count}

    def _delay(self, name: str, rows: Rows) -> None:
        if rows.count:
            known = self._delayed.get(name)
            self._delayed[name] = rows if known is None else concatenate([known, rows])

    # ---- equalities

    def _merge(self, came: Facts, is_open: bool) -> Moved:
        """Merge what is equal by facts that came, or also by those that were there."""
        pairs = [self.classes.normalise(came[EQUALITIES]).columns] if EQUALITIES in came else []
        groups = (name for name in self._scratch.arities if name.endswith(GROUP))
        pairs += [self._by_keys(name, came) for name in groups if is_open or name in came]
        left, right = (
            np.concatenate([np.zeros(0, np.int32), *(pair[side] for pair in pairs)]) for side in (0, 1)
        )
        differ = left != right
        return self.classes.merge(left[differ], right[differ])

    def _by_keys(self, name: str, came: Facts) -> Pairs:
        """Pairs by which constants with a common key hang together, where their equality is checked."""
        proved = Rows(*self._engine.rows(self._scratch.relation(PROVED, name)))
        rows = concatenate([proved, self.classes.normalise(came[name])]) if name in came else proved
        owners = self._former.representatives(rows.columns[-1])
        checked = self._scratch.has(CHECKED, EQUALITIES, Rows((owners, owners), rows.count))
        return neighbours(select(rows, checked))

    def _rewrite(self, moved: Moved) -> Iterable[tuple[str, Rows]]:
        """Take away proved facts with constants that are no representatives any more, and give them back."""
        for name in self._scratch.arities:
            if name == ALIAS:
                continue
            relation = self._scratch.relation(PROVED, name)
            rows = Rows(*self._engine.rows(relation))
            outdated = np.zeros(rows.count, np.bool_)
            for column in rows.columns:
                outdated |= self.classes.representatives(column) != column
            if outdated.any():
                former = select(rows, outdated)
                current = self.classes.normalise(former)  # copied: the relation's memory is used again
                self._engine.remove(relation, former.columns, former.count)
                self._engine.show([relation])
                yield name, current
        yield from self._realias(moved)
        self._rename_constants()

    def _realias(self, moved: Moved) -> Iterable[tuple[str, Rows]]:
        """The same for the pairs of member and representative, if rules read them."""
        if ALIAS in self._scratch.arities:
            relation = self._scratch.relation(PROVED, ALIAS)
            self._engine.remove(relation, moved.removed.columns, moved.removed.count)
            self._engine.show([relation])
            yield ALIAS, moved.added

    def _rename_constants(self) -> None:
        """Replace constants in rules by representatives; run changed rules over all proved facts."""
        for rule, known in self._renamed.items():
            values = self._constants[rule]
            constants = self._renaming(values, self.classes) if values else {}
            if constants != known:
                self._renamed[rule] = constants
                self._rules[rule] = self._prepared(rule, constants)
                for each in self._rules[rule]:
                    run_once(each.rule, self._engine)

    # ---- rules

    def _prepared(self, rule: Rule, constants: Constants) -> list[Prepared]:
        """The rules over proved facts that are made of one."""
        return [
            Prepared(self._over_proved(each), self._own, self._engine)
            for each in positive_rules(rule, constants)
            if each.head.predicate in self._scratch.arities
        ]

    def _over_proved(self, rule: Rule) -> Rule:
        head = self._scratch.atom(FOUND, rule.head)
        return Rule(head, tuple(map(self._literal_over_proved, rule.body)))

    def _literal_over_proved(self, literal: Literal) -> Literal:
        match literal:
            case Atom():
                return self._scratch.atom(PROVED, literal)
            case Negation(atom):
                return Negation(self._scratch.atom(PROVED, atom))
        return literal

    # ---- what is proved of stored facts

    def proved(self, name: str, rows: Rows) -> tuple[Counts, Counts]:
        """Of how many facts each stored fact stands for, by representatives of γ, and how many are proved."""
        known = Rows(*self._engine.rows(self._scratch.relation(PROVED, name)))
        codes = codes_of(concatenate([rows, self._former.normalise(known)]))
        kinds, places = np.unique(codes, return_inverse=True)
        counted = np.bincount(places[rows.count :], minlength=len(kinds))[places[: rows.count]]
        return self._combinations(rows), counted

    def _combinations(self, rows: Rows) -> Counts:
        """How many facts over γ's representatives each row stands for."""
        product = np.ones(rows.count, np.int64)
        for column in rows.columns:
            owners, places = np.unique(column, return_inverse=True)
            product *= self._parts(owners)[places]
        return product

    def _parts(self, owners: Ids) -> Counts:
        """In how many classes of γ the members of each class are."""
        counts = np.ones(len(owners), np.int64)
        members, sizes = self._former.grouped(owners)
        if len(members) > len(owners):
            places = np.repeat(np.arange(len(owners)), sizes)
            pairs = np.unique((places << 32) | self.classes.representatives(members))
            found, number = np.unique(pairs >> 32, return_counts=True)
            counts[found] = number
        return counts


def _constants_of(rule: Rule) -> tuple[Value, ...]:
    """The constants in atoms of a rule."""
    terms = chain.from_iterable(atom.terms for atom in (rule.head, *rule.positive))
    return tuple(dict.fromkeys(term.value for term in terms if not isinstance(term, Variable)))
