"""A job whose process is killed at a step: `python -m tests.pipeline.killed STEP COUNT …`."""

from __future__ import annotations

import os
import signal
import sys

from tidelog.pipeline.job import Job, Step
from tidelog.pipeline.publishing import roll_back


def main(step: str, count: int, action: str, *arguments: str) -> None:
    """Do something to the job of this folder, and die when the step is reached for so many times."""
    left = [count]

    def listen(reached: Step) -> None:
        if reached.name == step:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    job = Job.load("job.toml", listeners=[listen])
    if action == "run":
        job.run(full="--full" in arguments)
    elif action == "apply":
        job.apply(arguments[0])
    elif action == "rollback":
        roll_back(job.store, int(arguments[0]), job.reached)
    else:
        job.run()
        with job.stream(available_now=True) as following:
            following.wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], *sys.argv[4:])
