"""`tidelog run` and `tidelog query`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidelog.cli.commands.watch import ProgramWatch, check_watchable
from tidelog.cli.options import ON_SCREEN, UsageError
from tidelog.cli.output import Staging, data_output, staging
from tidelog.cli.results import (
    ROWS_ON_TERMINAL,
    TRIPLE,
    Form,
    Result,
    check_printable,
    check_statements,
    data,
    print_result,
    print_results,
    print_script,
    query_name,
)
from tidelog.cli.statistics import choices, report_statistics
from tidelog.cli.work import LoadedProgram
from tidelog.data.relation import Relation
from tidelog.errors import ProgramError, counted
from tidelog.io.data_file import file_name, is_compressed, transfer_path
from tidelog.io.write import Export, export_file, write
from tidelog.logic.program import OPEN, Query, Transfer
from tidelog.query import registry as strategies
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.program_state import EXPLICIT
from tidelog.temporal.timed_relation import TimedRelation

_TABLE: Final = Form("table")


def run(options: Namespace) -> int:
    """The exit code of `tidelog run`."""
    form = Form.of(options, "csv" if options.output else "table")
    check_options(options, form)
    if options.engine == "spark":
        from tidelog.cli.commands import spark_commands

        return spark_commands.run(options)
    if options.watch:
        check_watchable(options)
    with LoadedProgram(options) as work:
        _run(work, form)
        return _watch(work, form) if options.watch else 0


def _run(work: LoadedProgram, form: Form) -> None:
    """Derive everything, and write the requested output."""
    options = work.options
    work.warn()
    exports = exports_of(work)
    form.check_mixed(export.format for _, export in exports)
    outputs = outputs_of(work, exports)
    queries = [_answers(work, query) for query in work.program.queries]
    arities = {result.name: result.arity for result in outputs}
    if options.output is None:
        check_printable(len(outputs) + len(queries), form)
        arities |= {result.name: result.arity for result in queries}
    check_statements(arities, form)
    work.derive()
    rows_by_file = write_files(work, outputs if options.output else [], exports, form)
    if options.output is None:
        if outputs or queries:
            print_results([*outputs, *queries], form)
    elif queries:
        print_results(queries, replace(_TABLE, terms=form.terms, rows=form.rows))
    report_files(work, rows_by_file)
    report_statistics(work)


def _watch(work: LoadedProgram, form: Form) -> int:
    """Apply edits until Ctrl-C, and write what they change; the exit code."""
    work.reasoner.runtime.started = None  # the timeout is for each edit, not for the session

    def show(delta: Delta | None) -> None:
        exports = exports_of(work)
        outputs = outputs_of(work, exports)
        if delta is not None and work.options.output is None:
            most = form.rows if form.rows is not None else ROWS_ON_TERMINAL if sys.stdout.isatty() else 0
            print_script(delta, tuple(result.name for result in outputs), most or None)
        if delta is None or delta:
            report_files(work, write_files(work, outputs if work.options.output else [], exports, form))
        _report_edit(work, delta)

    return ProgramWatch(work, show).run()


def query(options: Namespace) -> int:
    """The exit code of `tidelog query`."""
    form = Form.of(options, "table")
    form.check_mixed()
    check_options(options, form)
    check_printable(1, form)
    _check_strategy(options.strategy)
    if options.engine == "spark":
        from tidelog.cli.commands import spark_commands

        return spark_commands.query(options)
    with LoadedProgram(options) as work:
        _query(work, form)
    return 0


def _query(work: LoadedProgram, form: Form) -> None:
    """Answer the query."""
    options = work.options
    work.warn(about_unused=False)
    with work.showing_progress(), work.keeping_rejects():
        work.read()
        arguments = (options.query, options.strategy)
        explained = work.reasoner.explain_strategy(*arguments) if options.explain_strategy else ""
        answers = work.reasoner.query(options.query, options.strategy, limit=options.limit)
    work.report_rejects()
    work.report_completeness()
    for line in explained.splitlines():
        work.messages.say(line)
    print_result(
        Result(" ".join(options.query.split()), len(answers.columns), lambda: answers, "query"), form
    )
    report_statistics(work)


def _check_strategy(name: str) -> None:
    """Raise UsageError if no strategy has this name."""
    try:
        strategies.check_name(name)
    except ProgramError as error:
        fault = error.diagnostics[0]
        raise UsageError(fault.message, fault.help) from None


def check_options(options: Namespace, form: Form) -> None:
    """Raise UsageError if options are incompatible, or name unsuitable files."""
    output = getattr(options, "output", None)
    if output is not None and form.format == "table":
        raise UsageError("tables cannot be written to files", "choose another --format, such as csv")
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"--output {output} is not a folder")
    if getattr(options, "processes", None) and (options.store or options.engine != "columnar"):
        option = "--store" if options.store else f"--engine {options.engine}"
        raise UsageError(f"--processes cannot be combined with {option}")
    if options.stats and not options.stats.endswith(".json"):
        raise UsageError(f"--stats {options.stats} is not a name that ends in .json")


def outputs_of(work: LoadedProgram, exports: Iterable[tuple[Transfer, Export]]) -> list[Result]:
    """The output predicates; without `--output`, those that an export writes to a file are left out."""
    program = work.program
    exported = {transfer.predicate for transfer, export in exports}
    skipped = exported - set(program.outputs) if work.options.output is None else set()
    printed = [name for name in program.output_predicates if name not in skipped]
    return [_facts(work, name) for name in (*printed, *work.graphs)]


def _facts(work: LoadedProgram, name: str) -> Result:
    predicate = work.program.predicates[name]
    if name == TRIPLE and getattr(work.options, "triples", "all") != "all":
        return Result(predicate.written, predicate.arity, lambda: _triples(work))
    return Result(
        predicate.written,
        predicate.arity,
        lambda: work.reasoner[name],
        types=work.program.types_of(predicate),
    )


def _triples(work: LoadedProgram) -> Relation:
    """The triples that are inferred, or those that were given."""
    triples = work.reasoner[TRIPLE]
    columns, rows, dictionary = triples.coded
    explicit = (work.reasoner.engine.storage.row_flags(TRIPLE, columns, rows) & EXPLICIT) != 0
    is_selected = explicit if work.options.triples == "explicit" else ~explicit
    selected = tuple(column[is_selected] for column in columns)
    return Relation(
        triples.name, triples.columns, selected, int(is_selected.sum()), dictionary, lambda: triples.contents
    )


def _answers(work: LoadedProgram, query: Query) -> Result:
    name = query_name(query.text)
    return Result(name, len(query.variables), lambda: work.reasoner.query(query.text), "query")


# ---- files


def exports_of(work: LoadedProgram) -> list[tuple[Transfer, Export]]:
    """The exports of the program, and where they go."""
    predicates = work.program.predicates
    return [
        (transfer, export_file(transfer, predicates[transfer.predicate], work.options.output))
        for transfer in work.program.exports
    ]


def write_files(
    work: LoadedProgram, outputs: Iterable[Result], exports: Iterable[tuple[Transfer, Export]], form: Form
) -> dict[Path, int]:
    """The number of rows of each file written: all of them, or none and an error."""
    rows_by_file: dict[Path, int] = {}
    with staging(_inputs(work)) as staged:
        for transfer, export in exports:
            _write_export(work, transfer, export, staged, rows_by_file)
        for result in outputs:
            relation = result.relation
            output = work.options.output
            name = file_name(result.name, form.format, len(relation.columns))
            path = OPEN.to_write(output / name, output=output)
            if path not in rows_by_file:
                table = data(relation, form, result.types)
                options = replace(form.options, compressed=False)
                rows_by_file[path] = write(
                    staged.file(path), form.format, table.column_names, [table], options
                )
                _report_left_out(work, len(relation) - rows_by_file[path])
    return rows_by_file


def _inputs(work: LoadedProgram) -> frozenset[Path]:
    """The files that were read, which must not be written."""
    imported = (transfer_path(transfer, transfer.folder) for transfer in work.program.imports)
    return frozenset(path.resolve() for path in (*work.files, *imported) if path is not None)


def _write_export(
    work: LoadedProgram, transfer: Transfer, export: Export, staged: Staging, rows_by_file: dict[Path, int]
) -> None:
    """The facts of an export are in its file, or on standard output."""
    relation = work.reasoner[transfer.predicate].sorted()
    types = transfer.types or work.program.types_of(work.program.predicates[transfer.predicate])
    table = data(relation, Form(export.format, work.options.terms, mixed=work.options.mixed), types)
    if relation.columns and not isinstance(relation, TimedRelation):
        table = table.select(export.columns)
    if export.path is None:
        sys.stdout.flush()
        output = data_output()
        write(output, export.format, table.column_names, [table], export.options)
        output.flush()
        return
    compressed = export.options.compressed
    options = replace(
        export.options,
        compressed=is_compressed(export.path) if compressed is None else compressed,
        escape_formulas=export.options.escape_formulas or work.options.escape_formulas,
    )
    place = staged.file(export.path)
    rows_by_file[export.path] = write(place, export.format, table.column_names, [table], options)


# ---- reports


def report_files(work: LoadedProgram, rows_by_file: dict[Path, int]) -> None:
    for path, rows in rows_by_file.items():
        work.messages.say(f"wrote {path}, {counted(rows, 'row')}")


def _report_left_out(work: LoadedProgram, triples: int) -> None:
    """Say how many triples are not in a file of RDF."""
    if triples:
        work.messages.say(f"skipped {counted(triples, 'triple')} about literals, which RDF cannot express")


def _report_edit(work: LoadedProgram, delta: Delta | None) -> None:
    """What maintainer was chosen and why, if statistics were requested; in a file all of them."""
    work.reasoning = delta.seconds if delta is not None else None
    if work.options.stats == ON_SCREEN:
        for line in choices(work.tally):
            work.messages.say(f"{work.maintainer} {line}")
    else:
        report_statistics(work)
