"""Why facts hold when they do: the proofs of what a query about time asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from tidelog.data.relation import Relation
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Atom, Fact, Program, Query, Throughout, literal_variables
from tidelog.plan.rule_text import Writing
from tidelog.proof.explanation import Explanation
from tidelog.proof.instances import NOT_EXPLAINED
from tidelog.proof.node import Node
from tidelog.proof.timed_plan import Goal
from tidelog.proof.timed_stages import Ends, Stages, TimedFact, covers
from tidelog.proof.timed_tree import TimedTrees
from tidelog.proof.tree import Origin
from tidelog.proof.why import does_not_hold
from tidelog.temporal.reasoning import Temporal
from tidelog.temporal.relation import TimedRelation


class TimedProver:
    """Finds proofs in what is derived over time; `without` proves what holds always."""

    def __init__(
        self, time: Temporal, origin: Origin, without: Callable[[Fact], Node], check: Callable[[], None]
    ) -> None:
        self._time = time
        self._origin = origin
        self._without = without
        self._check = check

    def explain(self, query: Query, program: Program, limit: int, most: int | None) -> Explanation:
        """A proof of each of the first answers to a query, for each stretch at which it is one."""
        atom, interval = _asked(query)
        answers = self._time.answer(query, program)
        if not len(answers):
            raise does_not_hold(query, can_say_why_not=False)
        stages = Stages(self._time.store, program, self._check)
        asked = None if interval is None else self._time.store.timeline.ends(interval)
        goals = list(islice(self._goals(atom, asked, query, answers, stages), limit))
        stages.prepare([(goal.fact, goal.ends) for goal in goals])
        for goal in goals:
            if not covers(stages.known[goal.fact].now, goal.ends):
                raise _beyond(query)
        trees = TimedTrees(stages, self._origin, self._always, most)
        proofs = tuple(trees.proof(goal) for goal in goals)
        return Explanation(query.text.strip(), proofs, Writing.of(program), len(answers) - len(goals))

    def _goals(
        self, atom: Atom, asked: Ends | None, query: Query, answers: Relation, stages: Stages
    ) -> Iterator[Goal]:
        """What is to be proved: each answer at the time that is asked for, or when it is one."""
        columns = [column.tolist() for column in answers.coded.columns]
        for place in range(len(answers)):
            binding = {name: column[place] for name, column in zip(query.variables, columns, strict=True)}
            fact = stages.ground(atom, binding)
            assert fact is not None, "answers have values"
            if asked is None:
                assert isinstance(answers, TimedRelation)
                yield Goal(fact, (int(answers.left[place]), int(answers.right[place])))
            else:
                yield Goal(fact, asked)

    def _always(self, fact: TimedFact) -> Node:
        decode = self._time.engine.dictionary.decode
        return self._without(Fact(fact.predicate, tuple(map(decode, fact.key))))


def _beyond(query: Query) -> ProgramError:
    """That what a fact follows from is not there: forgotten, or beyond where facts were derived."""
    message = f"`{query.text.strip()}` holds, but what it follows from at this time is not kept"
    help = "ask for a time near the data, and not before the time that was advanced to"
    return ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))


def _asked(query: Query) -> tuple[Atom, Interval | None]:
    """The atom that a query is, and the time it names; an error if it is anything else."""
    match query.rule.body:
        case (Throughout(atom, interval),):
            return atom, interval
        case (Atom() as atom,) if all(
            variable.name in query.variables for variable in literal_variables(atom)
        ):
            return atom, None
    message = "where facts hold at times, proofs are found of single facts"
    help = "ask for one: `explain PROGRAM 'hot(s1)@15'`, `'hot(s1)@[10, 15]'` or `'hot(?x)'`"
    raise ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))
