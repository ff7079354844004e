"""Random programs with equality, and random changes of their facts and rules."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

Fact = str

EQUATING = (
    "?x = ?y :- r(?k, ?x), r(?k, ?y) .",
    "?x = ?y :- r(?x, ?k), r(?y, ?k) .",
    "?x = ?y :- same(?x, ?y) .",
    "?x = c :- u(?x) .",
    "?x = ?y :- s(?x, ?z), s(?z, ?y), u(?z) .",
    "?x = ?y :- t(?x, ?k, ?j), t(?y, ?k, ?j) .",
    "?x = ?y :- r(?x, ?y), s(?y, ?z), STR(?x) < STR(?z) .",
    "?x = ?y :- s(?x, ?z), ?y = IRI(STR(?z)), u(?z) .",
)
BELOW = (
    "s(?x, ?y) :- r(?y, ?x) .",
    "s(?x, ?z) :- s(?x, ?y), s(?y, ?z) .",
    "s(?y, ?x) :- s(?x, ?y) .",
    "u(?x) :- s(?x, a) .",
    "r(?x, b) :- u(?x), s(b, ?x) .",
    "t(?x, ?y, a) :- s(?x, ?y), u(?y) .",
    "same(?x, ?y) :- t(?x, ?y, ?x) .",
)
ABOVE = (
    "lone(?x) :- u(?x), ~s(?x, _) .",
    "apart(?x, ?y) :- u(?x), u(?y), ~same(?x, ?y), ~r(?x, ?y) .",
    "n(?x, #count(?y)) :- s(?x, ?y) .",
    "own(?x, #count(?x)) :- u(?x) .",
    "all(#count(?x, ?y)) :- r(?x, ?y) .",
    "other(?x) :- r(?x, ?y), ?x != ?y .",
    "alike(?x, ?y) :- s(?x, ?z), u(?y), ?x = ?y .",
    "label(?x, STR(?x)) :- u(?x) .",
    'found(?x) :- label(?x, ?l), ?l != "b", ~r(?x, ?x) .',
    "back(?y) :- u(?x), r(?x, ?z), ?y = IRI(CONCAT(STR(?z), STR(?x))) .",
    "busy(?n) :- n(?x, ?n), ?n > 1, u(?x) .",
)
DECLARED = "@declare r(x: any, y: any) . @declare s(x: any, y: any) . @declare u(x: any) ."
DECLARED += (
    "@declare same(x: any, y: any) . @declare t(x: any, y: any, z: any) . @declare equal(x: any, y: any) ."
)
ALWAYS = "?x = ?y :- equal(?x, ?y) ."

CONSTANTS = st.sampled_from(("a", "b", "c", "d", "e", "f", "g"))
ARITIES = {"r": 2, "s": 2, "u": 1, "same": 2, "t": 3, "equal": 2}


@dataclass(frozen=True)
class Change:
    """What a transaction takes away and adds, as text."""

    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def text(self) -> str:
        """The change script."""
        return "".join(f"- {each}\n" for each in self.removed) + "".join(f"+ {each}\n" for each in self.added)


@dataclass(frozen=True)
class Script:
    """A program, its rules and facts, and transactions."""

    rules: tuple[str, ...]
    facts: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """The program."""
        return "\n".join((DECLARED, *self.rules, *self.facts))


@st.composite
def facts(draw: st.DrawFn) -> str:
    """A fact; most are of the binary relations that equate."""
    name = draw(st.sampled_from(("r", "r", "s", "u", "same", "t", "equal")))
    return f"{name}({', '.join(draw(CONSTANTS) for _ in range(ARITIES[name]))}) ."


@st.composite
def scripts(draw: st.DrawFn, rules_change: bool = False, most: int = 10, is_plain: bool = False) -> Script:
    """A script of a few transactions; if it is plain, equality comes with the second of them."""
    pool = [
        *draw(st.lists(st.sampled_from(EQUATING), max_size=0 if is_plain else 2, unique=True)),
        *draw(st.lists(st.sampled_from(BELOW), max_size=3, unique=True)),
        *draw(st.lists(st.sampled_from(ABOVE), max_size=3, unique=True)),
    ]
    begun = tuple(dict.fromkeys(draw(st.lists(facts(), min_size=2, max_size=most))))
    held = set(begun)
    rules = set(pool)
    changes = []
    for number in range(draw(st.integers(2 if is_plain else 1, 3))):
        removed = draw(st.lists(st.sampled_from(sorted(held)), max_size=4, unique=True)) if held else []
        added = [fact for fact in draw(st.lists(facts(), max_size=3, unique=True)) if fact not in held]
        held = held.difference(removed).union(added)
        if rules_change:
            gone = draw(st.lists(st.sampled_from(sorted(rules)), max_size=1)) if rules else []
            equating = EQUATING if number or not is_plain else ()
            others = [rule for rule in (*equating, *BELOW, *ABOVE) if rule not in rules]
            come = draw(st.lists(st.sampled_from(others), max_size=1))
            rules = rules.difference(gone).union(come)
            removed, added = [*gone, *removed], [*come, *added]
        if is_plain and number == 1:
            added.insert(0, ALWAYS)
        changes.append(Change(tuple(removed), tuple(added)))
    return Script((*(() if is_plain else (ALWAYS,)), *pool), begun, tuple(changes))
