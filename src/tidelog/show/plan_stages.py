"""The stages that a program passes through, each as text and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

from tidelog.errors import counted
from tidelog.logic.program import Predicate, Program, Query, facts_by_predicate
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.values import ColumnType
from tidelog.plan.compile import full_plan
from tidelog.plan.join_order import Statistics
from tidelog.plan.rule_text import Writing, shortened
from tidelog.records import dataclass
from tidelog.show.picture import (
    Figure,
    Picture,
    PictureEntry,
    PictureSection,
    ShownStratum,
    Tree,
    body_predicates,
    dependencies,
    rule_graph,
    show_plan,
    show_strata,
    stratum_lines,
    stratum_title,
    tree_graph,
    tree_lines,
)
from tidelog.syntax import ast
from tidelog.syntax.printer import print_node

MOST_FACTS: Final = 8  # of a predicate, shown
_ANSWER: Final = "?-"


@dataclass(frozen=True, slots=True)
class Stage:
    """A program at one stage, as text and as a picture."""

    lines: tuple[str, ...]
    picture: Picture


# ---- parsed


def parsed(document: ast.DocumentNode, name: str) -> Stage:
    """The syntax tree, statement by statement; of many facts in a row the first ones."""
    statements = tuple(_shown_statements(document))
    trees = [_syntax_tree(statement) for statement in statements]
    hidden = len(document.statements) - len(statements)
    more = (Tree("…", counted(hidden, "more fact")),) if hidden else ()
    tree_of_document = Tree("Document", name, (), (*trees, *more))
    entries = tuple(
        PictureEntry(_class_name(statement), print_node(statement), (Figure("", tree_graph(tree)),))
        for statement, tree in zip(statements, trees, strict=True)
    )
    summary = (counted(len(document.statements), "statement"), *(tree.detail for tree in more))
    picture = Picture(f"{name}: syntax tree", summary, (PictureSection("Statements", entries=entries),))
    return Stage(tuple(tree_lines(tree_of_document)), picture)


def _shown_statements(document: ast.DocumentNode) -> Iterator[ast.Statement]:
    run = 0
    for statement in document.statements:
        is_fact = isinstance(statement, ast.ClauseNode) and not statement.body
        run = run + 1 if is_fact else 0
        if run <= MOST_FACTS:
            yield statement


def _syntax_tree(node: ast.SyntaxNode, role: str = "") -> Tree:
    """A node of the syntax tree: its class, its plain fields, and below it the nodes it holds."""
    operator = f"{role} {_class_name(node)}".lstrip()
    parts = [part for part in fields(node) if part.name not in ("span", "comments", "remark", "notes")]
    if _is_flat(node):
        return Tree(operator, shortened(print_node(node), 72))
    plain: list[str] = []
    below: list[Tree] = []
    for part in parts:
        value = getattr(node, part.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, ast.SyntaxNode):
                below.append(_syntax_tree(item, part.name.rstrip("s") if part.name in _ROLES else ""))
            elif item is not None:
                plain.append(str(item))
    return Tree(operator, " ".join(plain), (), tuple(below))


def _class_name(node: ast.SyntaxNode) -> str:
    """The name of a node's class as it is shown, without the ending that all of them have."""
    return type(node).__name__.removesuffix("Node")


def _is_flat(node: ast.SyntaxNode) -> bool:
    """Whether a node is best shown as its text: an expression, or an atom, without operators inside."""
    if isinstance(node, ast.OperationNode | ast.AggregateNode | ast.NegativeNode | ast.FormatStringNode):
        return False
    if isinstance(node, ast.AtomNode):
        return node.at is None and _is_flat(node.call)
    if isinstance(node, ast.CallNode):
        return all(map(_is_flat, node.arguments)) and not any(
            isinstance(argument, ast.CallNode) for argument in node.arguments
        )
    return isinstance(node, ast.Expression | ast.ColumnNode | ast.OptionNode | ast.AttributeNode)


_ROLES: Final = ("heads", "body")


# ---- resolved


def resolved(program: Program, name: str, query: Query | None, heading: str = "resolved") -> Stage:
    """The rules after resolution, all names in full, as a program that can be read back."""
    writing = Writing()
    lines = [f"% {name}, {heading}: {_summary_line(program)}", *_predicate_lines(program), ""]
    lines += _fact_lines(program, writing)
    for number, rule in enumerate(program.rules, 1):
        lines.append(f"% rule {number}{_place(rule.span)}{f': {rule.name}' if rule.name else ''}")
        lines.append(writing.rule(rule))
    if query is not None:
        lines += ["% query", writing.rule(query.rule).replace(writing.head(query.rule) + " :-", _ANSWER)]
    short = Writing.of(program)
    entries = tuple(
        PictureEntry(f"rule {number}", short.rule(rule)) for number, rule in enumerate(program.rules, 1)
    )
    graph = Figure("", rule_graph(program.rules, short))
    section = PictureSection("Predicates and rules", figures=(graph,), entries=entries)
    return Stage(tuple(lines), Picture(f"{name}: rules", _summary(program), (section,)))


def _predicate_lines(program: Program) -> Iterator[str]:
    derived: dict[str, list[str]] = {}
    for number, rule in enumerate(program.rules, 1):
        derived.setdefault(rule.head.predicate, []).append(str(number))
    with_facts = {fact.predicate for fact in program.facts}
    imported = {transfer.predicate for transfer in program.imports}
    width = max((len(_signature(item)) for item in program.predicates.values()), default=0)
    for predicate in program.predicates.values():
        sources = [
            *(["explicit"] if predicate.name in with_facts else []),
            *(["imported"] if predicate.name in imported else []),
            *([_rules(derived[predicate.name])] if predicate.name in derived else []),
        ]
        yield f"%   {_signature(predicate).ljust(width)}  {'; '.join(sources) or 'given'}"


def _rules(numbers: Sequence[str]) -> str:
    return f"rule{'' if len(numbers) == 1 else 's'} {', '.join(numbers)}"


def _signature(predicate: Predicate) -> str:
    columns = (
        f"{name or '_'}" + ("" if column_type is ColumnType.ANY else f": {column_type.value}")
        for name, column_type in zip(predicate.columns, predicate.types, strict=True)
    )
    return f"{Writing().predicate(predicate.name)}({', '.join(columns)})"


def _fact_lines(program: Program, writing: Writing) -> Iterator[str]:
    for facts in facts_by_predicate(program.facts).values():
        yield from (writing.fact(fact) for fact in facts[:MOST_FACTS])
        if len(facts) > MOST_FACTS:
            yield f"% … {counted(len(facts) - MOST_FACTS, 'more fact')}"


def _place(span: object) -> str:
    source = getattr(span, "source", None)
    if source is None:
        return ""
    line, _ = source.position(getattr(span, "start", 0))
    return f", {source.name}:{line}"


# ---- strata


def stratified(program: Program, name: str) -> Stage:
    """The strata with their rules, and the predicates that each predicate depends on."""
    layers = strata(program.rules, program.predicates)
    writing = Writing.of(program)
    numbers = {id(rule): number for number, rule in enumerate(program.rules, 1)}
    lines: list[str] = []
    sections = []
    for position, stratum in enumerate(layers, 1):
        names = tuple(map(writing.predicate, stratum.predicates))
        shown_stratum = ShownStratum(position, names, stratum.recursive, ())
        title = stratum_title(shown_stratum, len(layers))
        lines += ["", title] if lines else [title]
        lines += [f"  {line}" for line in _dependency_lines(stratum, writing)]
        lines += [f"  rule {numbers[id(rule)]}  {writing.rule(rule)}" for rule in stratum.rules]
        entries = tuple(
            PictureEntry(f"rule {numbers[id(rule)]}", writing.rule(rule)) for rule in stratum.rules
        )
        sections.append(
            PictureSection(f"Stratum {position}", names, "recursive" if stratum.recursive else "", entries)
        )
    overview = PictureSection("Dependencies", figures=(Figure("", dependencies(layers, writing)),))
    picture = Picture(f"{name}: strata", _summary(program), (overview, *sections))
    return Stage(tuple(lines or ["no rules, no strata"]), picture)


def _dependency_lines(stratum: Stratum, writing: Writing) -> Iterator[str]:
    """Each predicate and what it is derived from, with `~` or `#` if that must be complete first."""
    for predicate in stratum.predicates:
        read: dict[str, None] = {}
        for rule in stratum.rules:
            if rule.head.predicate == predicate:
                read.update({mark + writing.predicate(name): None for name, mark in body_predicates(rule)})
        yield f"{writing.predicate(predicate)} from {', '.join(read) or 'nothing'}"


# ---- plans


def planned(
    program: Program,
    name: str,
    statistics: Statistics,
    query: Query | None,
    assumption: str,
    modules: bool = True,
) -> Stage:
    """The plans of every rule, stratum by stratum, and of the query."""
    layers = strata(program.rules, program.predicates)
    writing = Writing.of(program)
    planned_strata = show_strata(layers, program.rules, writing, statistics, modules, program.timed)
    lines: list[str] = []
    for stratum in planned_strata:
        lines += [*stratum_lines(stratum, len(planned_strata)), ""]
    sections = [_planned_section(stratum) for stratum in planned_strata]
    if query is not None:
        tree = show_plan(full_plan(query.rule, -1, statistics, _COLLECTED), writing, statistics)
        lines += [f"query  {_query_text(query)}", *(f"  {line}" for line in tree_lines(tree)), ""]
        entry = PictureEntry("query", _query_text(query), (Figure("all facts", tree_graph(tree)),))
        sections.append(PictureSection("Query", entries=(entry,)))
    if planned_strata:
        overview = PictureSection("Dependencies", figures=(Figure("", dependencies(layers, writing)),))
        sections.insert(0, overview)
    picture = Picture(f"{name}: plan", (*_summary(program), assumption), tuple(sections))
    return Stage(tuple(lines[:-1] or ["no rules, no plans"]), picture)


_COLLECTED: Final = "answers"


def _planned_section(stratum: ShownStratum) -> PictureSection:
    entries = tuple(
        PictureEntry(
            f"rule {rule.number}{f', {rule.rule.name}' if rule.rule.name else ''}",
            rule.text,
            tuple(Figure(purpose, tree_graph(tree)) for purpose, tree in rule.plans),
        )
        for rule in stratum.rules
    )
    tag = "recursive" if stratum.recursive else ""
    return PictureSection(f"Stratum {stratum.number}", stratum.predicates, tag, entries)


def _query_text(query: Query) -> str:
    text = query.text.strip()
    return text if text.startswith(_ANSWER) else f"{_ANSWER} {text.rstrip('.').rstrip()} ."


def _summary(program: Program) -> tuple[str, ...]:
    return (
        counted(len(program.rules), "rule"),
        counted(len(program.predicates), "predicate"),
        counted(len(program.facts), "explicit fact"),
    )


def _summary_line(program: Program) -> str:
    return ", ".join(_summary(program))


STAGES: Sequence[str] = ("parsed", "resolved", "strata", "rewritten", "plan")
