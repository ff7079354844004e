"""`tidelog ontology`."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter

from tidelog.cli.messages import Messages
from tidelog.cli.terminal import show
from tidelog.errors import counted
from tidelog.ontology.ontology import Ontology, load_ontology


def ontology(options: Namespace) -> int:
    """The exit code of `tidelog ontology`."""
    messages = Messages(options.quiet)
    found = load_ontology(*options.files, equality=options.same_as, tell=messages.say)
    if options.show == "rules":
        messages.diagnose(found.warnings)
        show(found.text(), end="")
    else:
        for line in coverage(found):
            show(line)
    return 0


def coverage(found: Ontology) -> list[str]:
    """What there is of an ontology, what rules it became, and what they do not cover, as lines of text."""
    rows = Counter(rule.name or "within themselves" for rule in found.rules)
    lines = [counted(sum(found.axioms.values()), "axiom")]
    lines += _counted(found.axioms)
    lines += ["", f"{counted(len(found.rules), 'rule')}, by the rows of the tables"]
    lines += _counted(rows)
    if not found.gaps:
        return [*lines, "", "all of it lies within OWL 2 RL"]
    lines += ["", f"{len(found.gaps):,} outside OWL 2 RL"]
    for gap in found.gaps:
        lines += [f"  {gap.axiom}", f"    {gap.reason}"]
    return lines


def _counted(counts: Counter[str]) -> list[str]:
    width = max(map(len, counts), default=0)
    return [f"  {name:<{width}}  {count:>6,}" for name, count in sorted(counts.items())]
