"""`tidelog explain`, `profile` and `timeline`: why facts hold, where time goes, when answers hold."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import escape
from shutil import get_terminal_size
from typing import Any, Final

from tidelog.cli.options import UsageError, format_of
from tidelog.cli.output import write_text
from tidelog.cli.results import ROWS_ON_TERMINAL, duration, script_lines
from tidelog.cli.updates import Updates
from tidelog.cli.work import LoadedProgram
from tidelog.engine.events import PHASES, Done, Profile
from tidelog.errors import counted
from tidelog.logic.program import Atom, Literal, Negation, Rule
from tidelog.plan.compile import best_pivot
from tidelog.plan.join_order import order
from tidelog.plan.rule_text import Writing, unnamed
from tidelog.proof.explanation import Explanation
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.reasoner import Reasoner
from tidelog.show.chart import WIDTH, Drawing
from tidelog.show.picture_formats import code, document

# ---- `tidelog profile`

_COUNTS: Final = ("attempts", "given", "matches", "new", "duplicates", "no_value", "seconds")


def profile(options: Namespace) -> int:
    """The exit code of `tidelog profile`."""
    recorded = Profile(())
    with LoadedProgram(options, [recorded]) as work:
        work.warn()
        recorded.rules = work.reasoner.rules
        work.derive()
        work.reasoner.engine.change_plans.plan_listener = recorded.plan_ran
        work.reasoner.runtime.started = None  # the timeout is for each transaction
        commits = 0
        if options.changes:
            for _ in work.reasoner.stream(Updates(options.changes)):
                commits += 1
                recorded.rules = work.reasoner.rules
        record = _record(work, recorded, commits)
    write_text(_written_profile(record, format_of(options)), options.output, work.messages)
    return 0


# ---- profiles as plain values


def _record(work: LoadedProgram, recorded: Profile, commits: int) -> dict[str, Any]:
    """The profile as plain JSON values, what took longest first."""
    writing = Writing.of(work.program)
    numbers = {rule: number for number, rule in enumerate(recorded.rules, 1)}
    phases = []
    for phase in PHASES:
        rows_of_phase = [
            (rule, row_work) for (name, rule), row_work in recorded.done.items() if name == phase
        ]
        rows_of_phase.sort(key=lambda item: -item[1].seconds)
        if rows_of_phase:
            rows = [_row(rule, row_work, numbers, writing) for rule, row_work in rows_of_phase]
            phases.append({"phase": phase, "seconds": sum(row["seconds"] for row in rows), "rules": rows})
    ran = dict.fromkeys(rule for _, rule in recorded.done)
    orders = [
        {"rule": numbers[rule], "order": _join_order(rule, work, writing)} for rule in ran if rule in numbers
    ]
    return {
        "program": str(work.options.program),
        "commits": commits,
        "phases": phases,
        "join_orders": sorted(orders, key=lambda item: item["rule"]),
        "indexes": _indexes(work, writing),
    }


def _indexes(work: LoadedProgram, writing: Writing) -> list[dict[str, Any]]:
    """The indexes of predicates, the largest first; columns are counted from 1."""
    sizes = sorted(work.reasoner.engine.catalog.index_sizes(), key=lambda item: -int(item[3]))
    return [
        {
            "relation": writing.predicate(name),
            "columns": [column + 1 for column in columns],
            "partial": is_partial,
            "bytes": size,
        }
        for name, columns, is_partial, size in sizes
        if " " not in name
    ]


def _row(rule: Rule, work: Done, numbers: dict[Rule, int], writing: Writing) -> dict[str, Any]:
    counts = {name: getattr(work, name) for name in _COUNTS}
    return {"rule": numbers.get(rule), "name": rule.name, "text": writing.rule(_readable(rule))} | counts


def _readable(rule: Rule) -> Rule:
    """A rule with the predicates that auxiliary relations serve, whose names are those and more."""

    def named(literal: Literal) -> Literal:
        match literal:
            case Atom(predicate, terms):
                return Atom(predicate.split(" ")[0], terms)
            case Negation(Atom(predicate, terms)):
                return Negation(Atom(predicate.split(" ")[0], terms))
            case _:
                return literal

    head = Atom(rule.head.predicate.split(" ")[0], rule.head.terms)
    return replace(rule, head=head, body=tuple(map(named, rule.body)))


def _join_order(rule: Rule, work: LoadedProgram, writing: Writing) -> list[str]:
    """The body in the order in which it is matched over all facts, by the sizes that relations have now."""
    named_rule = unnamed(rule)
    places = order(rule.body, best_pivot(rule.body, work.reasoner.sizes), work.reasoner.sizes)
    return [writing.literal(rule.body[place], named_rule) for place in places]


# ---- text and pages


def _written_profile(record: dict[str, Any], format: str) -> str:
    match format:
        case "json":
            return json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        case "html":
            return _page(record)
        case _:
            return "".join(f"{line}\n" for line in _lines(record))


def _called(row: dict[str, Any]) -> str:
    number = "" if row["rule"] is None else f"{row['rule']}  "
    return f"{number}{row['name'] or row['text']}"


def _lines(record: dict[str, Any]) -> Iterator[str]:
    for phase in record["phases"]:
        yield f"{phase['phase']}  {duration(phase['seconds'])}"
        yield f"  {'attempts':>9} {'matches':>12} {'new':>12} {'duplicates':>12} {'time':>10}  rule"
        for row in phase["rules"]:
            counts = f"{row['attempts']:>9,} {row['matches']:>12,} {row['new']:>12,} {row['duplicates']:>12,}"
            yield f"  {counts} {duration(row['seconds']):>10}  {_called(row)}"
        yield ""
    yield "join orders"
    for item in record["join_orders"]:
        yield f"  {item['rule']:>3}  {' ⋈ '.join(item['order'])}"
    yield ""
    yield "indexes"
    for item in record["indexes"]:
        columns = ", ".join(map(str, item["columns"]))
        partial = ", of a part" if item["partial"] else ""
        yield f"  {item['bytes']:>14,} bytes  {item['relation']} by {columns or 'nothing'}{partial}"


def _page(record: dict[str, Any]) -> str:
    """Return the profile as a page: a section for each phase, then join orders and indexes."""
    total = sum(phase["seconds"] for phase in record["phases"])
    summary = [
        f"{duration(total)} in rules",
        counted(record["commits"], "commit"),
    ]
    sections = "".join(_phase(phase, total) for phase in record["phases"])
    return document(f"{record['program']}: profile", summary, sections + _orders(record) + _sizes(record))


def _phase(phase: dict[str, Any], total: float) -> str:
    """Return a phase as a table of its rules, each with a bar for its share of the phase."""
    head = _cells("th", ("", "rule", "attempts", "matches", "new", "duplicates", "time", ""))
    longest = max((row["seconds"] for row in phase["rules"]), default=0.0)
    rows = "".join(_rule_row(row, longest) for row in phase["rules"])
    share = f"{phase['seconds'] / total:.0%} of the time" if total else ""
    title = f'{escape(phase["phase"])}<span class="chip">{duration(phase["seconds"])}</span>'
    return _section(f'{title}<span class="tag">{share}</span>', head, rows)


def _rule_row(row: dict[str, Any], longest: float) -> str:
    name = f"<b>{escape(row['name'])}</b><br>" if row["name"] else ""
    counts = (f"{row[each]:,}" for each in ("attempts", "matches", "new", "duplicates"))
    bar = f'<meter value="{row["seconds"]:.9f}" max="{longest or 1.0:.9f}"></meter>'
    rule = _numbered(row["rule"], f"{name}<code>{code(row['text'])}</code>")
    return f"<tr>{rule}{_cells('td', (*counts, duration(row['seconds'])))}<td>{bar}</td></tr>\n"


def _numbered(number: int | None, text: str) -> str:
    """Return the cells of a rule: its number, if it has one, and its text, which is HTML."""
    return f"<td>{'' if number is None else number}</td><td>{text}</td>"


def _orders(record: dict[str, Any]) -> str:
    joined = ((item["rule"], " ⋈ ".join(map(code, item["order"]))) for item in record["join_orders"])
    rows = "".join(f"<tr>{_numbered(number, f'<code>{order}</code>')}</tr>\n" for number, order in joined)
    return _section("join orders", _cells("th", ("", "order")), rows)


def _sizes(record: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td></td><td>{code(item['relation'])}{' (partial)' if item['partial'] else ''}</td>"
        + _cells("td", (", ".join(map(str, item["columns"])), f"{item['bytes']:,}"))
        + "</tr>\n"
        for item in record["indexes"]
    )
    return _section("indexes", _cells("th", ("", "relation", "columns", "bytes")), rows)


def _section(title: str, head: str, rows: str) -> str:
    """Return a table under a title, or nothing if it has no rows; title, head and rows are HTML."""
    if not rows:
        return ""
    table = f"<table>\n<tr>{head}</tr>\n{rows}</table>"
    return f'<section>\n<h2>{title}</h2>\n<div class="table">{table}</div>\n</section>\n'


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)


# ---- `tidelog timeline`

LANES = 1_000


def timeline(options: Namespace) -> int:
    """The exit code of `tidelog timeline`."""
    _check_timeline(options)
    work = LoadedProgram(options)
    work.warn(about_unused=False)
    with work.showing_progress(), work.keeping_rejects():
        work.read()
        answers = [work.reasoner.query(query) for query in options.queries]
    work.report_rejects()
    work.report_completeness()
    outcome = work.reasoner.time.outcome
    remarks = [] if outcome is None else [str(outcome)]
    drawing = Drawing(answers, options.start, options.end, _lanes(options), remarks)
    write_text(_written_timeline(drawing, format_of(options)), options.output, work.messages)
    return 0


def _written_timeline(drawing: Drawing, form: str) -> str:
    match form:
        case "svg":
            return drawing.svg()
        case "html":
            return drawing.html()
        case _:
            width = get_terminal_size().columns if sys.stdout.isatty() else WIDTH
            return drawing.text(width) + "\n"


def _check_timeline(options: Namespace) -> None:
    """Raise UsageError if options are missing or incompatible."""
    if not options.queries:
        raise UsageError("timeline requires a query")
    format_of(options)
    if options.start is not None and options.end is not None and options.start >= options.end:
        raise UsageError("--from is not before --to")


def _lanes(options: Namespace) -> int | None:
    """How many lanes are drawn of each query; None for all."""
    if options.lanes is not None:
        return options.lanes or None
    return ROWS_ON_TERMINAL if options.output is None and sys.stdout.isatty() else LANES


# ---- `tidelog explain`


def explain(options: Namespace) -> int:
    """The exit code of `tidelog explain`."""
    _check(options)
    with LoadedProgram(options) as work:
        work.warn(about_unused=False)
        with work.showing_progress(), work.keeping_rejects():
            work.read()
            text = _explanation(work.reasoner, options)
        work.report_rejects()
    write_text(text, options.output, work.messages)
    return 0


def _check(options: Namespace) -> None:
    """Raise UsageError if options are missing, incompatible or out of range."""
    requested = (options.query, options.why_not, options.what_if)
    if sum(each is not None for each in requested) != 1:
        raise UsageError("explain takes one of QUERY, --why-not FACT and --what-if CHANGES")
    form = format_of(options)
    if options.query is None and form not in ("text", "json"):
        raise UsageError(f"--format {form} is for proofs", "choose text or json")
    for name in ("all", "limit"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} 0 leaves nothing to explain")


def _explanation(reasoner: Reasoner, options: Namespace) -> str:
    """Return the requested explanation in the requested format."""
    form = format_of(options)
    if options.what_if is not None:
        return _changed(reasoner.what_if(options.what_if, name="<what-if>"), form)
    if options.why_not is not None:
        doubted = reasoner.why_not(options.why_not, repairs=options.limit)
        return _json(doubted.to_json()) if form == "json" else doubted.to_text()
    explanation = reasoner.explain(options.query, proofs=options.all, limit=options.limit, rows=options.rows)
    return _written(explanation, form, options.depth)


def _changed(delta: Delta, format: str) -> str:
    """What would change, as a change script, or as an object for each fact."""
    lines = list(script_lines(delta))
    if format == "json":
        return _json([{"change": line[0], "fact": line[2:].removesuffix(" .")} for line in lines])
    return "".join(f"{line}\n" for line in lines) or "nothing would change\n"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _written(explanation: Explanation, format: str, depth: int | None) -> str:
    match format:
        case "json":
            return _json(explanation.to_json())
        case "html":
            return explanation.to_html(depth)
        case "dot":
            return explanation.to_dot(depth)
        case _:
            return explanation.to_text(depth)
