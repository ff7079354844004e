"""Why facts hold, why others do not: proofs found in what is derived, without deriving it again."""
