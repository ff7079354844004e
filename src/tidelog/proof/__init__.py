"""Why facts hold, and why others do not: proofs are found in what is derived, without deriving it again.

`explanation.py` is what a proof is. `proof_search.py` finds instances of rules from their heads, and searches
backward for the lowest proofs; `member_search.py` does so where constants may be equal. `prover.py` makes
proofs of what either search finds. `timed_prover.py` has its own search, over intervals of time. `why_not.py`
looks for the instance that comes nearest to giving a fact.

Imports queries, equality, time and what lies below; the reasoner, stores and `show` import this package.
Begin with `explanation.py`, then `Prover` in `prover.py`.
"""

MOST_ROWS = 20  # of a group that a proof holds
