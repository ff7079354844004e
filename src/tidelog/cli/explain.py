"""`tidelog explain`: why facts hold, why one does not, what a change would change."""

from __future__ import annotations

import json
from argparse import Namespace

from tidelog.cli.deltas import script_lines
from tidelog.cli.files import write_text
from tidelog.cli.options import format_of
from tidelog.cli.reasoning import Work
from tidelog.cli.usage import UsageError
from tidelog.proof.explanation import Explanation
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.reasoner import Reasoner


def explain(options: Namespace) -> int:
    """The exit code of `tidelog explain`."""
    _check(options)
    with Work(options) as work:
        work.warn(about_unused=False)
        with work.showing_progress(), work.keeping_rejects():
            work.read()
            text = _asked(work.reasoner, options)
        work.report_rejects()
    write_text(text, options.output, work.messages)
    return 0


def _check(options: Namespace) -> None:
    """Nothing, if the options go together; else a usage error."""
    asked = (options.query, options.why_not, options.what_if)
    if sum(each is not None for each in asked) != 1:
        raise UsageError("explain takes one of QUERY, --why-not FACT and --what-if CHANGES")
    form = format_of(options)
    if options.query is None and form not in ("text", "json"):
        raise UsageError(f"--format {form} is for proofs", "choose text or json")
    for name in ("all", "limit"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} 0 leaves nothing to explain")


def _asked(reasoner: Reasoner, options: Namespace) -> str:
    """Return the explanation that is asked for, in the format that is asked for."""
    form = format_of(options)
    if options.what_if is not None:
        return _changed(reasoner.what_if(options.what_if, name="<what-if>"), form)
    if options.why_not is not None:
        doubted = reasoner.why_not(options.why_not, repairs=options.limit)
        return _json(doubted.to_json()) if form == "json" else doubted.to_text()
    found = reasoner.explain(options.query, proofs=options.all, limit=options.limit, rows=options.rows)
    return _written(found, form, options.depth)


def _changed(delta: Delta, format: str) -> str:
    """What would change, as a change script, or as an object for each fact."""
    lines = list(script_lines(delta))
    if format == "json":
        return _json([{"change": line[0], "fact": line[2:].removesuffix(" .")} for line in lines])
    return "".join(f"{line}\n" for line in lines) or "nothing would change\n"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _written(found: Explanation, format: str, depth: int | None) -> str:
    match format:
        case "json":
            return _json(found.to_json())
        case "html":
            return found.to_html(depth)
        case "dot":
            return found.to_dot(depth)
        case _:
            return found.to_text(depth)
