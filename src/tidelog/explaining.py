"""What a reasoner says of itself: why a fact holds, why another does not, what a change would change."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext

from tidelog.engine.lock import locked
from tidelog.equality.axiomatised import Axiomatised
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Atom, Constant, Fact, Program, Query, Rule, TimedFact
from tidelog.origins import Origins, Place
from tidelog.plan.rule_text import Writing
from tidelog.program_facts import ProgramFacts
from tidelog.proof.demanded import demanded
from tidelog.proof.equal_why import EqualProver
from tidelog.proof.explanation import Explanation
from tidelog.proof.failure import WhyNot
from tidelog.proof.instances import NOT_EXPLAINED
from tidelog.proof.members import Treated
from tidelog.proof.node import Node
from tidelog.proof.timed_why import TimedProver
from tidelog.proof.tree import MOST_ROWS
from tidelog.proof.why import ASKED, Prover
from tidelog.proof.why_not import Doubter
from tidelog.proof.words import place_of
from tidelog.query.keeping import Keeping
from tidelog.query.looking_up import LookingUp
from tidelog.query.registry import UNKNOWN_STRATEGY
from tidelog.reasoner.asking import Asking
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.transaction import Change
from tidelog.temporal.reasoning import Temporal, is_timed

FULL, MAGIC = "full", "magic"  # strategies of explanations
MOST_ANSWERS = 10  # to a query that are explained, unless more are asked for
MOST_REPAIRS = 5  # by each rule and literal


class Explaining(Asking):
    """The part of a reasoner that explains."""

    _own: ProgramFacts
    _equality: Axiomatised
    time: Temporal

    def __init__(self, keeping: Keeping, looking_up: LookingUp) -> None:
        super().__init__(keeping, looking_up)
        self._origins = Origins(keeping.engine)
        self._prover = Prover(keeping.engine, self._origin)

    @abstractmethod
    def _complete(self) -> None:
        """Derive everything that follows, an inconsistency included, if that has not been done."""

    @locked
    def explain(
        self,
        text: str,
        *,
        proofs: int = 1,
        limit: int = MOST_ANSWERS,
        rows: int | None = MOST_ROWS,
        strategy: str = FULL,
    ) -> Explanation:
        """Why a fact such as `ancestor(alice, carol)` holds: a proof of the smallest height there is.

        Of a query with variables, why each of the first `limit` answers is one. More `proofs` of each have
        other last steps, lowest first. Of a group that is aggregated, so many `rows` are explained, all of
        them if that is None. Everything is derived first, unless it is already. With the strategy `magic`
        only what the query asks for is derived, and deleted again; but everything where there is equality, or
        the query is about times.
        Raises `ProgramError` if there is nothing to explain.
        """
        query = self._resolved(text)
        if strategy not in (FULL, MAGIC):
            message, help = f"explanations have no strategy `{strategy}`", f"use `{FULL}` or `{MAGIC}`"
            raise ProgramError(Diagnostic(UNKNOWN_STRATEGY, message, help=help))
        is_whole = is_timed(query, self._program) or has_equality(self._program.predicates)
        if strategy == MAGIC and not is_whole:
            return self._explain_demanded(query, proofs, limit, rows)
        self._complete()
        with self.runtime.limits().guarding():
            check = self.runtime.check
            if is_timed(query, self._program):
                timed = TimedProver(self.time, self._origin, self._proof_of, check)
                return timed.explain(query, self._program, limit, rows)
            if has_equality(self._program.predicates):
                return self._explain_equal(query, proofs, limit, rows)
            return self._prover.explain(query, self._program, proofs, limit, rows, check)

    def _explain_demanded(self, query: Query, proofs: int, limit: int, rows: int | None) -> Explanation:
        """Return why a fact holds, by what has to be derived for it."""
        place = self._place()
        with self.runtime.limits().guarding():
            facts = nullcontext() if place.is_materialised else demanded(query, place)
            with facts:
                return self._prover.explain(query, self._program, proofs, limit, rows, self.runtime.check)

    def _proof_of(self, fact: Fact) -> Node:
        """The proof of a fact that holds always."""
        atom = Atom(fact.predicate, tuple(map(Constant, fact.values)))
        query = Query(Rule(Atom(ASKED, ()), (atom,)), (), Writing.of(self._program).atom(atom))
        return self._prover.explain(query, self._program, check=self.runtime.check).proofs[0]

    def _explain_equal(self, query: Query, proofs: int, limit: int, rows: int | None) -> Explanation:
        """Why a fact holds where constants may be equal."""
        program, equality = self._program, self._equality
        instances = self._prover.instances(program)
        answer = equality.look_up(program, "expand") or (lambda query: instances.engine.answer(query.rule))
        treated = Treated(equality.known_classes(), equality.relation)
        prover = EqualProver(instances, treated, self._origin, self.runtime.check)
        return prover.explain(query, program, answer, proofs, limit, rows)

    @locked
    def why_not(self, text: str, *, repairs: int = MOST_REPAIRS) -> WhyNot:
        """Why a fact such as `reach(a, z)` does not hold: for each rule, the instance that comes nearest.

        Its `repairs` are facts that would complete a rule, so many by each rule and literal.
        """
        query = self._resolved(text)
        self._complete()
        if is_timed(query, self._program):
            message = "why a fact does not hold cannot be said yet where facts hold at times"
            raise ProgramError(Diagnostic(NOT_EXPLAINED, message))
        program = self._program
        if has_equality(program.predicates):
            program = self._with_axioms(program)
        with self.runtime.limits().guarding():
            instances = self._prover.instances(program)
            return Doubter(instances, program, self.runtime.check).explain(query, repairs)

    def _with_axioms(self, program: Program) -> Program:
        """The program with the axioms of equality as rules, if facts are kept so; else raises."""
        if self._equality.name != Axiomatised.name:
            message = "why a fact does not hold cannot be said yet where equal constants are rewritten"
            help = f"use `--equality {Axiomatised.name}`, `equality={Axiomatised.name!r}`"
            raise ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))
        return self._equality.meaning(program)

    @locked
    def what_if(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Delta:
        """What a transaction, written as a change script, would change: it is not made.

        It is worked in and taken back, and nobody is told. Raises what the transaction would raise.
        """
        with self._begin_rehearsal(missing) as change:
            change.apply(script, name=name)
        return change.delta

    @abstractmethod
    def _begin_rehearsal(self, missing: str) -> Change:
        """A transaction that is taken back when it has been carried out."""

    def _origin(self, fact: Fact) -> str | Place | None:
        """Where an explicit fact comes from: the line that states it, else the file it was read from."""
        if isinstance(fact, TimedFact):
            places = dict.fromkeys(map(place_of, self._own.spans_within(fact)))
            return ", ".join(filter(None, places)) or self._origins.files_of(fact.predicate)
        span = self._own.span_of(fact)
        return place_of(span) if span is not None else self._origins.of(fact)
