"""`tidelog plan`: a program at every stage, as text or as a picture."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

from tidelog.cli.options import UsageError, format_of
from tidelog.cli.output import Messages, write_text
from tidelog.cli.program_sources import (
    read_source,
    resolve_source,
    sandbox_of,
    shown_name,
)
from tidelog.errors import SourceText
from tidelog.logic.equality_axioms import axiomatise, has_equality
from tidelog.logic.program import Atom, Program, Query, Rule
from tidelog.logic.resolve import resolve_query
from tidelog.plan.join_order import ASSUMED, ProgramStatistics, expected_growth
from tidelog.rewrite.magic_sets import MagicOptions, readable, rewrite
from tidelog.rewrite.representatives import over_representatives
from tidelog.show.picture_formats import dot_text, html_text, mermaid_text
from tidelog.show.plan_stages import Stage, parsed, planned, resolved, stratified
from tidelog.syntax.parser import parse, parse_literals


def plan(options: Namespace) -> int:
    """The exit code of `tidelog plan`."""
    messages = Messages(options.quiet)
    is_on_spark = options.engine == "spark" and options.stage == "plan"
    if is_on_spark and (options.run or options.store):
        option = "--run" if options.run else "--store"
        raise UsageError(f"{option} cannot be used with --engine spark")
    source = read_source(options.program) if options.program is not None else None
    stage = _stage(options, source, messages)
    if is_on_spark and source is not None:
        stage = _on_spark(stage, options, source)
    write_text(_text(stage, format_of(options)), options.output, messages)
    return 0


def _text(stage: Stage, format: str) -> str:
    match format:
        case "dot":
            return dot_text(stage.picture)
        case "mermaid":
            return mermaid_text(stage.picture)
        case "html":
            return html_text(stage.picture)
        case _:
            return "".join(f"{line}\n" for line in stage.lines)


def _stage(options: Namespace, source: SourceText | None, messages: Messages) -> Stage:
    """The stage of the options."""
    name = shown_name(options.program) if options.store is None else str(options.store)
    has_sizes = options.run or options.data or options.store
    if options.stage == "plan" and has_sizes and options.engine != "spark":
        return _planned_with_sizes(options, name)
    if source is None:
        program = _stored(options)
    else:
        if options.stage == "parsed":
            return parsed(parse(source), name)
        parameters = dict(options.param)
        program = resolve_source(source, options.program, parameters, sandbox=sandbox_of(options))
    query = _query(options.query, program)
    if options.stage == "resolved":
        return resolved(program, name, query)
    if has_equality(program.predicates) and options.equality == "rewrite":
        return _over_representatives(program, name, options)
    program = _with_equality(program, options)
    match options.stage:
        case "strata":
            return stratified(program, name)
        case "rewritten":
            return _rewritten(program, name, query, messages)
    note = f"relations of unknown size are assumed to have {ASSUMED:,} facts"
    return planned(program, name, ProgramStatistics(program), query, note, options.modules)


def _stored(options: Namespace) -> Program:
    """The program of a store."""
    from tidelog.cli.work import LoadedProgram

    if options.stage == "parsed":
        raise UsageError("a store keeps its program resolved: --stage parsed is not available")
    return LoadedProgram(options).program


def _over_representatives(program: Program, name: str, options: Namespace) -> Stage:
    """The program as equality by rewriting runs it, while no two constants are equal."""
    rewritten = over_representatives(program, {})
    match options.stage:
        case "strata":
            return stratified(rewritten, name)
        case "rewritten":
            return resolved(rewritten, name, None, "rewritten")
    note = f"relations of unknown size are assumed to have {ASSUMED:,} facts"
    return planned(rewritten, name, ProgramStatistics(rewritten), None, note, options.modules)


def _rewritten(program: Program, name: str, query: Query | None, messages: Messages) -> Stage:
    """The program as magic sets rewrite it for the query, or for the queries in it."""
    queries = program.queries if query is None else (query,)
    if not queries:
        messages.say("rewriting requires a query: give a --query")
        return resolved(program, name, None, "rewritten")
    explicit = {fact.predicate for fact in program.facts} | {each.predicate for each in program.imports}
    options = MagicOptions(frozenset(explicit), expected_growth(ProgramStatistics(program)))
    rewritten = rewrite(
        program.rules, [_answering(each, position) for position, each in enumerate(queries, 1)], options
    )
    for predicate, reason in rewritten.in_full.items():
        messages.say(f"`{program.predicates[predicate].written}` is derived in full: {reason}")
    return resolved(readable(program, rewritten), name, None, "rewritten")


def _answering(query: Query, number: int) -> Rule:
    """The rule of a query, with a head that can be read."""
    return replace(query.rule, head=Atom(f"answer_{number}", query.rule.head.terms))


def _planned_with_sizes(options: Namespace, name: str) -> Stage:
    """The plans that fit the relations as they are when everything has been derived."""
    from tidelog.cli.work import LoadedProgram

    work = LoadedProgram(options)
    work.warn(about_unused=False)
    work.derive()
    query = _query(options.query, work.program)
    note = "sizes are those after deriving everything"
    return planned(work.program, name, work.reasoner.sizes, query, note, options.modules)


def _on_spark(stage: Stage, options: Namespace, source: SourceText) -> Stage:
    """The stage with a line that says where the program would run on Spark, and why."""
    from tidelog.cli.commands.spark_commands import choice_of, described

    program = resolve_source(source, options.program, dict(options.param), sandbox=sandbox_of(options))
    line = described(choice_of(options, program))
    picture = replace(stage.picture, summary=(*stage.picture.summary, line))
    return replace(stage, lines=(*stage.lines, "", line), picture=picture)


def _with_equality(program: Program, options: Namespace) -> Program:
    """The effective program under the requested treatment of equality."""
    if not has_equality(program.predicates):
        return program
    if options.equality == "rewrite":
        return over_representatives(program, {})
    return axiomatise(program, unique_names=options.unique_names)


def _query(text: str | None, program: Program) -> Query | None:
    return None if text is None else resolve_query(parse_literals(SourceText("<query>", text)), program, text)
