"""`tidelog profile`: what each rule did in each phase, in which order it joins, and what indexes take."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Final

from tidelog.cli.deltas import duration
from tidelog.cli.explain import put_out
from tidelog.cli.reasoning import Work
from tidelog.cli.updates import Updates
from tidelog.engine.profile import PHASES, Done, Profile
from tidelog.logic.program import Atom, Literal, Negation, Rule
from tidelog.plan.compile import best_pivot
from tidelog.plan.join_order import order
from tidelog.plan.rule_text import Writing, unnamed

_STYLE: Final = Path(__file__).with_name("profile.css")
_COUNTS: Final = ("attempts", "given", "matches", "new", "duplicates", "no_value", "seconds")


def profile(options: Namespace) -> int:
    """The exit code of `tidelog profile`."""
    found = Profile(())
    with Work(options, [found]) as work:
        work.warn()
        found.rules = work.reasoner.rules
        work.derive()
        work.reasoner.engine.plan_listener = found.plan_ran
        work.reasoner.runtime.started = None  # the timeout is for each transaction
        commits = 0
        if options.changes:
            for _ in work.reasoner.stream(Updates(options.changes)):
                commits += 1
                found.rules = work.reasoner.rules
        record = _record(work, found, commits)
    put_out(_written(record, options.format), options.output, work.messages)
    return 0


# ---- what was found, as plain values


def _record(work: Work, found: Profile, commits: int) -> dict[str, Any]:
    """The profile as plain JSON values, what took longest first."""
    writing = Writing.of(work.program)
    numbers = {rule: number for number, rule in enumerate(found.rules, 1)}
    phases = []
    for phase in PHASES:
        done = [(rule, each) for (name, rule), each in found.done.items() if name == phase]
        done.sort(key=lambda item: -item[1].seconds)
        if done:
            rows = [_row(rule, each, numbers, writing) for rule, each in done]
            phases.append({"phase": phase, "seconds": sum(row["seconds"] for row in rows), "rules": rows})
    ran = dict.fromkeys(rule for _, rule in found.done)
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


def _indexes(work: Work, writing: Writing) -> list[dict[str, Any]]:
    """The indexes of predicates, the largest first; columns are counted from 1."""
    sizes = sorted(work.reasoner.engine.index_sizes(), key=lambda item: -int(item[3]))
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


def _row(rule: Rule, done: Done, numbers: dict[Rule, int], writing: Writing) -> dict[str, Any]:
    counts = {name: getattr(done, name) for name in _COUNTS}
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


def _join_order(rule: Rule, work: Work, writing: Writing) -> list[str]:
    """The body in the order in which it is matched over all facts, by the sizes that relations have now."""
    named = unnamed(rule)
    places = order(rule.body, best_pivot(rule.body, work.reasoner.sizes), work.reasoner.sizes)
    return [writing.literal(rule.body[place], named) for place in places]


# ---- text and pages


def _written(record: dict[str, Any], format: str) -> str:
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
    title = f"{record['program']}: profile"
    total = sum(phase["seconds"] for phase in record["phases"]) or 1.0
    flames = "".join(_flame(phase, total) for phase in record["phases"])
    text = escape("\n".join(_lines(record)))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p>{duration(total)} in rules, {record["commits"]:,} commits</p>
<div class="flame">{flames}</div>
<pre>{text}</pre>
</body>
</html>
"""


def _flame(phase: dict[str, Any], total: float) -> str:
    """A phase as wide as its share of the time, its rules below it, as wide as theirs."""
    inner = phase["seconds"] or 1.0
    rules = (_bar(_called(row), row["seconds"], 100 * row["seconds"] / inner) for row in phase["rules"])
    bars = f'{_bar(phase["phase"], phase["seconds"], 100.0)}<div class="rules">{"".join(rules)}</div>'
    width = 100 * phase["seconds"] / total
    return f'<div class="phase {phase["phase"]}" style="width:{width:.3f}%">{bars}</div>'


def _bar(name: str, seconds: float, width: float) -> str:
    told = escape(f"{name}: {duration(seconds)}", quote=True)
    return f'<div class="bar" style="width:{width:.3f}%" title="{told}">{escape(name)}</div>'
