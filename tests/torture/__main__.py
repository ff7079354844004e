"""The command behind `make torture`.

Processes play one seed after the other; this one hands the seeds out, so that it knows which seed a process
was at that ended or hangs.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from time import monotonic

from tests.torture import shrink
from tests.torture.expected import moments
from tests.torture.hands import hands, play_moments
from tests.torture.scenarios import POOLS, scenario

LONGEST = 300.0  # seconds of a seed
SHRINKING = 90.0  # seconds for each failure
EVERY = 10.0  # seconds between two lines of progress


def main() -> int:
    """The exit code."""
    options = _options()
    if options.role == "worker":
        return work(options)
    if options.role == "shrinker":
        return report(options)
    return Run(options).run()


def _options() -> Namespace:
    parser = ArgumentParser(
        prog="make torture", description="random transactions, compared with evaluation from scratch"
    )
    parser.add_argument("--count", type=int, default=100_000, help="transactions to carry out, at least")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--failures", type=int, default=3, help="failures after which to stop")
    parser.add_argument(
        "--family", action="append", default=[], choices=POOLS, help="scenarios of this kind only"
    )
    parser.add_argument(
        "--role", default="", choices=("", "worker", "shrinker"), help="used by the command itself"
    )
    return parser.parse_args()


# ---- in the processes


def work(options: Namespace) -> int:
    """Play the seeds that standard input names, and say of each how it went."""
    for line in sys.stdin:
        print(json.dumps(_played(int(line), options.family)), flush=True)
    return 0


def _played(number: int, families: list[str]) -> dict[str, object]:
    """How many transactions of a seed were carried out, of how long a history, and whether one failed."""
    made = scenario(number, families)
    found = moments(made)
    done = 0
    for hand in hands(made, number) if found else ():
        try:
            done += play_moments(made, hand, found)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure
            return {"done": done, "steps": len(found), "failure": f"{type(error).__name__}: {error}"}
    return {"done": done, "steps": max(0, len(found) - 1), "failure": ""}


def report(options: Namespace) -> int:
    """Shrink what fails in a seed, and write it; the exit code is 1 if it still fails."""
    number = options.seed
    made = scenario(number, options.family)
    for hand in hands(made, number):
        message = shrink.attempt(made, hand)
        if message is not None:
            print(shrink.shrunk(made, hand, message, number, SHRINKING))
            return 1
    print(f"seed {number} failed, and did not when it was tried again")
    return 0


# ---- in the command


@dataclass
class Worker:
    """A process that plays seeds."""

    process: subprocess.Popen[str]
    seed: int = 0
    since: float = field(default_factory=monotonic)

    def give(self, seed: int) -> None:
        """Tell the process to play a seed."""
        assert self.process.stdin is not None
        self.seed, self.since = seed, monotonic()
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()


class Run:
    """One run of the command. Mutates itself."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.next = options.seed
        self.done = self.steps = self.failures = 0
        self.started = self.told = monotonic()
        self.selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Hand out seeds until there are enough transactions, or too many failures; the exit code."""
        for _ in range(self.options.workers):
            self._start()
        while self.selector.get_map():
            for key, _ in self.selector.select(1.0):
                self._hear(key.data)
            for worker in [key.data for key in self.selector.get_map().values()]:
                if monotonic() - worker.since > LONGEST:
                    worker.process.kill()
            self._tell_progress()
        seconds = monotonic() - self.started
        said = f"{self.done:,} transactions, of histories with {self.steps:,}, were right"
        fault = f", {self.failures} seeds failed" if self.failures else ""
        seeds = f"seeds {self.options.seed} to {self.next - 1}"
        print(f"{said}{fault}: {seeds}, {seconds:.0f} s; next: SEED={self.next}")
        return 1 if self.failures else 0

    def _start(self) -> None:
        """Start a process, and give it a seed."""
        process = subprocess.Popen(
            [*self._command("worker")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        worker = Worker(process)
        self.selector.register(process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        self._go_on(worker)

    def _command(self, role: str) -> list[str]:
        families = [word for family in self.options.family for word in ("--family", family)]
        return [sys.executable, "-m", "tests.torture", "--role", role, *families]

    def _go_on(self, worker: Worker) -> None:
        """Give a process the next seed, or end it."""
        if self.done < self.options.count and self.failures < self.options.failures:
            worker.give(self.next)
            self.next += 1
            return
        self.selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        worker.process.communicate()

    def _hear(self, worker: Worker) -> None:
        """Take what a process says of its seed; one that ended before it could is a failure."""
        assert worker.process.stdout is not None
        line = worker.process.stdout.readline()
        if line:
            said = json.loads(line)
            self.done += said["done"]
            self.steps += said["steps"]
            if said["failure"]:
                self._fail(worker.seed, said["failure"])
            self._go_on(worker)
            return
        self.selector.unregister(worker.process.stdout)
        code = worker.process.wait()
        self._fail(worker.seed, f"the process ended with {code}")
        if self.failures < self.options.failures:
            self._start()

    def _fail(self, seed: int, message: str) -> None:
        """Report a failure, as small as it can be made."""
        self.failures += 1
        print(f"seed {seed}: {message}\nshrinking …", file=sys.stderr, flush=True)
        subprocess.run([*self._command("shrinker"), "--seed", str(seed)], check=False)

    def _tell_progress(self) -> None:
        if monotonic() - self.told > EVERY:
            self.told = monotonic()
            each = 1000 * (self.told - self.started) / max(1, self.done)
            said = f"{self.done:,} of {self.options.count:,} transactions, {each:.1f} ms each"
            print(f"{said}, at seed {self.next - 1}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
