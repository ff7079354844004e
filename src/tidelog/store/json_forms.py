"""Programs, times and explanations as JSON, which is read back without loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from tidelog.errors import DataError, Diagnostic, codes
from tidelog.logic.conversions import exact, read_exact
from tidelog.logic.intervals import Interval
from tidelog.logic.program import (
    Aggregation,
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Literal,
    Metric,
    MetricNegation,
    MetricRule,
    Negation,
    Predicate,
    Program,
    Query,
    Rule,
    Sometime,
    Term,
    Throughout,
    Transfer,
    Variable,
)
from tidelog.logic.values import ColumnType
from tidelog.plan.rule_text import Writing
from tidelog.proof.explanation import Explanation, NodeKind, ProofNode, walk
from tidelog.store.forms import (
    SECTION,
    Array,
    anything,
    fields,
    many,
    named,
    natural,
    one_of,
    optional,
    row,
    text,
    truth,
)
from tidelog.temporal.horizon import Periods, Repeat
from tidelog.temporal.interval_fixpoint import PROCEDURES
from tidelog.temporal.interval_table import Timeline
from tidelog.temporal.periodic import RetentionWindow
from tidelog.temporal.temporal import TimedTableState, TimeSettings, TimeState

# ---- programs as JSON
#
# The text of a rule after resolution does not always read back as the same rule, and what it reads back as
# may change with the language. This form is of what rules consist of, and holds for all of them. A term is a
# text: `?x` a variable, anything else an exact term. An expression is a term, or a list of a function and its
# arguments. An interval is its two bounds, as fractions or null, and three flags.

Json = Any
PREDICATE = row(text, many(optional(text)), many(text), text, truth)
TRANSFER = fields(
    {
        "predicate": text,
        "format": text,
        "options": named(anything),
        "types": optional(many(text)),
        "folder": optional(text),
    }
)
QUERY = fields({"rule": anything, "variables": many(text), "text": text, "time": optional(text)})
INTERVAL = row(optional(text), optional(text), truth, truth, truth)
SURROUNDINGS = {
    "predicates": many(PREDICATE),
    "imports": many(TRANSFER),
    "exports": many(TRANSFER),
    "outputs": many(text),
    "queries": many(QUERY),
    "prefixes": named(text),
    "base": optional(text),
    "integer_time": truth,
    "parameters": named(text),
}
PROGRAM = fields({**SURROUNDINGS, "rules": many(anything)}, {"given_times": many(text)})
VARIABLE = "?"  # no exact term begins so


# ---- programs


def program_to_json(program: Program) -> dict[str, Json]:
    """Return a program without its facts."""
    return {**surroundings_to_json(program), "rules": [rule_to_json(rule) for rule in program.rules]}


def surroundings_to_json(program: Program) -> dict[str, Json]:
    """Return a program without its rules and facts."""
    return {
        "predicates": [_predicate_to_json(each) for each in program.predicates.values()],
        "imports": [_transfer_to_json(each) for each in program.imports],
        "exports": [_transfer_to_json(each) for each in program.exports],
        "outputs": list(program.outputs),
        "queries": [query_to_json(each) for each in program.queries],
        "prefixes": dict(program.prefixes),
        "base": program.base,
        "integer_time": program.is_integer_time,
        "given_times": sorted(program.given_times),
        "parameters": {name: exact(value) for name, value in program.parameters.items()},
    }


def program_of(form: Mapping[str, Json]) -> Program:
    """The program of a form with rules."""
    return with_rules(form, tuple(map(rule_of, form["rules"])))


def with_rules(form: Mapping[str, Json], rules: tuple[Rule, ...]) -> Program:
    """The program of a form, with these rules."""
    predicates = map(_predicate_of, form["predicates"])
    return Program(
        predicates={each.name: each for each in predicates},
        rules=rules,
        imports=tuple(map(_transfer_of, form["imports"])),
        exports=tuple(map(_transfer_of, form["exports"])),
        outputs=tuple(form["outputs"]),
        queries=tuple(map(query_of, form["queries"])),
        prefixes=form["prefixes"],
        base=form["base"],
        is_integer_time=form["integer_time"],
        given_times=frozenset(form.get("given_times", ())),  # there is none in the first format
        parameters={name: read_exact(text) for name, text in form["parameters"].items()},
    )


def _predicate_to_json(predicate: Predicate) -> list[Json]:
    types = [each.value for each in predicate.types]
    return [predicate.name, list(predicate.columns), types, predicate.written, predicate.declared]


def _predicate_of(form: list[Json]) -> Predicate:
    name, columns, types, written, declared = form
    if len(columns) != len(types):
        raise ValueError(f"`{name}` has {len(columns)} names and {len(types)} types of columns")
    return Predicate(name, len(types), tuple(columns), tuple(map(ColumnType, types)), written, declared)


def _transfer_to_json(transfer: Transfer) -> dict[str, Json]:
    return {
        "predicate": transfer.predicate,
        "format": transfer.format,
        "options": dict(transfer.options),
        "types": None if transfer.types is None else [each.value for each in transfer.types],
        "folder": None if transfer.folder is None else str(transfer.folder.absolute()),
    }


def _transfer_of(form: Mapping[str, Json]) -> Transfer:
    types, folder = form["types"], form["folder"]
    options = {
        name: tuple(value) if isinstance(value, list) else value for name, value in form["options"].items()
    }
    return Transfer(
        form["predicate"],
        form["format"],
        options,
        None if types is None else tuple(map(ColumnType, types)),
        None if folder is None else Path(folder),
    )


def query_to_json(query: Query) -> dict[str, Json]:
    """A query."""
    return {
        "rule": rule_to_json(query.rule),
        "variables": list(query.variables),
        "text": query.text,
        "time": query.time,
    }


def query_of(form: Mapping[str, Json]) -> Query:
    """The query of a form."""
    return Query(rule_of(form["rule"]), tuple(form["variables"]), form["text"], form["time"])


# ---- rules


def rule_to_json(rule: Rule) -> dict[str, Json]:
    """Return a rule, without empty fields."""
    form: dict[str, Json] = {
        "head": [rule.head.predicate, *map(_expression_to_json, rule.head.terms)],
        "body": [literal_to_json(literal) for literal in rule.body],
        "group": [_expression_to_json(variable) for variable in rule.group],
        "aggregations": [
            [item.function, _expression_to_json(item.variable), *map(_expression_to_json, item.arguments)]
            for item in rule.aggregations
        ],
        "after": [literal_to_json(assignment) for assignment in rule.after],
        "name": rule.name,
    }
    nonempty = {key: part for key, part in form.items() if part}
    if isinstance(rule, MetricRule):
        nonempty["moves"] = [[operator, interval_to_json(interval)] for operator, interval in rule.moves]
    return nonempty


def rule_of(form: Mapping[str, Json]) -> Rule:
    """The rule of a form."""
    parts = (
        Atom(form["head"][0], tuple(map(_term_of, form["head"][1:]))),
        tuple(map(literal_of, form.get("body", ()))),
        tuple(map(_variable_of, form.get("group", ()))),
        tuple(
            Aggregation(_variable_of(variable), function, tuple(map(_term_of, arguments)))
            for function, variable, *arguments in form.get("aggregations", ())
        ),
        tuple(_assignment_of(each) for each in form.get("after", ())),
        form.get("name"),
    )
    if "moves" not in form:
        return Rule(*parts)
    moves = tuple((operator, interval_of(interval)) for operator, interval in form["moves"])
    return MetricRule(*parts, moves=moves)


def literal_to_json(literal: Literal) -> list[Json]:
    """A literal."""
    match literal:
        case Atom(predicate, terms):
            return ["atom", predicate, *map(_expression_to_json, terms)]
        case Negation(Atom(predicate, terms)):
            return ["not", predicate, *map(_expression_to_json, terms)]
        case Comparison(operator, left, right):
            return ["compare", operator, _expression_to_json(left), _expression_to_json(right)]
        case Assignment(variable, expression):
            return ["let", _expression_to_json(variable), _expression_to_json(expression)]
        case Condition(expression, negated):
            return ["unless" if negated else "if", _expression_to_json(expression)]
        case Metric(operator, interval, operands):
            return ["metric", operator, interval_to_json(interval), *map(literal_to_json, operands)]
        case MetricNegation(metric):
            return ["never", literal_to_json(metric)]
        case Throughout(atom, interval):
            word = "sometime" if isinstance(literal, Sometime) else "throughout"
            return [word, interval_to_json(interval), literal_to_json(atom)]
    raise not_storable(f"a rule has a literal that a store cannot hold yet: {type(literal).__name__}")


def literal_of(form: list[Json]) -> Literal:
    """The literal of a form."""
    match form:
        case ["atom", *_]:
            return _atom_of(form)
        case ["not", *_]:
            return Negation(_atom_of(form))
        case ["compare", operator, left, right]:
            return Comparison(operator, _expression_of(left), _expression_of(right))
        case ["let", _, _]:
            return _assignment_of(form)
        case ["if" | "unless" as word, expression]:
            return Condition(_application_of(expression), word == "unless")
        case ["metric", *_]:
            return _metric_of(form)
        case ["never", metric]:
            return MetricNegation(_metric_of(metric))
        case ["throughout", interval, atom]:
            return Throughout(_atom_of(atom), interval_of(interval))
        case ["sometime", interval, atom]:
            return Sometime(_atom_of(atom), interval_of(interval))
    raise ValueError(f"no literal is written as {form!r}")


def _metric_of(form: list[Json]) -> Metric:
    word, operator, interval, *operands = form
    if word != "metric":
        raise ValueError(f"no metric atom is written as {form!r}")
    parts = (_metric_of(each) if each[0] == "metric" else _atom_of(each) for each in operands)
    return Metric(operator, interval_of(interval), tuple(parts))


def _atom_of(form: list[Json]) -> Atom:
    _, predicate, *terms = form
    return Atom(predicate, tuple(map(_term_of, terms)))


def _assignment_of(form: list[Json]) -> Assignment:
    _, variable, expression = form
    return Assignment(_variable_of(variable), _expression_of(expression))


def _expression_to_json(expression: Expression) -> Json:
    match expression:
        case Variable(name):
            return VARIABLE + name
        case Constant(value):
            return exact(value)
        case Apply(function, arguments):
            return [function, *map(_expression_to_json, arguments)]
    raise not_storable(f"a rule has a term that a store cannot hold yet: {type(expression).__name__}")


def _expression_of(form: Json) -> Expression:
    return _application_of(form) if isinstance(form, list) else _term_of(form)


def _application_of(form: list[Json]) -> Apply:
    function, *arguments = form
    return Apply(function, tuple(map(_expression_of, arguments)))


def _term_of(text: str) -> Term:
    return _variable_of(text) if text.startswith(VARIABLE) else Constant(read_exact(text))


def _variable_of(text: str) -> Variable:
    if not text.startswith(VARIABLE):
        raise ValueError(f"{text!r} is not a variable")
    return Variable(text.removeprefix(VARIABLE))


def interval_to_json(interval: Interval) -> list[Json]:
    """An interval, of time or of durations."""
    bounds = (None if bound is None else str(bound) for bound in (interval.start, interval.end))
    return [*bounds, interval.start_open, interval.end_open, interval.is_calendar]


def interval_of(form: list[Json]) -> Interval:
    """The interval of a form."""
    INTERVAL(form, "an interval")
    start, end = (None if bound is None else Fraction(bound) for bound in form[:2])
    return Interval(start, end, *form[2:])


def not_storable(message: str, help: str | None = None) -> DataError:
    """Return the error that a store does not support something yet."""
    return DataError(Diagnostic(codes.NOT_STORABLE, message, help=help or "use a reasoner without a store"))


# ---- facts with times in a snapshot

Write = Callable[[Array], list[Json]]  # writes an array, and says where it stands
Read = Callable[[list[Json], str], Array]  # reads it, given what it is called
LISTS = ("count", "left", "right")
GIVEN, ALL = "given", "tables"
REPEAT = row(INTERVAL, text, truth)
PAST = {
    "window": optional(INTERVAL),
    "time": optional(text),
    "calendar": truth,
    "kept": named(optional(text)),
    "weight": natural,
}
TABLES = many(fields({"name": text, "columns": many(SECTION), **dict.fromkeys(LISTS, SECTION)}))
TIME = fields(
    {
        "settings": row(one_of(*PROCEDURES), optional(natural), optional(INTERVAL)),
        "timeline": row(natural, truth, truth),
        GIVEN: TABLES,
        ALL: TABLES,
        "outcome": optional(row(natural, truth, truth)),
        "dropped": many(row(natural, natural)),
        "cut": truth,
        "past": fields(PAST),
        "periodic": optional(row(optional(INTERVAL), optional(row(optional(REPEAT), optional(REPEAT))))),
    }
)


def time_to_json(state: TimeState, write: Write) -> dict[str, Json]:
    """All of a state; its numbers are written."""
    settings, timeline = state.settings, state.timeline
    horizon = None if settings.horizon is None else interval_to_json(settings.horizon)
    return {
        "settings": [settings.procedure, settings.rounds, horizon],
        "timeline": [timeline.scale, timeline.is_integer, timeline.is_calendar],
        GIVEN: [_table_to_json(table, write) for table in state.given],
        ALL: [_table_to_json(table, write) for table in state.tables],
        "outcome": None if state.outcome is None else list(state.outcome),
        "dropped": [list(pair) for pair in state.dropped.items()],
        "cut": state.is_cut,
        "past": _past_to_json(state.past),
        "periodic": None if state.periodic is None else _periodic_to_json(*state.periodic),
    }


def _past_to_json(past: RetentionWindow) -> dict[str, Json]:
    """Return the end of the final past, and how much of it is kept."""
    return {
        "window": _optional(past.window, interval_to_json),
        "time": _optional(past.time, str),
        "calendar": past.is_calendar,
        "kept": {name: _optional(back, str) for name, back in past.kept.items()},
        "weight": past.weight,
    }


def _past_of(form: Mapping[str, Json]) -> RetentionWindow:
    kept_windows = {name: _optional(back, Fraction) for name, back in form["kept"].items()}
    window, time = _optional(form["window"], interval_of), _optional(form["time"], Fraction)
    return RetentionWindow(window, time, form["calendar"], kept_windows, form["weight"])


def _periodic_to_json(horizon: Interval | None, periods: Periods | None) -> list[Json]:
    """Return the horizon of unbounded facts, and how both sides repeat."""
    sides = (
        None
        if periods is None
        else [_optional(side, _repeat_to_json) for side in (periods.left, periods.right)]
    )
    return [_optional(horizon, interval_to_json), sides]


def _periodic_of(form: list[Json]) -> tuple[Interval | None, Periods | None]:
    horizon, sides = form
    periods = None if sides is None else Periods(*(_optional(side, _repeat_of) for side in sides))
    return _optional(horizon, interval_of), periods


def _repeat_to_json(repeat: Repeat) -> list[Json]:
    return [interval_to_json(repeat.at), str(repeat.period), repeat.is_constant]


def _repeat_of(form: list[Json]) -> Repeat:
    at, period, is_constant = form
    return Repeat(interval_of(at), Fraction(period), is_constant)


def _optional(value: Any, convert: Callable[[Any], Any]) -> Any:
    """None as it is, anything else converted."""
    return None if value is None else convert(value)


def _table_to_json(table: TimedTableState, write: Write) -> dict[str, Json]:
    lists = {name: write(getattr(table, name)) for name in LISTS}
    return {"name": table.name, "columns": [write(column) for column in table.columns], **lists}


def time_of(form: Mapping[str, Json], read: Read) -> TimeState:
    """The state of a form."""
    procedure, rounds, horizon = form["settings"]
    outcome = form["outcome"]
    return TimeState(
        TimeSettings(procedure, rounds, None if horizon is None else interval_of(horizon)),
        Timeline(*form["timeline"]),
        tuple(_table_of(table, GIVEN, read) for table in form[GIVEN]),
        tuple(_table_of(table, ALL, read) for table in form[ALL]),
        None if outcome is None else tuple(outcome),
        dict(form["dropped"]),
        form["cut"],
        _past_of(form["past"]),
        None if form["periodic"] is None else _periodic_of(form["periodic"]),
    )


def _table_of(form: Mapping[str, Json], which: str, read: Read) -> TimedTableState:
    called = _called(form, which)
    sections = {name: read(section, f"{name} of `{called}`") for name, section in _sections(form)}
    lists = [sections.pop(name) for name in LISTS]
    return TimedTableState(form["name"], tuple(sections.values()), *lists)


def _sections(form: Mapping[str, Json]) -> Iterator[tuple[str, list[Json]]]:
    """The sections of a table, and what they are called."""
    for position, section in enumerate(form["columns"], 1):
        yield f"column {position}", section
    for name in LISTS:
        yield name, form[name]


def _called(form: Mapping[str, Json], which: str) -> str:
    return f"{form['name']} at times" + (", as given" if which == GIVEN else "")


def time_sections(form: Mapping[str, Json] | None) -> Iterator[tuple[str, str, list[Json], bool]]:
    """Yield the relation, name and place of each section, and whether it can be derived again."""
    if form is not None:
        for which in (GIVEN, ALL):
            for table in form[which]:
                for name, section in _sections(table):
                    yield _called(table, which), name, section, which == ALL


def given_only(form: Mapping[str, Json], is_right: Callable[[list[Json]], bool]) -> dict[str, Json]:
    """Return a form without what can be derived again, and without tables that have a wrong section."""
    valid = [table for table in form[GIVEN] if all(is_right(section) for _, section in _sections(table))]
    return {**form, GIVEN: valid, ALL: [], "outcome": None, "dropped": []}


# ---- explanations as JSON that is read back
#
# What the program says is not repeated: rules are given by their numbers, and the reader of the form has
# the same program.


def explanation_to_json(explanation: Explanation, program: Program) -> dict[str, Json]:
    """Return an explanation as plain JSON values; a node stands behind those that it follows from."""
    nodes = list(walk(explanation.proofs))
    order = _below_first(nodes)
    numbers = {id(node): number for number, node in enumerate(order)}
    return {
        "query": explanation.query,
        "omitted": explanation.omitted,
        "nodes": [_node_to_json(node, numbers, program.rules) for node in order],
        "proofs": [numbers[id(proof)] for proof in explanation.proofs],
    }


def explanation_of(form: Mapping[str, Json], program: Program) -> Explanation:
    """Return the explanation of a form that was made of the same program."""
    nodes: list[ProofNode] = []
    for each in form["nodes"]:
        nodes.append(_node_of(each, nodes, program.rules))
    proofs = tuple(nodes[number] for number in form["proofs"])
    return Explanation(form["query"], proofs, Writing.of(program), form["omitted"])


def _below_first(nodes: Sequence[ProofNode]) -> list[ProofNode]:
    """Return the nodes of proofs, each behind all of its children."""
    parents = {id(node): 0 for node in nodes}
    for node in nodes:
        for child in node.children:
            parents[id(child)] += 1
    waiting = [node for node in nodes if not parents[id(node)]]
    order: list[ProofNode] = []
    while waiting:
        node = waiting.pop()
        order.append(node)
        for child in node.children:
            parents[id(child)] -= 1
            if not parents[id(child)]:
                waiting.append(child)
    return order[::-1]


def _node_to_json(node: ProofNode, numbers: Mapping[int, int], rules: Sequence[Rule]) -> dict[str, Json]:
    """Return a node, without empty fields."""
    is_known = 0 <= node.number < len(rules) and node.rule == rules[node.number]
    form = {
        "literal": None if node.literal is None else literal_to_json(node.literal),
        "children": [numbers[id(child)] for child in node.children],
        "height": node.height,
        "rule": None if node.rule is None or is_known else rule_to_json(node.rule),
        "binding": [[variable.name, exact(value)] for variable, value in node.binding],
        "origin": None if node.origin is None else str(node.origin),
        "elided": node.elided,
        "time": None if node.time is None else interval_to_json(node.time),
    }
    return {"kind": node.kind.value, "number": node.number} | {
        key: part for key, part in form.items() if part
    }


def _node_of(form: Mapping[str, Json], nodes: Sequence[ProofNode], rules: Sequence[Rule]) -> ProofNode:
    number, rule = form["number"], form.get("rule")
    program_rule = rules[number] if number >= 0 else None
    return ProofNode(
        NodeKind(form["kind"]),
        literal_of(form["literal"]) if "literal" in form else None,
        tuple(nodes[child] for child in form.get("children", ())),
        form.get("height", 0),
        program_rule if rule is None else rule_of(rule),
        number,
        tuple((Variable(name), read_exact(text)) for name, text in form.get("binding", ())),
        form.get("origin"),
        form.get("elided", 0),
        interval_of(form["time"]) if "time" in form else None,
    )
