"""`tidelog explain`: why facts hold."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from tidelog.cli.arguments import UsageError
from tidelog.cli.messages import Messages
from tidelog.cli.reasoning import Work
from tidelog.io.atomic import replacing
from tidelog.proof.explanation import Explanation


def explain(options: Namespace) -> int:
    """The exit code of `tidelog explain`."""
    for name in ("all", "limit"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} 0 leaves nothing to explain")
    work = Work(options)
    work.warn(about_unused=False)
    with work.showing_progress(), work.keeping_rejects():
        work.read()
        found = work.reasoner.explain(
            options.query, proofs=options.all, limit=options.limit, rows=options.rows
        )
    work.report_rejects()
    put_out(_written(found, options.format, options.depth), options.output, work.messages)
    return 0


def _written(found: Explanation, format: str, depth: int | None) -> str:
    match format:
        case "json":
            return json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n"
        case "html":
            return found.to_html(depth)
        case "dot":
            return found.to_dot(depth)
        case _:
            return found.to_text(depth)


def put_out(text: str, path: Path | None, messages: Messages) -> None:
    """Let the text be on standard output, or in a file."""
    if path is None:
        sys.stdout.write(text)
        return
    with replacing(path) as stream:
        stream.write(text.encode())
    messages.say(f"wrote {path}")
