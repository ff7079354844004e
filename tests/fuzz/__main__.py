"""`python -m tests.fuzz`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.harness import fuzz
from tests.fuzz.targets import TARGETS


def main() -> int:
    """Return 1 if a fault was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="look for inputs that crash")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", nargs="*", default=(), choices=tuple(TARGETS), metavar="TARGET")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    count, faults = fuzz(options.seconds, options.seed, options.only, lambda text: print(text, flush=True))
    print(f"{count:,} inputs, {len(faults)} kind{'' if len(faults) == 1 else 's'} of fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
