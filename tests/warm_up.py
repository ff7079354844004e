"""Compiles the kernels before the tests start, so that their workers find them in the cache."""

from __future__ import annotations

import tidelog as tl

PROGRAM = """
    e(1, 2). e(2, 3). e(3, 1). e(3, a). name(1, "one"). name(2, "two"). weight(1, 0.5). weight(2, 2E0).
    t(?x, ?y) :- e(?x, ?y).
    t(?x, ?z) :- t(?x, ?y), e(?y, ?z).
    far(?x, ?y) :- t(?x, ?y), ~e(?x, ?y), ?x != ?y.
    next(?x, ?x + 1, CONCAT(?n, "!")) :- name(?x, ?n), ?x < 5.
    heavy(?x, ?w * 2) :- weight(?x, ?w).
    degree(?x, #count(?y), #max(?y)) :- t(?x, ?y).
"""


def main() -> None:
    """Run a program that uses a bit of everything."""
    reasoner = tl.Reasoner(tl.parse(PROGRAM))
    reasoner.materialise()
    for name in reasoner:
        reasoner[name].sorted().to_arrow()
    reasoner.query("t(1, ?x), name(?x, ?n)")


if __name__ == "__main__":
    main()
