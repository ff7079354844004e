"""Factoring: linear recursion under a binding keeps where it began, not every pair on the way.

Naughton, Ramakrishnan, Sagiv, Ullman: Argument Reduction by Factoring, VLDB 1989. Kemp, Ramamohanarao,
Somogyi: Right-, Left-, and Multi-Linear Rule Transformations that Maintain Context Information, VLDB 1990:
with the context kept, several bindings may be requested in one program.

A recursive rule is *right-linear* under a binding if its recursive atom takes the free arguments of the
head as they are: `path(x, z) :- edge(x, y), path(y, z)` with `x` bound. Plain magic sets derive every pair
that lies on the way. It is enough to know what is demanded on behalf of what, the *context*: from there the
rules that end the recursion give the answers. Where the steps are the same as the ends, as in a closure,
the answers are the context: `path(s, z) :- path(s, y), edge(y, z)`.

A rule is *left-linear* if its recursive atom takes the bound arguments as they are; magic sets do well there.

Invariant: the predicate has the same facts as before for every binding that is demanded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tidelog.logic.program import (
    Assignment,
    Atom,
    Literal,
    Negation,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.strata import strata
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import PAIR, ClosureKind, ClosureModule, recognise
from tidelog.rewrite.renaming import renamed_rule

EXTERNAL = "external"  # names the relation of a closure's external facts
BOTH_WAYS = "both ways"  # the same, forth and back
MIDDLE = Variable("m")


@dataclass(frozen=True, slots=True)
class Guarded:
    """A rule to be: its body is requested for the bindings in the guard; the guard is not requested."""

    head: Atom
    guard: Atom | None
    body: tuple[Literal, ...]
    rule: Rule  # the original


@dataclass(frozen=True, slots=True)
class Binding:
    """The positions of a predicate's arguments that are bound, and of those that are free."""

    bound: tuple[int, ...]
    free: tuple[int, ...]

    @staticmethod
    def of(adornment: str) -> Binding:
        """Return the binding of an adornment.

        >>> Binding.of("bfb")
        Binding(bound=(0, 2), free=(1,))
        """
        positions = [position for position, mark in enumerate(adornment) if mark == "b"]
        return Binding(
            tuple(positions),
            tuple(position for position in range(len(adornment)) if position not in positions),
        )

    def bound_terms(self, atom: Atom) -> tuple[Term, ...]:
        """The arguments at the bound positions."""
        return tuple(atom.terms[position] for position in self.bound)

    def free_terms(self, atom: Atom) -> tuple[Term, ...]:
        """The arguments at the free positions."""
        return tuple(atom.terms[position] for position in self.free)

    def join(self, bound: Sequence[Term], free: Sequence[Term]) -> tuple[Term, ...]:
        """Return the arguments in order, from the bound and the free ones."""
        at = {**dict(zip(self.bound, bound, strict=True)), **dict(zip(self.free, free, strict=True))}
        return tuple(at[position] for position in sorted(at))


@dataclass(frozen=True, slots=True)
class _Step:
    """A recursive rule: its recursive atom, and all else in the body."""

    rule: Rule
    call: Atom
    rest: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """The rules of a predicate that recurs linearly under a binding."""

    ends: tuple[Rule, ...]
    right: tuple[_Step, ...]
    left: tuple[_Step, ...]


def factor(
    predicate: str, rules: Sequence[Rule], adornment: str, adorned: str, magic: str, context: str
) -> tuple[Guarded, ...] | None:
    """The rules of an adorned predicate that recurs right-linearly, factored; None if it does not.

    `adorned`, `magic` and `context` are the names of its relations.
    """
    binding = Binding.of(adornment)
    shape = _shape(predicate, rules, binding) if binding.bound and binding.free else None
    if shape is None or not shape.right:
        return None
    if not shape.left and _steps_are_ends(shape, binding):
        return tuple(_closure(shape, binding, adorned, magic))
    return tuple(_contextual(shape, binding, adorned, magic, context))


def relaxed(predicate: str, rules: Sequence[Rule], adornment: str, ages: Sequence[int]) -> str:
    """The adornment; if it binds everything and the recursion passes arguments on unchanged, a weaker one.

    To decide whether one node reaches another it is as good to know all that the one reaches, or all that
    reaches the other. Of the two, the arguments stay bound that were bound earlier according to `ages`:
    there are fewer of them.
    """
    steps = [_step(predicate, rule) for rule in rules if _calls(predicate, rule)]
    if "f" in adornment or not steps:
        return adornment
    positions = range(len(adornment))
    carried = {
        position
        for position in positions
        if all(step is not None and _is_carried(step, position) for step in steps)
    }
    sides = (carried, set(positions) - carried)
    if not all(sides) or any(rule.aggregations for rule in rules):
        return adornment
    still_bound = min(sides, key=lambda side: (max(ages[position] for position in side), min(side)))
    weaker = "".join("b" if position in still_bound else "f" for position in positions)
    return weaker if _shape(predicate, rules, Binding.of(weaker)) is not None else adornment


# ---- closures whose rules are not linear


def linearise(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules with those closures made right-linear that join the predicate with itself.

    The closure of a predicate is that of its external facts, of which each path takes one more at a time. A
    closure without any, such as equality after its last explicit fact was deleted, is empty and stays as it
    is.
    """
    rules = tuple(rules)
    modules = [module for stratum in strata(rules) if (module := recognise(stratum)) is not None]
    replacements = {
        rule: replacement
        for module in modules
        if module.external_rules and not module.is_linear
        for rule, replacement in _linear(module).items()
    }
    return tuple(
        dict.fromkeys(replacement for rule in rules for replacement in replacements.get(rule, (rule,)))
    )


def _linear(module: ClosureModule) -> dict[Rule, tuple[Rule, ...]]:
    """Map each rule of a closure to its right-linear replacements."""
    first, *others = module.owned_rules
    replacements: dict[Rule, tuple[Rule, ...]] = dict.fromkeys(others, ())
    source = module.copied
    if source is None:
        source = f"{module.predicate} {EXTERNAL}"
        replacements.update(
            {rule: (replace(rule, head=Atom(source, rule.head.terms)),) for rule in module.external_rules}
        )
    else:
        replacements.update(dict.fromkeys(module.external_rules, ()))
    symmetric_rules: list[Rule] = []
    if module.kind is ClosureKind.EQUIVALENCE:
        symmetric = f"{module.predicate} {BOTH_WAYS}"
        symmetric_rules += [Rule(Atom(symmetric, PAIR), (Atom(source, ends),)) for ends in (PAIR, PAIR[::-1])]
        source = symmetric
    head = Atom(module.predicate, PAIR)
    step = (Atom(source, (PAIR[0], MIDDLE)), Atom(module.predicate, (MIDDLE, PAIR[1])))
    replacements[first] = (
        *symmetric_rules,
        Rule(head, (Atom(source, PAIR),)),
        replace(first, head=head, body=step),
    )
    return replacements


# ---- shapes


def _shape(predicate: str, rules: Sequence[Rule], binding: Binding) -> _Shape | None:
    """Sort the rules by their form of recursion; return None if one has another form."""
    ends, right, left = [], [], []
    for rule in rules:
        if rule.aggregations:
            return None
        if not _calls(predicate, rule):
            ends.append(rule)
            continue
        step = _step(predicate, rule)
        if step is not None and _is_right_linear(step, binding):
            right.append(step)
        elif step is not None and all(_is_carried(step, position) for position in binding.bound):
            left.append(step)
        else:
            return None
    return _Shape(tuple(ends), tuple(right), tuple(left))


def _calls(predicate: str, rule: Rule) -> bool:
    return predicate in rule.read


def _step(predicate: str, rule: Rule) -> _Step | None:
    """The rule with its one recursive atom, None if it has several."""
    calls = [atom for atom in rule.positive if atom.predicate == predicate]
    if len(calls) != 1:
        return None
    return _Step(rule, calls[0], tuple(literal for literal in rule.body if literal != calls[0]))


def _is_carried(step: _Step, position: int) -> bool:
    """Whether the recursive atom has the head's variable at a position, and nothing else reads it."""
    head, call = step.rule.head.terms[position], step.call.terms[position]
    occurrences = Counter(
        variable for literal in (step.rule.head, *step.rule.body) for variable in literal_variables(literal)
    )
    return isinstance(head, Variable) and head == call and occurrences[head] == 2


def _is_right_linear(step: _Step, binding: Binding) -> bool:
    """Whether free arguments are carried along, and all others known before the recursive atom is matched."""
    if not all(_is_carried(step, position) for position in binding.free):
        return False
    available = {term for term in binding.bound_terms(step.rule.head) if isinstance(term, Variable)}
    available |= set(_bound_by(step.rest))
    requested = {term for term in binding.bound_terms(step.call) if isinstance(term, Variable)}
    rest_variables = {
        variable
        for literal in step.rest
        if not isinstance(literal, Negation)
        for variable in literal_variables(literal)
    }
    return requested <= available and rest_variables <= available


def _bound_by(body: Iterable[Literal]) -> Iterator[Variable]:
    """The variables that atoms and computations bind."""
    for literal in body:
        if isinstance(literal, Atom):
            yield from literal_variables(literal)
        elif isinstance(literal, Assignment):
            yield literal.variable


def _steps_are_ends(shape: _Shape, binding: Binding) -> bool:
    """Whether the recursive steps and the exit rules read the same relation."""
    if len(binding.bound) != len(binding.free):
        return False
    ends = {
        _canonical(binding.bound_terms(rule.head), binding.free_terms(rule.head), rule.body)
        for rule in shape.ends
    }
    steps = {
        _canonical(binding.bound_terms(step.rule.head), binding.bound_terms(step.call), step.rest)
        for step in shape.right
    }
    return ends == steps


def _canonical(first: Sequence[Term], last: Sequence[Term], body: tuple[Literal, ...]) -> Rule:
    """A body between two lists of terms, its variables numbered by appearance."""
    rule = Rule(Atom("", (*first, *last)), body)
    literals = (rule.head, *body)
    variables = dict.fromkeys(variable for literal in literals for variable in literal_variables(literal))
    return renamed_rule(rule, {each: Variable(str(number)) for number, each in enumerate(variables)})


# ---- factored rules


def _closure(shape: _Shape, binding: Binding, adorned: str, magic: str) -> Iterator[Guarded]:
    """Answers that are their own context."""
    for rule in shape.ends:
        guard = Atom(magic, binding.bound_terms(rule.head))
        yield Guarded(Atom(adorned, rule.head.terms), guard, rule.body, rule)
    for rule in shape.ends:
        begin = fresh(rule, len(binding.bound))
        guard = Atom(adorned, binding.join(begin, binding.bound_terms(rule.head)))
        head = Atom(adorned, binding.join(begin, binding.free_terms(rule.head)))
        yield Guarded(head, guard, rule.body, rule)


def _contextual(shape: _Shape, binding: Binding, adorned: str, magic: str, context: str) -> Iterator[Guarded]:
    """The rules of the context, which relates demands to their origin, and of the answers from it."""
    rule = shape.right[0].rule
    begin = fresh(None, len(binding.bound))
    yield Guarded(Atom(context, (*begin, *begin)), Atom(magic, begin), (), Rule(rule.head, ()))
    for step in shape.right:
        rule = step.rule
        begin = fresh(rule, len(binding.bound))
        guard = Atom(context, (*begin, *binding.bound_terms(rule.head)))
        yield Guarded(Atom(context, (*begin, *binding.bound_terms(step.call))), guard, step.rest, rule)
    for rule in shape.ends:
        begin = fresh(rule, len(binding.bound))
        guard = Atom(context, (*begin, *binding.bound_terms(rule.head)))
        head = Atom(adorned, binding.join(begin, binding.free_terms(rule.head)))
        yield Guarded(head, guard, rule.body, rule)
    for step in shape.left:
        guard = Atom(adorned, step.call.terms)
        yield Guarded(Atom(adorned, step.rule.head.terms), guard, step.rest, step.rule)


def fresh(rule: Rule | None, count: int) -> tuple[Variable, ...]:
    """Return `count` variables that a rule does not have."""
    literals = () if rule is None else (rule.head, *rule.body)
    used = {variable.name for literal in literals for variable in literal_variables(literal)}
    names = (f"from{number}" if number else "from" for number in range(count + len(used) + 1))
    free = [name for name in names if name not in used]
    return tuple(Variable(name) for name in free[:count])
