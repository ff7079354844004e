"""Magic sets: a program that derives only the facts that queries request.

Bancilhon, Maier, Sagiv, Ullman: Magic Sets and Other Strange Ways to Implement Logic Programs, PODS 1986.
Beeri, Ramakrishnan: On the Power of Magic, PODS 1987, for supplementary predicates. Kasesalu: Revisiting
Query Magic, Tartu 2025, sections 2.6.3 and 3.1.1, whose Appendix A, corrected, is among the tests.

Each derived predicate becomes one for every pattern in which it is requested, its *adornment*: `tc bf` is
`tc` with its first argument bound. `magic tc bf` holds the requested bindings. Bodies are ordered by
`rewrite.auxiliary_relations`; where a join would be repeated in the rules that pass bindings on, it becomes
a separate relation. Linear recursion is factored (`rewrite.factoring`).

Negation and aggregates: what is negated, or aggregated over, is requested like anything else, with the
bindings that the positive literals before it give, and is complete for these. If a request then depends on
what negates or aggregates, the rewritten program is not stratified: such a predicate, and all that it depends
on, is requested in full instead and listed in `Rewritten.in_full`. Arguments that hold aggregates are never
bound.

Invariant: a query has the same answers as over the whole program; an adorned predicate has only facts that
agree with one of its bindings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace

from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Constant,
    Fact,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.logic.strata import components, dependency_graph, entangled, strata
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import Cost, Passing, recognise, unknown_sizes
from tidelog.rewrite.factoring import Binding, Guarded, factor, linearise, relaxed
from tidelog.rewrite.renaming import Adorned, AdornedKind, relation_name, renamed_rule, with_predicates

EXPLICIT_SUFFIX = " stated"  # suffix of a derived predicate's name that denotes its explicit facts
FEWEST_JOINED = 2  # atoms whose join is worth a separate relation


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Rules that derive the answers of queries, and their initial bindings."""

    rules: tuple[Rule, ...]
    seeds: tuple[Fact, ...]
    relations: Mapping[str, Adorned]  # describes each relation that the rewriting added
    in_full: Mapping[str, str]  # the predicates requested in full for the sake of strata, and why

    def apart(self, mark: str) -> Rewritten:
        """Return the same with a mark appended to the names of all its relations."""
        names = {name: f"{name} {mark}" for name in self.relations}
        return Rewritten(
            tuple(with_predicates(rule, names) for rule in self.rules),
            tuple(replace(seed, predicate=names[seed.predicate]) for seed in self.seeds),
            {names[name]: relation for name, relation in self.relations.items()},
            self.in_full,
        )


@dataclass(frozen=True, slots=True)
class MagicOptions:
    """The options of the rewriting.

    `explicit` are derived predicates that may have explicit facts too, `given` relations of bindings: an atom
    of these in a query is matched first. Without `refined`, closures are left as they are, nothing is
    factored, and no guard is left out.
    """

    explicit: frozenset[str] = frozenset()
    cost: Cost = unknown_sizes
    given: frozenset[str] = frozenset()
    refined: bool = True


DEFAULT = MagicOptions()


def rewrite(rules: Sequence[Rule], queries: Sequence[Rule], options: MagicOptions = DEFAULT) -> Rewritten:
    """Return the rules that answer the queries, whose heads are the relations of the answers.

    In these rules the name of a derived predicate denotes its explicit facts only.
    """
    source = _Source.of(rules, options)
    in_full: dict[str, str] = {}
    unbound: set[str] = set()
    while True:
        rewriting = _Rewriting(source, options, in_full, unbound)
        rewriting.answer(queries)
        if rewriting.requested_unbound() - unbound:
            unbound |= rewriting.requested_unbound()
            continue
        blamed = rewriting.blamed()
        if not blamed:
            return rewriting.rewritten()
        for predicate, reason in blamed.items():
            in_full.update({each: reason for each in source.below(predicate) if each not in in_full})


def is_closed(predicate: str, rules: Sequence[Rule], explicit: Collection[str]) -> bool:
    """Whether a predicate is transitive, its explicit facts included if it may have any."""
    heads = [rule.head for rule in rules if rule.head.predicate == predicate]
    if not heads:
        return False
    explicit_rules = (reading_explicit(predicate, len(heads[0].terms)),) if predicate in explicit else ()
    for stratum in strata((*rules, *explicit_rules)):
        if predicate in stratum.predicates:
            return recognise(stratum) is not None
    return False


@dataclass(frozen=True, slots=True)
class _Source:
    """The program to rewrite: separate rules read the explicit facts of derived predicates."""

    rules_of: Mapping[str, tuple[Rule, ...]]
    graph: Mapping[str, tuple[str, ...]]
    component_of: Mapping[str, frozenset[str]]
    bindable: Mapping[str, frozenset[int]]  # the arguments of a predicate that no rule aggregates

    @staticmethod
    def of(rules: Sequence[Rule], options: MagicOptions) -> _Source:
        arities = {rule.head.predicate: len(rule.head.terms) for rule in rules}
        explicit = sorted(options.explicit & arities.keys())
        explicit_rules = [reading_explicit(name, arities[name]) for name in explicit]
        all_rules = tuple(dict.fromkeys(map(substituted, (*rules, *explicit_rules))))
        if options.refined:
            all_rules = linearise(all_rules)
        rules_of: dict[str, tuple[Rule, ...]] = {}
        for rule in all_rules:
            rules_of[rule.head.predicate] = (*rules_of.get(rule.head.predicate, ()), rule)
        graph = dependency_graph(all_rules)
        return _Source(
            rules_of,
            graph,
            {name: frozenset(names) for names in components(graph) for name in names},
            {name: _bindable(rules_of_name) for name, rules_of_name in rules_of.items()},
        )

    def below(self, predicate: str) -> list[str]:
        """Return the predicate and the derived ones that it depends on."""
        visited = {predicate: None}
        waiting = [predicate]
        while waiting:
            for name in self.graph[waiting.pop()]:
                if name not in visited:
                    visited[name] = None
                    waiting.append(name)
        return list(visited)


@dataclass
class _Rewriting:
    """One attempt. Mutable: it gathers rules, and the requests that these make."""

    source: _Source
    options: MagicOptions
    in_full: Mapping[str, str]
    unbound: Collection[str]  # requested without bindings by some atom: then by all
    rules: dict[Rule, None] = field(default_factory=dict)
    seeds: dict[Fact, None] = field(default_factory=dict)
    relations: dict[str, Adorned] = field(default_factory=dict)
    _waiting: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, queries: Sequence[Rule]) -> None:
        """Gather the rules that the queries need."""
        for query in queries:
            requested = substituted(query)  # the head too: an output variable may become a constant
            given = self.options.given
            atoms = (literal for literal in requested.body if isinstance(literal, Atom))
            guard = next((atom for atom in atoms if atom.predicate in given), None)
            rest = tuple(literal for literal in requested.body if literal is not guard)
            self._emit(Guarded(requested.head, guard, rest, query), frozenset())
        while self._waiting:
            predicate, adornment = self._waiting.pop(0)
            for rule in self._guarded(predicate, adornment):
                self._emit(rule, self.source.component_of[predicate])

    def rewritten(self) -> Rewritten:
        """Return the gathered rules."""
        names = {f"{name}{EXPLICIT_SUFFIX}": name for name in self.source.rules_of}
        rules = tuple(with_predicates(rule, names) for rule in self.rules)  # no head is one of explicit facts
        reasons = {name: reason for name, reason in self.in_full.items() if " " not in name}
        return Rewritten(rules, tuple(self.seeds), dict(self.relations), reasons)

    def requested_unbound(self) -> set[str]:
        """Return the predicates requested without any binding: their other relations are not needed."""
        return {
            each.predicate
            for each in self.relations.values()
            if each.kind is AdornedKind.ADORNED and "b" not in each.adornment
        }

    def blamed(self) -> dict[str, str]:
        """Return the predicates to be requested in full so that the program is stratified, and why."""
        reasons: dict[str, str] = {}
        for offence in entangled(tuple(self.rules)):
            reader = self._source_predicate(offence.head)
            if offence.strict == "#":
                reasons.setdefault(reader, "the groups that are asked for depend on it")
            else:
                predicate = self._source_predicate(offence.predicate)
                reasons.setdefault(predicate, f"what is asked of it depends on {reader}, which negates it")
        return reasons

    def _source_predicate(self, relation: str) -> str:
        adorned = self.relations.get(relation)
        return relation if adorned is None else adorned.predicate

    # ---- one adorned predicate

    def _guarded(self, predicate: str, adornment: str) -> Iterable[Guarded]:
        """The rules of an adorned predicate, each with the guard that restricts it to requested bindings."""
        rules = self.source.rules_of[predicate]
        adorned = self._name(AdornedKind.ADORNED, predicate, adornment)
        magic = self._name(AdornedKind.MAGIC, predicate, adornment)
        if self.options.refined and self.source.component_of[predicate] == {predicate}:
            context = relation_name(AdornedKind.CONTEXT, predicate, adornment)
            factored = factor(predicate, rules, adornment, adorned, magic, context)
            if factored is not None:
                self._name(AdornedKind.CONTEXT, predicate, adornment)
                return factored
        binding = Binding.of(adornment)
        return [
            Guarded(
                Atom(adorned, rule.head.terms),
                Atom(magic, binding.bound_terms(rule.head)) if binding.bound else None,
                rule.body,
                rule,
            )
            for rule in rules
        ]

    def _emit(self, rule: Guarded, recursive: Collection[str]) -> None:
        """Add a rule, and the rules that pass its bindings on."""
        passing = Passing(self.source.rules_of.keys(), recursive, self._cost)
        bound_by_guard = set() if rule.guard is None else set(literal_variables(rule.guard))
        ordered = passing.order(rule.body, bound_by_guard)
        matched: list[Literal] = [] if rule.guard is None else [rule.guard]
        ages = dict.fromkeys(bound_by_guard, 1)  # when each variable was bound
        for position, literal in enumerate(ordered):
            atom = literal.atom if isinstance(literal, Negation) else literal
            if isinstance(atom, Atom) and atom.predicate in self.source.rules_of:
                adornment = self._adornment(atom, ages)
                requested = Atom(self._request(atom.predicate, adornment), atom.terms)
                if "b" in adornment:
                    matched = self._shortened(matched, ordered[position:], rule)
                    self._pass(Binding.of(adornment).bound_terms(atom), atom.predicate, adornment, matched)
                matched.append(Negation(requested) if isinstance(literal, Negation) else requested)
            else:
                matched.append(literal)
            if not isinstance(literal, Negation):
                ages.update({each: position + 2 for each in literal_variables(literal) if each not in ages})
        body = self._without_guard(rule, matched) if self.options.refined else matched
        self.rules[replace(rule.rule, head=rule.head, body=tuple(body))] = None

    def _cost(self, atom: Atom, bound: Collection[Variable]) -> float:
        return self.options.cost(Atom(atom.predicate.removesuffix(EXPLICIT_SUFFIX), atom.terms), bound)

    def _adornment(self, atom: Atom, ages: Mapping[Variable, int]) -> str:
        """The pattern in which an atom requests its predicate."""
        predicate = atom.predicate
        if predicate in self.in_full or predicate in self.unbound:
            return "f" * len(atom.terms)
        bindable = self.source.bindable[predicate]
        marks = (
            "b" if position in bindable and (isinstance(term, Constant) or term in ages) else "f"
            for position, term in enumerate(atom.terms)
        )
        adornment = "".join(marks)
        if self.options.refined and self.source.component_of[predicate] == {predicate}:
            term_ages = [
                ages[term] if isinstance(term, Variable) and term in ages else 0 for term in atom.terms
            ]
            return relaxed(predicate, self.source.rules_of[predicate], adornment, term_ages)
        return adornment

    def _request(self, predicate: str, adornment: str) -> str:
        """The name of an adorned predicate, whose rules are scheduled if they were not before."""
        name = relation_name(AdornedKind.ADORNED, predicate, adornment)
        if name not in self.relations:
            self._name(AdornedKind.ADORNED, predicate, adornment)
            self._waiting.append((predicate, adornment))
        return name

    def _name(self, kind: AdornedKind, predicate: str, adornment: str) -> str:
        name = relation_name(kind, predicate, adornment)
        self.relations[name] = Adorned(kind, predicate, adornment)
        return name

    # ---- passing bindings on

    def _pass(
        self, terms: Sequence[Variable | Constant], predicate: str, adornment: str, matched: Sequence[Literal]
    ) -> None:
        """Request a predicate with the bindings of the literals matched so far."""
        head = Atom(self._name(AdornedKind.MAGIC, predicate, adornment), tuple(terms))
        if not matched:
            values = tuple(term.value for term in terms if isinstance(term, Constant))
            self.seeds[Fact(head.predicate, values)] = None
        elif head not in matched:
            self.rules[Rule(head, tuple(matched))] = None

    def _shortened(
        self, matched: list[Literal], following: Sequence[Literal], rule: Guarded
    ) -> list[Literal]:
        """The literals matched so far, or a supplementary relation of them if the join would be repeated."""
        joined = [literal for literal in matched if isinstance(literal, Atom) and literal != rule.guard]
        if len(joined) < FEWEST_JOINED:
            return matched
        needed = _used(following, rule)
        bound = dict.fromkeys(
            variable
            for literal in matched
            if not isinstance(literal, Negation)
            for variable in literal_variables(literal)
        )
        kept = tuple(variable for variable in bound if variable in needed)
        described = Adorned(
            AdornedKind.SUPPLEMENTARY, self._source_predicate(rule.head.predicate), "", _key(matched, kept)
        )
        self.relations[described.name] = described
        atom = Atom(described.name, kept)
        self.rules[Rule(atom, tuple(matched))] = None
        return [atom]

    def _without_guard(self, rule: Guarded, body: list[Literal]) -> list[Literal]:
        """The body without the guard if an atom of the head's relation binds the same, which is put first."""
        adorned = self.relations.get(rule.head.predicate)
        guard = rule.guard
        if adorned is None or guard is None or body[0] != guard or not self._is_magic(guard, adorned):
            return body
        binding = Binding.of(adorned.adornment)
        for position, literal in enumerate(body):
            if not isinstance(literal, Atom) or literal.predicate != rule.head.predicate:
                continue
            preceding = body[1:position]
            computed = {each.variable for each in preceding if isinstance(each, Assignment)}
            if binding.bound_terms(literal) == guard.terms and computed.isdisjoint(literal.terms):
                return [literal, *preceding, *body[position + 1 :]]
        return body

    def _is_magic(self, guard: Atom, adorned: Adorned) -> bool:
        return guard.predicate == relation_name(AdornedKind.MAGIC, adorned.predicate, adorned.adornment)


def substituted(rule: Rule) -> Rule:
    """Return the rule with variables that equal a constant replaced by it, so that it binds from the start.

    A rule that aggregates stays as it is.
    """
    if rule.aggregations:
        return rule
    while True:
        equation = next((pair for literal in rule.body if (pair := _equated(literal)) is not None), None)
        if equation is None:
            return rule
        literal, variable, constant = equation
        body = tuple(each for each in rule.body if each is not literal)
        rule = renamed_rule(replace(rule, body=body), {variable: constant})


def _equated(literal: Literal) -> tuple[Literal, Variable, Constant] | None:
    match literal:
        case Comparison("=", Variable() as variable, Constant() as constant):
            return literal, variable, constant
        case Comparison("=", Constant() as constant, Variable() as variable):
            return literal, variable, constant
        case _:
            return None


def reading_explicit(predicate: str, arity: int) -> Rule:
    """Return the rule that reads the explicit facts of a derived predicate."""
    terms = tuple(Variable(f"x{position}") for position in range(1, arity + 1))
    return Rule(Atom(predicate, terms), (Atom(predicate + EXPLICIT_SUFFIX, terms),))


def _bindable(rules: Sequence[Rule]) -> frozenset[int]:
    """The arguments that can be bound before the rules aggregate."""
    positions = range(len(rules[0].head.terms))
    return frozenset(position for position in positions if all(_is_grouped(rule, position) for rule in rules))


def _is_grouped(rule: Rule, position: int) -> bool:
    term = rule.head.terms[position]
    return not rule.aggregations or isinstance(term, Constant) or term in rule.group


def _used(literals: Iterable[Literal], guarded: Guarded) -> set[Variable]:
    """The variables that the following literals, the head or aggregates of a rule use."""
    rule = guarded.rule
    used = {variable for literal in literals for variable in literal_variables(literal)}
    used |= set(literal_variables(guarded.head)) | set(rule.group)
    return used.union(rule.aggregated)


def _key(body: Sequence[Literal], kept: Sequence[Variable]) -> str:
    """A key that is the same for the same join in any rule."""
    from hashlib import blake2b

    return blake2b(repr((tuple(body), tuple(kept))).encode(), digest_size=6).hexdigest()


# ---- a rewritten program that can be displayed and parsed again
#
# Invariant: read back and run, the program gives the answers to the queries.

MARKS = {AdornedKind.MAGIC: "magic_", AdornedKind.CONTEXT: "context_", AdornedKind.SUPPLEMENTARY: "join_"}


def readable(program: Program, rewritten: Rewritten) -> Program:
    """Return the program with the rules of the rewritten one, and their first bindings as facts."""
    names = _names(rewritten.relations, program.predicates)
    for head in dict.fromkeys(rule.head.predicate for rule in rewritten.rules):
        if " " in head and head not in names:
            names[head] = _free("answer", {*program.predicates, *names.values()})
    rules = tuple(with_predicates(rule, names) for rule in rewritten.rules)
    seeds = tuple(Fact(names[seed.predicate], seed.values) for seed in rewritten.seeds)
    arities = {atom.predicate: len(atom.terms) for rule in rules for atom in (rule.head, *rule.body_atoms)}
    arities.update({seed.predicate: len(seed.values) for seed in seeds})
    added = {
        names[name]: _predicate(names[name], arities[names[name]], relation, program.predicates)
        for name, relation in rewritten.relations.items()
        if names[name] in arities
    }
    kept = {name: predicate for name, predicate in program.predicates.items() if name in arities}
    facts = tuple(fact for fact in program.facts if fact.predicate in kept)
    imports = tuple(transfer for transfer in program.imports if transfer.predicate in kept)
    return replace(
        program,
        predicates={**kept, **added},
        rules=rules,
        facts=(*facts, *seeds),
        imports=imports,
        exports=(),
        outputs=(),
        queries=(),
    )


def _names(relations: Mapping[str, Adorned], predicates: Mapping[str, Predicate]) -> dict[str, str]:
    """A name for each relation that can be parsed and that the program does not have."""
    used = set(predicates)
    names: dict[str, str] = {}
    for name, relation in relations.items():
        names[name] = _free(_described(relation.predicate, relation), used)
        used.add(names[name])
    return names


def _described(name: str, relation: Adorned) -> str:
    """The name with the kind before its local part and the adornment after it."""
    cut = max(name.rfind(mark) for mark in ":/#") + 1
    local = name[cut:].replace(" ", "_").strip("?-_") or "answer"
    suffix = f"_{relation.adornment}" if relation.adornment else ""
    return f"{name[:cut]}{MARKS.get(relation.kind, '')}{local}{suffix}"


def _free(name: str, used: Collection[str]) -> str:
    number, free = 1, name
    while free in used:
        number += 1
        free = f"{name}_{number}"
    return free


def _predicate(name: str, arity: int, relation: Adorned, predicates: Mapping[str, Predicate]) -> Predicate:
    original = predicates.get(relation.predicate)
    written = name
    if original is not None and original.written != original.name and not original.written.startswith("<"):
        written = _described(original.written, relation)  # `ex:path` becomes `ex:path_bf`
    elif ":" in name:
        written = f"<{name}>"
    return Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, written)
