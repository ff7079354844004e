"""Backward/Forward with rewriting (B/F≈): which classes a deletion divides, and into which parts.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, Algorithms 1 and 3 to 7, for sets of facts.

The paper's sets are kinds of facts in work relations (`work_relations`), over the representatives π of the
stored facts, but for P:

    D  SUSPECT    facts that may be lost
    O  PROCESSED  those among them whose consequences are suspect too
    C  CHECKED    facts for which proofs are searched, backwards
    S  DISPROVED  checked facts without any proof, which no search reads again
    P  PROVED     facts that follow from explicit facts through checked ones, over representatives γ
    Y  delayed    facts that are proved and not checked yet

`ClassSearch` has Algorithms 1, 3 and 4: each suspect fact is checked backwards; a fact that is not proved as
a whole makes further facts suspect. `Saturation` has Algorithms 5 to 7 (saturate, rewrite, prove): it derives
forwards from checked facts. `ExplicitMembers` has line 40: which explicit facts a checked fact represents.

Only facts that equality depends on take part, since the result is only the classes: the maintainer does
Algorithm 2; for it a change of classes is a change of the relation of aliases. Of the paper's
optimisations, reflexivity needs no work, as no rule makes a constant equal to itself; redundant derivations,
disproved facts and singletons are as in the paper. Two things differ. Line 40 does not expand a checked fact
into all combinations of members: the members of one argument's class lead to the explicit facts. And
equalities by a common key merge a class along its members, without a pair for every two of them.

Invariants: a checked fact has its proof if it has one at all, or waits, or each of its instances among facts
that are not disproved has only checked facts. γ and the proved facts are the r-materialisation of all that
has a proof from explicit facts in which every fact is checked; each instance of a rule is found once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids, Rows, codes_of, concatenate, distinct, select, without
from tidelog.equality.classes import NONE, Classes, MovedConstants, Pairs, neighbours
from tidelog.equality.work_relations import (
    CHECKED,
    GIVEN,
    BoundQuery,
    Facts,
    WorkRelations,
    united,
)
from tidelog.logic.program import (
    EQUAL,
    Atom,
    Constant,
    Literal,
    Negation,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Value
from tidelog.maintenance.maintainer import Check, Update
from tidelog.query.table_rules import PreparedRule, run_once
from tidelog.rewrite.renaming import assigned_or_tested
from tidelog.rewrite.representatives import (
    ALIAS,
    GROUP,
    Constants,
    bearing_on_equality,
    positive_rules,
    stored,
    stored_atoms,
)

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

SUSPECT, PROCESSED, DISPROVED, LOST = "doubtful", "processed", "disproved", "lost"
PROVED, FOUND = "proved", "found"
CONSTANTS = "= constants"  # a relation of one column, for given constants
EQUALITIES = stored(EQUAL)
Waiting = dict[tuple[str, int], Rows]  # facts by relation, and by how many kinds of proofs were searched
Found = Iterator[tuple[str, Rows]]
Counts = npt.NDArray[np.int64]
ExplicitFactsOf = Callable[[str, Rows], Rows]  # the explicit facts that stored ones represent
Renaming = Callable[[Iterable[Value], Classes], Constants]  # the representatives of constants in rules


class EqualityRules:
    """The rules of a program that equality depends on.

    `of` maps each source rule to its rules over representatives, `predicates` each stored relation to its
    predicate.
    """

    def __init__(self, program: Program, constants: Constants) -> None:
        positive = [rule for rule in program.rules if not (rule.negated or rule.aggregations)]
        built = {rule: positive_rules(rule, constants) for rule in positive}
        bearing = frozenset(bearing_on_equality(tuple(chain.from_iterable(built.values()))))
        self.of = {
            rule: tuple(each for each in some if each in bearing)
            for rule, some in built.items()
            if not bearing.isdisjoint(some)
        }
        atoms = chain.from_iterable((rule.head, *rule.body_atoms) for rule in bearing)
        self.arities = {EQUALITIES: 2, **{atom.predicate: len(atom.terms) for atom in atoms}}
        predicates = {stored(name): name for name in program.predicates}
        self.predicates = {each: name for each, name in predicates.items() if each in self.arities}


class ClassSearch:
    """Algorithms 1, 3 and 4 for the rules of a program; reused from one update to the next."""

    def __init__(
        self, rules: EqualityRules, engine: ColumnarEngine, renaming: Renaming, check: Check
    ) -> None:
        self._equality_rules = rules
        self._engine = engine
        self._check = check
        self.relations = WorkRelations("to prove", engine, rules.arities)
        self._saturation = Saturation(rules.of, self.relations, renaming, check)
        self._explicit_members = ExplicitMembers(rules.predicates, self.relations, check)
        self._backwards = {
            rule: [BackwardRule(each, self.relations, check) for each in some]
            for rule, some in rules.of.items()
        }
        self._forwards = {
            rule: list(chain.from_iterable(_consequences(each, self.relations) for each in some))
            for rule, some in rules.of.items()
        }
        self._mentions = list(_mentions(rules.arities, self.relations))
        self._examined = 0  # facts that became suspect or checked

    @property
    def derivations(self) -> int:
        """How many times facts became suspect, were checked backwards or were derived forwards."""
        return self._examined + self._saturation.matches

    def parts(self, update: Update, lost: Collection[Rule], classes: Classes) -> tuple[Ids, Ids]:
        """Return the members of all checked classes, and their representatives after the update.

        The update is not applied yet; `lost` are the rules that it removes.
        """
        self._classes = classes

        def explicit(name: str, rows: Rows) -> Rows:
            return self._explicit_members.explicit(name, rows, classes, update.removed)

        self._saturation.begin(lost, classes, explicit)
        self._rules = [rule for rule in self._equality_rules.of if rule not in lost]
        self._steps: dict[str, list[BackwardRule]] = {name: [] for name in self._equality_rules.arities}
        for each in chain.from_iterable(self._backwards[rule] for rule in self._rules):
            self._steps[each.head].append(each)
        try:
            self._search(self._suspect_facts(update.removed, lost))
            return self._parts_of_checked()
        finally:
            self.relations.empty()

    def _parts_of_checked(self) -> tuple[Ids, Ids]:
        """The members of checked classes, and their representatives: the former one if it is in the part."""
        (owners, _), _ = self._engine.storage.rows(self.relations.relation(CHECKED, EQUALITIES))
        members = self._classes.members_of(self._classes.several(owners))
        representatives = self._saturation.classes.representatives(members)
        former, positions = np.unique(representatives, return_inverse=True)
        is_own = self._classes.representatives(members) == members
        former[positions[is_own]] = members[is_own]
        return members, former[positions]

    # ---- Algorithm 1: from lost facts to suspect ones (D)

    def _suspect_facts(self, removed: Mapping[str, Rows], lost: Collection[Rule]) -> Facts:
        """The stored facts of removed explicit facts, and those that removed rules derive."""
        explicit = ((stored(name), self._classes.normalise(rows)) for name, rows in removed.items())
        rules = chain.from_iterable(self._equality_rules.of.get(rule, ()) for rule in lost)
        derived = ((rule.head.predicate, Rows(*self._engine.plans.answer(rule))) for rule in rules)
        facts = united(chain(explicit, derived))
        return {name: rows for name, rows in facts.items() if name in self._equality_rules.arities}

    def _search(self, suspect: Facts) -> None:
        """Check these facts and all facts that may be lost with them."""
        suspect = self.relations.add(SUSPECT, suspect)
        while suspect:
            self._prove(suspect)
            lost = _nonempty((name, self._unproved(name, rows)) for name, rows in suspect.items())
            affected = united(chain(self._mentioning(lost), self._following(lost)))
            self.relations.add(PROCESSED, suspect)
            suspect = self.relations.add(SUSPECT, affected)
            self._examined += _count(affected)

    def _following(self, lost: Facts) -> Found:
        """The facts that rules derive from facts that are lost, at least in part."""
        for name, rows in lost.items():
            self.relations.replace_all(LOST, name, rows)
        for source, head, query in chain.from_iterable(self._forwards[rule] for rule in self._rules):
            if source in lost:
                yield head, query.rows(self._check)

    def _mentioning(self, lost: Facts) -> Found:
        """The facts that mention a class that is lost, at least in part."""
        owners = self._classes.several(lost[EQUALITIES].columns[0]) if EQUALITIES in lost else NONE
        if len(owners):
            self.relations.replace_all(GIVEN, CONSTANTS, Rows((owners,), len(owners)))
            for name, query in self._mentions:
                yield name, query.rows(self._check)

    # ---- Algorithm 4: from checked facts (C) to those that may prove them

    def _prove(self, facts: Facts) -> None:
        """Search for proofs of these facts, and of all facts that their proofs need."""
        new_facts = self.relations.add(CHECKED, facts)
        waiting: Waiting = {}
        checked = [new_facts]
        while new_facts or waiting:
            self._saturation.extend(new_facts)
            waiting |= {(name, 0): rows for name, rows in new_facts.items()}
            waiting = _nonempty((key, self._unproved(key[0], rows)) for key, rows in waiting.items())
            body_facts = united(chain.from_iterable(self._step(*key, rows) for key, rows in waiting.items()))
            waiting = {
                (name, position + 1): rows
                for (name, position), rows in waiting.items()
                if position < len(self._steps[name])
            }
            self._examined += _count(body_facts)
            new_facts = self.relations.add(CHECKED, body_facts)
            checked.append(new_facts)
        self._disprove(united(chain.from_iterable(each.items() for each in checked)))

    def _unproved(self, name: str, rows: Rows) -> Rows:
        """The facts that represent some fact that is not proved."""
        combinations, proved = self._saturation.proved(name, rows)
        return select(rows, proved != combinations)

    def _step(self, name: str, position: int, rows: Rows) -> Found:
        """The facts of one kind of proofs: equalities that replace arguments (0), or bodies of one rule."""
        if position:
            yield from self._steps[name][position - 1].facts(rows)
            return
        owners = self._classes.several(np.concatenate([NONE, *rows.columns]))
        pairs = Rows((owners, owners), len(owners))
        yield EQUALITIES, select(pairs, ~self.relations.contains(DISPROVED, EQUALITIES, pairs))

    def _disprove(self, checked: Facts) -> None:
        """Mark checked facts without any proved fact among those they represent as disproved (S)."""
        disproved = (
            (name, select(rows, self._saturation.proved(name, rows)[1] == 0))
            for name, rows in checked.items()
        )
        self.relations.add(DISPROVED, _nonempty(disproved))


class BackwardRule:
    """A rule over representatives, read from given heads to the bodies of its instances."""

    def __init__(self, rule: Rule, relations: WorkRelations, check: Check) -> None:
        self.head = rule.head.predicate
        self._atoms = tuple(stored_atoms(rule))
        self._variables = tuple(dict.fromkeys(chain.from_iterable(map(literal_variables, self._atoms))))
        self._relations = relations
        self._check = check
        bound = set(literal_variables(rule.head))
        undisproved = (Negation(relations.atom(DISPROVED, atom)) for atom in self._atoms)
        body = (
            relations.atom(GIVEN, rule.head),
            *(assigned_or_tested(each, bound) for each in rule.body),
            *undisproved,
        )
        self._query = BoundQuery(self._variables, body, relations)

    def facts(self, heads: Rows) -> Found:
        """Return the body facts of the instances with these heads, without disproved ones."""
        self._relations.replace_all(GIVEN, self.head, heads)
        rows = self._query.rows(self._check)
        columns = dict(zip(self._variables, rows.columns, strict=True))
        identity = self._relations.engine.storage.dictionary.encode
        for atom in self._atoms:
            fact_columns = (
                np.full(rows.count, identity(term.value), np.int32)
                if isinstance(term, Constant)
                else columns[term]
                for term in atom.terms
            )
            yield atom.predicate, distinct([Rows(tuple(fact_columns), rows.count)])


def _consequences(rule: Rule, relations: WorkRelations) -> Iterator[tuple[str, str, BoundQuery]]:
    """Yield the relation of each atom, that of the head, and the query for heads of lost facts of the atom.

    The facts of other atoms are not processed yet, and those of earlier atoms not lost, so that each instance
    is found once.
    """
    atoms = tuple(stored_atoms(rule))
    for position, atom in enumerate(atoms):
        rest = (literal for literal in rule.body if literal is not atom)
        earlier = (Negation(relations.atom(LOST, each)) for each in atoms[:position])
        others = (each for number, each in enumerate(atoms) if number != position)
        unprocessed = (Negation(relations.atom(PROCESSED, each)) for each in others)
        body = (relations.atom(LOST, atom), *rest, *earlier, *unprocessed)
        yield atom.predicate, rule.head.predicate, BoundQuery(rule.head.terms, body, relations)


def _mentions(arities: Mapping[str, int], relations: WorkRelations) -> Iterator[tuple[str, BoundQuery]]:
    """Yield a query for each column of a relation: its unprocessed facts that have a given constant there."""
    for name, arity in arities.items():
        terms = tuple(Variable(f"x{position}") for position in range(arity))
        atom = Atom(name, terms)
        unprocessed = Negation(relations.atom(PROCESSED, atom))
        for term in terms if name != ALIAS else ():
            given = relations.atom(GIVEN, Atom(CONSTANTS, (term,)))
            yield name, BoundQuery(terms, (given, atom, unprocessed), relations)


# ---- line 40: the explicit facts that a checked fact represents
#
# The members of one argument's class lead to explicit facts that mention them there; those that have the
# right representatives in the other positions are the result. Of all arguments, the one is chosen by which
# the fewest explicit facts are expected; a constant that represents itself is the only member of its class.


class ExplicitMembers:
    """The explicit facts that stored facts represent; `predicates` are those of the stored relations."""

    def __init__(self, predicates: Mapping[str, str], relations: WorkRelations, check: Check) -> None:
        self._predicates = predicates
        self._relations = relations
        self._engine = relations.engine
        self._check = check
        relations.define(GIVEN, CONSTANTS, 1)
        self._queries: dict[tuple[str, int], BoundQuery] = {}

    def explicit(self, name: str, rows: Rows, classes: Classes, removed: Mapping[str, Rows]) -> Rows:
        """The explicit facts, without removed ones, that checked rows of a stored relation represent."""
        predicate = self._predicates.get(name)
        if predicate is None or not self._engine.storage.size(predicate):
            return Rows((NONE,) * len(rows.columns), 0)
        facts = distinct([self._themselves(predicate, rows), *self._of_classes(name, rows, classes)])
        deleted = removed.get(predicate)
        return facts if deleted is None else without(facts, deleted)

    def _themselves(self, predicate: str, rows: Rows) -> Rows:
        """The rows that are explicit facts themselves."""
        return select(rows, self._engine.storage.row_flags(predicate, rows.columns, rows.count) != 0)

    def _of_classes(self, name: str, rows: Rows, classes: Classes) -> Iterator[Rows]:
        """The explicit facts that rows with classes of several members represent."""
        sizes = np.array([classes.sizes(column) for column in rows.columns], np.int64)
        several = (sizes > 1).any(axis=0) if len(sizes) else np.zeros(rows.count, np.bool_)
        if not several.any():
            return
        predicate = self._predicates[name]
        total = self._engine.storage.size(predicate)
        mentions = [
            total / self._engine.storage.distinct(predicate, position) for position in range(len(sizes))
        ]
        best_position = (sizes * np.array(mentions)[:, None]).argmin(axis=0)
        for position in np.unique(best_position[several]).tolist():
            owners = rows.columns[position][several & (best_position == position)]
            members = classes.members_of(owners)
            self._relations.replace_all(GIVEN, CONSTANTS, Rows((members,), len(members)))
            candidates = self._mentioning(predicate, position, len(sizes)).rows(self._check)
            yield select(candidates, self._relations.contains(CHECKED, name, classes.normalise(candidates)))

    def _mentioning(self, predicate: str, position: int, arity: int) -> BoundQuery:
        """The query for the explicit facts that have one of the given constants at a position."""
        query = self._queries.get((predicate, position))
        if query is None:
            terms = tuple(Variable(f"x{number}") for number in range(arity))
            given = self._relations.atom(GIVEN, Atom(CONSTANTS, (terms[position],)))
            query = BoundQuery(terms, (given, Atom(predicate, terms)), self._relations)
            self._queries[predicate, position] = query
        return query


# ---- Algorithms 5 to 7: facts derived from checked facts only
#
# Each class of γ begins with one constant; classes are merged as equalities are proved. Whether all or none
# of what a fact represents is proved is decided by counting: the proved facts, out of all combinations of γ's
# representatives.


class Saturation:
    """Algorithms 5 to 7: the proved facts (P) of one search after another, by the source rules."""

    def __init__(
        self, rules: Iterable[Rule], relations: WorkRelations, renaming: Renaming, check: Check
    ) -> None:
        self._relations = relations
        self._engine = relations.engine
        self._renaming = renaming
        self._check = check
        self._own = frozenset(relations.relation(PROVED, name) for name in relations.arities)
        self._source_rules = {rule: self._prepared(rule, {}) for rule in rules}
        self._constants = {rule: _constants_of(rule) for rule in rules}
        heads = (each.head.predicate for rule in self._source_rules for each in positive_rules(rule, {}))
        self._heads = tuple(name for name in dict.fromkeys(heads) if name in relations.arities)
        self.matches = 0  # instances of rules that were found

    def begin(self, lost: Collection[Rule], former: Classes, explicit: ExplicitFactsOf) -> None:
        """Begin without proved facts; `former` are the classes of the stored facts, `lost` rules to omit."""
        self.classes = Classes()
        self._former = former
        self._explicit = explicit
        self._delayed: Facts = {}
        self._read_counts = dict.fromkeys(self._heads, 0)  # how many derived facts were read
        self._rules = {rule: rules for rule, rules in self._source_rules.items() if rule not in lost}
        self._renamed: dict[Rule, Constants] = {rule: {} for rule in self._rules}
        self._with_new: set[str] = set()  # the relations that have facts which are new in this round
        for prepared in chain.from_iterable(self._rules.values()):
            prepared.refresh_plans()

    # ---- Algorithm 5: saturate

    def extend(self, checked: Facts) -> None:
        """Prove the facts that follow when these facts are also checked."""
        inserted = united(
            chain(
                ((name, self._explicit(name, rows)) for name, rows in checked.items()),
                ((name, self._checked_now(name)) for name in checked if name in self._delayed),
            )
        )
        with_keys = EQUALITIES in checked  # equalities by keys were skipped until now
        while inserted or with_keys:
            while moved := self._merge(inserted, with_keys):
                inserted = united(chain(inserted.items(), self._rewrite(moved)))
            with_keys = False
            inserted = self._derive(self._enter(inserted))

    def _checked_now(self, name: str) -> Rows:
        """Take the delayed facts (Y) that are checked by now."""
        delayed = self._delayed.pop(name)
        checked = self._is_checked(name, delayed)
        if not checked.all():
            self._delayed[name] = select(delayed, ~checked)
        return select(delayed, checked)

    def _is_checked(self, name: str, rows: Rows) -> npt.NDArray[np.bool_]:
        return self._relations.contains(CHECKED, name, self._former.normalise(rows))

    def _enter(self, inserted: Facts) -> set[str]:
        """Add proved facts; return the relations that have new ones."""
        self._engine.rounds.mark_all_old(self._with_new)
        with_new = self._with_new = set()
        for name, rows in inserted.items():
            normalised = rows if name == ALIAS else united([(name, self.classes.normalise(rows))])[name]
            self._relations.enter(PROVED, name, normalised)
            relation = self._relations.relation(PROVED, name)
            if self._engine.rounds.advance([relation]):
                with_new.add(relation)
        return with_new

    def _derive(self, with_new: set[str]) -> Facts:
        """Derive from new proved facts; return checked facts, and delay the others."""
        for prepared in chain.from_iterable(self._rules.values()):
            matches_before = prepared.matches
            prepared.run(with_new, self._check)
            self.matches += prepared.matches - matches_before
        return self._take_derived()

    def _take_derived(self) -> Facts:
        """The checked facts that rules have derived since the last call; the others are delayed."""
        facts = {}
        for name in self._heads:
            relation = self._relations.relation(FOUND, name)
            first = self._read_counts[name]
            rows = Rows(*self._engine.rounds.rows_since(relation, first))
            if rows.count:
                self._read_counts[name] = first + rows.count
                checked = self._is_checked(name, rows)
                self._delay(name, select(rows, ~checked))
                facts[name] = select(rows, checked)
        return {name: rows for name, rows in facts.items() if rows.count}

    def _delay(self, name: str, rows: Rows) -> None:
        if rows.count:
            delayed = self._delayed.get(name)
            self._delayed[name] = rows if delayed is None else concatenate([delayed, rows])

    # ---- Algorithm 6: rewrite

    def _merge(self, inserted: Facts, with_keys: bool) -> MovedConstants:
        """Merge the classes that inserted facts make equal, with `is_open` also those that older facts do."""
        pairs = [self.classes.normalise(inserted[EQUALITIES]).columns] if EQUALITIES in inserted else []
        groups = (name for name in self._relations.arities if name.endswith(GROUP))
        pairs += [self._by_keys(name, inserted) for name in groups if with_keys or name in inserted]
        left, right = (
            np.concatenate([np.zeros(0, np.int32), *(pair[side] for pair in pairs)]) for side in (0, 1)
        )
        differ = left != right
        return self.classes.merge(left[differ], right[differ])

    def _by_keys(self, name: str, inserted: Facts) -> Pairs:
        """Pairs that connect constants with a common key, where their equality is checked."""
        proved = Rows(*self._engine.storage.rows(self._relations.relation(PROVED, name)))
        rows = concatenate([proved, self.classes.normalise(inserted[name])]) if name in inserted else proved
        owners = self._former.representatives(rows.columns[-1])
        checked = self._relations.contains(CHECKED, EQUALITIES, Rows((owners, owners), rows.count))
        return neighbours(select(rows, checked))

    def _rewrite(self, moved: MovedConstants) -> Iterable[tuple[str, Rows]]:
        """Delete the proved facts with constants that are no longer representatives; yield them rewritten."""
        for name in self._relations.arities:
            if name == ALIAS:
                continue
            relation = self._relations.relation(PROVED, name)
            rows = Rows(*self._engine.storage.rows(relation))
            outdated = np.zeros(rows.count, np.bool_)
            for column in rows.columns:
                outdated |= self.classes.representatives(column) != column
            if outdated.any():
                former = select(rows, outdated)
                current = self.classes.normalise(former)  # copied: the relation's memory is used again
                self._engine.storage.remove(relation, former.columns, former.count)
                self._engine.rounds.mark_all_old([relation])
                yield name, current
        yield from self._realias(moved)
        self._rename_constants()

    def _realias(self, moved: MovedConstants) -> Iterable[tuple[str, Rows]]:
        """Do the same for the pairs of member and representative, if rules read them."""
        if ALIAS in self._relations.arities:
            relation = self._relations.relation(PROVED, ALIAS)
            self._engine.storage.remove(relation, moved.removed.columns, moved.removed.count)
            self._engine.rounds.mark_all_old([relation])
            yield ALIAS, moved.added

    def _rename_constants(self) -> None:
        """Replace constants in rules by representatives; run changed rules over all proved facts."""
        for rule, former in self._renamed.items():
            values = self._constants[rule]
            constants = self._renaming(values, self.classes) if values else {}
            if constants != former:
                self._renamed[rule] = constants
                self._rules[rule] = self._prepared(rule, constants)
                for prepared in self._rules[rule]:
                    run_once(prepared.rule, self._engine)

    # ---- source rules over proved facts

    def _prepared(self, rule: Rule, constants: Constants) -> list[PreparedRule]:
        """Prepare a source rule as rules over proved facts."""
        return [
            PreparedRule(self._over_proved(each), self._own, self._engine)
            for each in positive_rules(rule, constants)
            if each.head.predicate in self._relations.arities
        ]

    def _over_proved(self, rule: Rule) -> Rule:
        head = self._relations.atom(FOUND, rule.head)
        return Rule(head, tuple(map(self._literal_over_proved, rule.body)))

    def _literal_over_proved(self, literal: Literal) -> Literal:
        match literal:
            case Atom():
                return self._relations.atom(PROVED, literal)
            case Negation(atom):
                return Negation(self._relations.atom(PROVED, atom))
        return literal

    # ---- proofs of stored facts

    def proved(self, name: str, rows: Rows) -> tuple[Counts, Counts]:
        """How many facts over γ each stored fact represents, and how many of these are proved."""
        proved = Rows(*self._engine.storage.rows(self._relations.relation(PROVED, name)))
        codes = codes_of(concatenate([rows, self._former.normalise(proved)]))
        distinct_codes, positions = np.unique(codes, return_inverse=True)
        counts = np.bincount(positions[rows.count :], minlength=len(distinct_codes))
        return self._combinations(rows), counts[positions[: rows.count]]

    def _combinations(self, rows: Rows) -> Counts:
        """How many facts over γ's representatives each row represents."""
        product = np.ones(rows.count, np.int64)
        for column in rows.columns:
            owners, positions = np.unique(column, return_inverse=True)
            product *= self._parts(owners)[positions]
        return product

    def _parts(self, owners: Ids) -> Counts:
        """The number of classes of γ in which the members of each class lie."""
        counts = np.ones(len(owners), np.int64)
        members, sizes = self._former.grouped(owners)
        if len(members) > len(owners):
            positions = np.repeat(np.arange(len(owners)), sizes)
            pairs = np.unique((positions << 32) | self.classes.representatives(members))
            with_several, part_counts = np.unique(pairs >> 32, return_counts=True)
            counts[with_several] = part_counts
        return counts


def _constants_of(rule: Rule) -> tuple[Value, ...]:
    """The constants in atoms of a rule."""
    terms = chain.from_iterable(atom.terms for atom in (rule.head, *rule.positive))
    return tuple(dict.fromkeys(term.value for term in terms if not isinstance(term, Variable)))


Key = TypeVar("Key")


def _nonempty(facts: Iterable[tuple[Key, Rows]]) -> dict[Key, Rows]:
    return {key: rows for key, rows in facts if rows.count}


def _count(facts: Facts) -> int:
    return sum(rows.count for rows in facts.values())
