"""The columnar engine on data larger than its batches, blocks and first capacities, against plain NumPy."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import tidelog as tl
from tidelog.engine.columnar.interpreter import executor, plan_runner
from tidelog.engine.columnar.storage import catalog
from tidelog.engine.protocol import Runnable
from tidelog.plan.algebra import RulePlan

Pairs = set[tuple[int, int]]
Matrix = npt.NDArray[np.bool_]

HASHED = 4  # bytes: no set of rows is a direct array
DENSE = 64 << 20
both_sets = pytest.mark.parametrize("dense_bytes", [HASHED, DENSE], ids=["hashed", "dense"])


def random_pairs(seed: int, count: int, left: int, right: int) -> npt.NDArray[np.int64]:
    """Distinct random pairs below the bounds."""
    random = np.random.default_rng(seed)
    pairs = np.stack([random.integers(0, left, count), random.integers(0, right, count)], 1)
    return np.unique(pairs, axis=0)


def reasoner_of(
    text: str, dense_bytes: int = DENSE, modules: bool = False, **facts: npt.NDArray[np.int64]
) -> tl.Reasoner:
    """A reasoner with the columns of each array as facts."""
    with patch.object(catalog, "DENSE_BYTES", dense_bytes):
        reasoner = tl.Reasoner(tl.parse(text), threads=1, modules=modules)
    for name, rows in facts.items():
        columns = {f"c{place}": rows[:, place] for place in range(rows.shape[1])}
        reasoner.insert(name, pa.table(columns), define=True)
    return reasoner


def rows_of(reasoner: tl.Reasoner, name: str) -> set[tuple[int, ...]]:
    table = reasoner[name].to_arrow()
    assert not len(table) or all(map(pa.types.is_integer, table.schema.types))
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


def matrix_of(pairs: npt.NDArray[np.int64], side: int) -> Matrix:
    matrix = np.zeros((side, side), bool)
    matrix[pairs[:, 0], pairs[:, 1]] = True
    return matrix


def pairs_of(matrix: Matrix) -> Pairs:
    return {(int(row), int(column)) for row, column in np.argwhere(matrix)}


def reached(edges: Iterable[tuple[int, int]]) -> Pairs:
    """The closure by a breadth-first search from every node."""
    successors: dict[int, list[int]] = defaultdict(list)
    for origin, target in edges:
        successors[origin].append(target)
    closure: Pairs = set()
    for start in list(successors):
        waiting, seen = deque(successors[start]), set(successors[start])
        while waiting:
            for target in successors.get(waiting.popleft(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        closure.update((start, target) for target in seen)
    return closure


# ---- recursion

LINEAR = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) ."
DOUBLING = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), path(?y, ?z) ."
RIGHT = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- edge(?x, ?y), path(?y, ?z) ."


@both_sets
@pytest.mark.parametrize("modules", [True, False], ids=["structure", "rules"])
@pytest.mark.parametrize("text", [LINEAR, DOUBLING, RIGHT], ids=["linear", "doubling", "right"])
def test_the_closure_of_a_random_graph_is_that_of_a_search(
    text: str, modules: bool, dense_bytes: int
) -> None:
    edges = random_pairs(1, 550, 300, 300)
    found = rows_of(reasoner_of(text, dense_bytes, modules, edge=edges), "path")
    assert found == reached(map(tuple, edges.tolist()))
    assert len(found) > 20_000


@both_sets
def test_the_same_generation_is_that_of_matrices(dense_bytes: int) -> None:
    parents = random_pairs(2, 330, 250, 120)
    text = """
        same(?x, ?y) :- parent(?x, ?p), parent(?y, ?p) .
        same(?x, ?y) :- parent(?x, ?p), same(?p, ?q), parent(?y, ?q) .
    """
    parent = matrix_of(parents, 250).astype(np.int64)
    same = parent @ parent.T > 0
    while True:
        larger = same | (parent @ same.astype(np.int64) @ parent.T > 0)
        if (larger == same).all():
            break
        same = larger
    assert rows_of(reasoner_of(text, dense_bytes, parent=parents), "same") == pairs_of(same)


def test_a_long_chain_takes_a_round_for_each_step() -> None:
    reasoner = reasoner_of(
        "at(0) . at(?y) :- at(?x), next(?x, ?y) .", next=np.stack([np.arange(3000), np.arange(1, 3001)], 1)
    )
    assert len(reasoner["at"]) == 3001
    assert reasoner.statistics.rounds >= 3001


@both_sets
def test_a_rule_may_turn_the_table_it_reads(dense_bytes: int) -> None:
    pairs = random_pairs(3, 9000, 2000, 2000)
    found = rows_of(reasoner_of("p(?y, ?x) :- p(?x, ?y) .", dense_bytes, p=pairs), "p")
    forwards = set(map(tuple, pairs.tolist()))
    assert found == forwards | {(right, left) for left, right in forwards}


# ---- joins larger than a batch


@both_sets
def test_a_join_with_a_large_fan_out_fills_many_batches(dense_bytes: int) -> None:
    left, right = random_pairs(4, 3000, 700, 5), random_pairs(5, 3000, 5, 700)
    found = rows_of(reasoner_of("r(?x, ?y) :- a(?x, ?k), b(?k, ?y) .", dense_bytes, a=left, b=right), "r")
    joined = matrix_of(left, 700).astype(np.int64) @ matrix_of(right, 700).astype(np.int64) > 0
    assert found == pairs_of(joined)


def test_a_cross_product_of_thousands() -> None:
    text = "r(?x, ?y) :- a(?x), b(?y) . s(?x) :- a(?x), b(_) . t(?x) :- a(?x), ~b(_) ."
    ones = np.arange(5000)[:, None]
    reasoner = reasoner_of(text, a=ones, b=ones[:60] + 10_000)
    assert len(reasoner["r"]) == 300_000
    assert len(reasoner["s"]) == 5000
    assert len(reasoner["t"]) == 0


def test_a_triangle_join_is_that_of_matrices() -> None:
    edges = random_pairs(6, 4000, 200, 200)
    found = rows_of(reasoner_of("t(?x, ?y, ?z) :- e(?x, ?y), e(?y, ?z), e(?z, ?x) .", e=edges), "t")
    matrix = matrix_of(edges, 200)
    expected = {
        (x, y, int(z))
        for x, y in map(tuple, edges.tolist())
        for z in np.flatnonzero(matrix[y] & matrix[:, x])
    }
    assert found == expected


@both_sets
def test_constants_and_repeated_variables_in_large_joins(dense_bytes: int) -> None:
    random = np.random.default_rng(7)
    rows = np.unique(random.integers(0, 12, (6000, 4)), axis=0)
    text = """
        scan(?x, ?y) :- t(?x, 3, ?x, ?y) .
        join(?x, ?y) :- n(?x), t(?x, ?y, 5, ?y) .
        free(?x, ?y) :- n(?x), t(4, ?y, ?y, ?y) .
        key2(?x, ?y) :- e(?x, ?y), t(?x, 7, ?y, _) .
        none(?x, ?y) :- e(?x, ?y), ~t(?x, ?z, ?z, ?y) .
        gone(?x, ?y) :- e(?x, ?y), ~t(?y, 2, ?x, 2) .
    """
    pairs = random_pairs(8, 100, 12, 12)
    reasoner = reasoner_of(text, dense_bytes, t=rows, e=pairs, n=np.arange(12)[:, None])
    facts = set(map(tuple, rows.tolist()))
    edges = set(map(tuple, pairs.tolist()))
    assert rows_of(reasoner, "scan") == {(a, d) for a, b, c, d in facts if b == 3 and a == c}
    assert rows_of(reasoner, "join") == {(a, b) for a, b, c, d in facts if c == 5 and b == d}
    assert rows_of(reasoner, "free") == {
        (x, b) for x in range(12) for a, b, c, d in facts if a == 4 and b == c == d
    }
    assert rows_of(reasoner, "key2") == edges & {(a, c) for a, b, c, d in facts if b == 7}
    assert rows_of(reasoner, "none") == edges - {(a, d) for a, b, c, d in facts if b == c}
    assert rows_of(reasoner, "gone") == edges - {(c, a) for a, b, c, d in facts if b == d == 2}


def test_columns_of_arity_six_join_by_any_of_them() -> None:
    random = np.random.default_rng(9)
    rows = np.unique(random.integers(0, 9, (6000, 6)), axis=0)
    text = """
        r(?a, ?f) :- s(?a, ?b, ?c, ?d, ?e, ?f), s(?f, ?e, ?d, ?c, ?b, ?a) .
        u(?x) :- s(_, _, ?x, ?x, ?x, _) .
    """
    reasoner = reasoner_of(text, s=rows)
    facts = set(map(tuple, rows.tolist()))
    assert rows_of(reasoner, "r") == {(row[0], row[5]) for row in facts if row[::-1] in facts}
    assert rows_of(reasoner, "u") == {(row[2],) for row in facts if row[2] == row[3] == row[4]}


def test_few_rows_among_many_constants_are_found_through_hashes() -> None:
    """Indexes are hashed where they would be large and empty."""
    many = np.arange(100_000)[:, None]
    pairs = random_pairs(10, 500, 100_000, 20)
    others = np.concatenate([random_pairs(11, 500, 15, 100_000), pairs[:9, ::-1]])
    text = """
        r(?x, ?z) :- p(?x, ?y), q(?y, ?z) .
        s(?x) :- p(?x, ?y), q(?y, ?x) .
        t(?y) :- p(?x, ?y), ~q(?y, _) .
    """
    reasoner = reasoner_of(text, many=many, p=pairs, q=others)
    expected = {(x, z) for x, y in pairs.tolist() for v, z in others.tolist() if v == y}
    assert rows_of(reasoner, "r") == expected
    assert rows_of(reasoner, "s") == {(x,) for x, z in expected if x == z}
    assert rows_of(reasoner, "t") == {(y,) for _, y in pairs.tolist()} - {(y,) for y, _ in others.tolist()}


# ---- negation, functions and aggregates over many rows


@both_sets
def test_what_is_not_reached(dense_bytes: int) -> None:
    edges = random_pairs(12, 300, 150, 150)
    text = f"{LINEAR} apart(?x, ?y) :- n(?x), n(?y), ~path(?x, ?y) ."
    found = rows_of(reasoner_of(text, dense_bytes, edge=edges, n=np.arange(150)[:, None]), "apart")
    everything = {(x, y) for x in range(150) for y in range(150)}
    assert found == everything - reached(map(tuple, edges.tolist()))


def test_arithmetic_and_comparison_over_many_rows() -> None:
    pairs = random_pairs(13, 20_000, 1000, 1000)
    text = """
        sum(?s) :- p(?x, ?y), ?s = ?x * 3 - ?y .
        less(?x, ?y) :- p(?x, ?y), ?x < ?y - 500 .
        quotient(?x, ?q) :- p(?x, ?y), ?q = ?x / ?y .
        both(?x) :- p(?x, ?y), ?x + ?y = 999, ?x != ?y .
    """
    reasoner = reasoner_of(text, p=pairs)
    rows = list(map(tuple, pairs.tolist()))
    assert rows_of(reasoner, "sum") == {(x * 3 - y,) for x, y in rows}
    assert rows_of(reasoner, "less") == {(x, y) for x, y in rows if x < y - 500}
    assert rows_of(reasoner, "quotient") == {(x, x // y) for x, y in rows if y}
    assert rows_of(reasoner, "both") == {(x,) for x, y in rows if x + y == 999 and x != y}
    assert reasoner.statistics.rules[2].no_value == sum(y == 0 for _, y in rows)


@both_sets
def test_computed_values_outgrow_sets_and_indexes(dense_bytes: int) -> None:
    """Every round computes values that were not there when sets and indexes were made."""
    text = """
        pair(?x, ?y) :- seed(?x, ?y) .
        pair(?y, ?z) :- pair(?x, ?y), ?x < 20000, ?z = ?x + ?y .
        sum(?s, ?x) :- pair(?x, ?y), ?s = ?x + ?y * 100000 .
        back(?y) :- sum(?s, ?x), pair(?x, ?y), ?s = ?x + ?y * 100000 .
    """
    seeds = np.stack([np.arange(40), np.arange(40) + 1], 1)
    reasoner = reasoner_of(text, dense_bytes, seed=seeds)
    expected: Pairs = set()
    for first, second in seeds.tolist():
        while (first, second) not in expected:
            expected.add((first, second))
            if first < 20_000:
                first, second = second, first + second
    assert rows_of(reasoner, "pair") == expected
    assert rows_of(reasoner, "sum") == {(x + y * 100_000, x) for x, y in expected}
    assert rows_of(reasoner, "back") == {(y,) for _, y in expected}


def test_texts_computed_for_many_rows() -> None:
    text = 'label(?x, ?t) :- n(?x), ?t = CONCAT("n", STR(?x)) . long(?t) :- label(_, ?t), STRLEN(?t) > 4 .'
    reasoner = reasoner_of(text, n=np.arange(6000)[:, None])
    assert len(reasoner["label"]) == 6000
    assert set(reasoner["long"]) == {(f"n{number}",) for number in range(1000, 6000)}


def test_aggregates_over_many_groups() -> None:
    pairs = random_pairs(14, 30_000, 2000, 5000)
    text = (
        "all(?x, #count(?y), #sum(?y), #min(?y), #max(?y)) :- p(?x, ?y) . total(#sum(?y, ?x)) :- p(?x, ?y) ."
    )
    reasoner = reasoner_of(text, p=pairs)
    groups: dict[int, list[int]] = defaultdict(list)
    for key, value in pairs.tolist():
        groups[key].append(value)
    expected = {(key, len(found), sum(found), min(found), max(found)) for key, found in groups.items()}
    assert rows_of(reasoner, "all") == expected
    assert rows_of(reasoner, "total") == {(int(pairs[:, 1].sum()),)}


# ---- against DuckDB


def test_recursion_negation_and_aggregates_are_those_of_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    edges = random_pairs(15, 500, 250, 250)
    text = f"""{LINEAR}
        count(?x, #count(?y)) :- path(?x, ?y) .
        oneway(?x, ?y) :- path(?x, ?y), ~path(?y, ?x), ?x < ?y .
    """
    reasoner = reasoner_of(text, edge=edges)
    database = duckdb.connect(":memory:")
    database.register("edge", pa.table({"x": edges[:, 0], "y": edges[:, 1]}))
    database.execute("""
        CREATE TABLE path AS WITH RECURSIVE path(x, y) AS (
            SELECT x, y FROM edge UNION SELECT path.x, edge.y FROM path JOIN edge ON path.y = edge.x
        ) SELECT * FROM path
    """)
    count = "SELECT x, count(*) FROM path GROUP BY x"
    oneway = "SELECT x, y FROM path p WHERE x < y AND NOT EXISTS (FROM path q WHERE q.x = p.y AND q.y = p.x)"
    assert rows_of(reasoner, "path") == set(database.execute("FROM path").fetchall())
    assert rows_of(reasoner, "count") == set(database.execute(count).fetchall())
    assert rows_of(reasoner, "oneway") == set(database.execute(oneway).fetchall())


# ---- edges of what there is room for


@pytest.mark.parametrize("literals", [61, 62, 63, 64, 65, 200])
def test_bodies_of_many_literals(literals: int) -> None:
    atoms = ", ".join(f"e(?x{place}, ?x{place + 1})" for place in range(literals))
    reasoner = tl.Reasoner(tl.parse(f"e(1, 2) . e(2, 1) . p(?x0, ?x{literals}) :- {atoms} ."))
    end = 1 if literals % 2 == 0 else 2
    assert set(reasoner["p"]) == {(1, end), (2, 3 - end)}


def test_a_body_of_too_many_literals_is_an_error() -> None:
    tests = ", ".join(f"?x < {number + 10}" for number in range(8_400))
    rule = f"p(?x) :- e(?x), {tests} ."
    anew = tl.Reasoner(tl.parse(f"e(1) .\n  {rule}"))
    changed = tl.Reasoner(tl.parse("e(1) . q(?x) :- e(?x) ."))
    changed.materialise()
    for work in (anew.materialise, lambda: changed.apply(f"\n  + {rule}")):
        with pytest.raises(tl.EvaluationError) as caught:
            work()
        (fault,) = caught.value.diagnostics
        assert fault.code == "E604"
        assert fault.span is not None
        assert fault.span.text.removeprefix("+ ").startswith("p(?x) :- e(?x), ?x < 10")
    assert set(changed["q"]) == {(1,)}


def test_many_predicates_and_indexes() -> None:
    rules = "\n".join(
        f"p{number + 1}(?y, ?x) :- p{number}(?x, ?y), q{number}(?y, _), ~r{number}(?x, _) ."
        for number in range(60)
    )
    facts = "\n".join(f"q{number}({value}, a) ." for number in range(60) for value in (1, 2))
    nots = "\n".join(f"r{number}(9, a) ." for number in range(60))
    reasoner = tl.Reasoner(tl.parse(f"p0(1, 2) . p0(2, 1) . p0(9, 1) .\n{rules}\n{facts}\n{nots}"))
    assert set(reasoner["p60"]) == {(1, 2), (2, 1)}


def test_predicates_of_many_columns() -> None:
    columns = ", ".join(f"?x{place}" for place in range(40))
    reversed_columns = ", ".join(f"?x{place}" for place in reversed(range(40)))
    constants = ", ".join(map(str, range(40)))
    text = f"wide({constants}) . turned({reversed_columns}) :- wide({columns}), wide({columns}) ."
    assert set(tl.Reasoner(tl.parse(text))["turned"]) == {tuple(reversed(range(40)))}


def test_wide_predicates_may_come_after_narrow_ones() -> None:
    reasoner = tl.Reasoner(tl.parse("e(1, 2) . p(?x, ?z) :- e(?x, ?y), f(?y, ?z) . f(2, 3) ."))
    assert set(reasoner["p"]) == {(1, 3)}
    for arity in (5, 9, 17):
        row = tuple(range(arity))
        reasoner.insert(f"wide{arity}", [row], define=True)
        variables = ", ".join(f"?x{place}" for place in range(arity))
        reasoner.add(f"copy{arity}({variables}) :- wide{arity}({variables}), e(1, ?x2) .")
        assert set(reasoner[f"copy{arity}"]) == {row}
        assert set(reasoner["p"]) == {(1, 3)}


def test_a_small_batch_gives_the_same_statistics() -> None:
    edges = random_pairs(16, 200, 60, 60)

    def statistics(batch: int) -> list[tuple[int, int, int]]:
        with patch.object(plan_runner, "BATCH", batch):
            reasoner = reasoner_of(
                f"{DOUBLING} far(?x) :- path(?x, ?y), ?z = 100 / ?x, ?z > ?y .", edge=edges
            )
            reasoner.materialise()
        return [
            (rule.matches, rule.new, rule.no_value) for _, rule in sorted(reasoner.statistics.rules.items())
        ]

    assert statistics(3) == statistics(4096)


def test_each_instance_of_a_rule_is_considered_once() -> None:
    """Semi-naive evaluation: the matches of a rule are the instances of its body in the model."""
    edges = random_pairs(17, 150, 60, 60)
    reasoner = reasoner_of(DOUBLING, edge=edges)
    closure = matrix_of(np.array(sorted(rows_of(reasoner, "path"))), 60).astype(np.int64)
    assert reasoner.statistics.rules[1].matches == int((closure @ closure).sum())
    assert reasoner.statistics.rules[0].matches == len(edges)


# ---- relations as users see them


def test_a_relation_stays_as_it_was_when_facts_are_added() -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))
    reasoner.insert("e", [(number,) for number in range(100)])
    before, given = reasoner["p"], reasoner["e"]
    reasoner.insert("e", [(number,) for number in range(100, 5000)])
    assert len(reasoner["p"]) == 5000
    assert set(before) == set(given) == {(number,) for number in range(100)}


def test_rows_are_asked_for_by_value() -> None:
    reasoner = tl.Reasoner(tl.parse('p(1, a) . p(2.5, "b c") .'))
    assert (1, "a") in reasoner["p"]
    assert (1.0, "a") not in reasoner["p"]
    assert (1,) not in reasoner["p"]
    assert reasoner["p"] == tl.Reasoner(tl.parse('p(2.5, "b c") . p(1, a) .'))["p"]


def test_no_predicate_has_the_name_of_what_the_engine_keeps_for_itself() -> None:
    """Rows to aggregate and answers are kept as relations beside those of the program."""
    program = tl.parse("<p#0>(1, 2) . <p#0>(1, 3) . <?->(5) . <p>(?x, #count(?y)) :- <p#0>(?x, ?y) .")
    reasoner = tl.Reasoner(program)
    assert set(reasoner["p"]) == {(1, 2)}
    assert set(reasoner["p#0"]) == {(1, 2), (1, 3)}
    assert set(reasoner.query("<?->(?x)")) == {(5,)}
    assert set(reasoner["?-"]) == {(5,)}


def test_no_rows_tell_nothing_of_a_predicate() -> None:
    reasoner = tl.Reasoner()
    assert reasoner.insert("t", [], define=True) == 0
    assert reasoner.insert("t", [(1, 2)], define=True) == 1
    assert set(reasoner["t"]) == {(1, 2)}


def test_rules_are_planned_when_their_constants_occur() -> None:
    text = """
        fact(a, first, b) . fact(b, second, c) .
        fact(?x, third, ?y) :- fact(?x, first, ?y) .
        fact(?x, fourth, ?z) :- fact(?x, third, ?y), fact(?y, second, ?z) .
        fact(?x, sixth, ?y) :- fact(?x, fifth, ?y) .
        fact(?x, seventh, ?y) :- fact(?x, fourth, ?y), fact(?x, eighth, ?y) .
    """
    planned: list[int] = []
    prepare = executor.Executor.prepare

    def noted(engine: executor.Executor, plan: RulePlan) -> Runnable:
        planned.append(plan.number)
        return prepare(engine, plan)

    with patch.object(executor.Executor, "prepare", noted):
        reasoner = tl.Reasoner(tl.parse(text), threads=1)
        reasoner.materialise()
    assert sorted(planned) == [0, 1]
    assert len(reasoner["fact"]) == 4
