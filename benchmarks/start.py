"""What a start costs: `python -m benchmarks.start`, CPU milliseconds of whole processes, taken in turns.

`--environment FOLDER` measures another virtual environment, such as one that a wheel was installed in.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

FIVE_FACTS = """
parent(ann, bob) . parent(bob, cid) . parent(cid, dot) . parent(dot, eve) . parent(eve, fay) .
ancestor(?x, ?y) :- parent(?x, ?y) .
ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
"""


def main(arguments: Sequence[str]) -> int:
    """Print the median of each command, and how many times that of `import numpy` it is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--environment", type=Path, default=Path(sys.prefix))
    parser.add_argument("--repetitions", type=int, default=15)
    parsed = parser.parse_args(arguments)
    inside = parsed.environment / "bin"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "five.rls")
        program.write_text(FIVE_FACTS, encoding="utf-8")
        commands = {
            "python": [inside / "python", "-c", "pass"],
            "import numpy": [inside / "python", "-c", "import numpy"],
            "import tidelog": [inside / "python", "-c", "import tidelog"],
            "tidelog --version": [inside / "tidelog", "--version"],
            "tidelog check": [inside / "tidelog", "check", program],
            "tidelog run, five facts": [inside / "tidelog", "run", program],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(parsed.repetitions + 1):
            for name, command in commands.items():
                taken[name].append(cpu_of([str(word) for word in command]))
    least = {name: median(some[1:]) for name, some in taken.items()}  # the first may write bytecode
    print(f"{'':26} {'first':>8} {'median':>8} {'× import numpy':>15}   (CPU ms)")
    for name, value in least.items():
        print(f"{name:26} {taken[name][0]:8.0f} {value:8.0f} {value / least['import numpy']:15.2f}")
    return 0


def cpu_of(command: list[str]) -> float:
    """The CPU milliseconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
