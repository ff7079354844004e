"""A standalone Spark cluster on this machine, for the time of one command.

    python examples/spark/cluster.py --workers 2 -- COMMAND …

The command finds the master's address in SPARK_MASTER, and Java in JAVA_HOME. Master and workers come from
the installed pyspark, listen on 127.0.0.1 only, on free ports, and are stopped when the command ends, however
it ends.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tidelog.spark.session import find_java

PATIENCE = 600.0  # seconds, on a busy machine
PR_SET_PDEATHSIG = 1
PLACE = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %m%n
"""


@dataclass(frozen=True)
class Cluster:
    """A running cluster: the master's address, and the folder with its logs and the workers' files."""

    master: str
    folder: Path


@contextmanager
def cluster(workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """Run a master and some workers for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="tidelog-cluster-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "log4j2.properties").write_text(LOGGING)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            master = start(folder, "Master", *PLACE)
            processes.append(master)
            address = found(r"Starting Spark master at (\S+)", folder / "Master.log", master)
            for number in range(workers):
                own = (
                    "--cores",
                    str(cores),
                    "--memory",
                    memory,
                    "--work-dir",
                    str(folder / f"worker{number}"),
                )
                places = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
                worker = start(folder, "Worker", *places, *own, address, log=f"Worker{number}")
                processes.append(worker)
            for number, worker in enumerate(processes[1:]):
                found(r"Successfully (registered) with master", folder / f"Worker{number}.log", worker)
            yield Cluster(address, folder)
        finally:
            end(processes)


def start(folder: Path, role: str, *arguments: str, log: str = "") -> subprocess.Popen[bytes]:
    """Start a process of the cluster in its own session, which its executors join."""
    spark = Path(pyspark.__file__).parent
    environment = environment_of(folder) | {
        "SPARK_HOME": str(spark),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties",
    }
    program = f"org.apache.spark.deploy.{role.lower()}.{role}"
    with (folder / f"{log or role}.log").open("wb") as sink:
        return subprocess.Popen(
            [spark / "bin" / "spark-class", program, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, even by a signal that cannot be caught.

    Executors end by themselves when they lose their worker.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment in which Spark finds Java and this Python, and stays on this machine."""
    return os.environ | {
        "JAVA_HOME": str(find_java(folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def found(pattern: str, log: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait for the output of a process and return it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        match = re.search(pattern, text)
        if match:
            return match[1]
        if process.poll() is not None:
            raise RuntimeError(f"a process of the cluster ended:\n{text}")
        time.sleep(0.1)
    raise RuntimeError(f"a process of the cluster took more than {PATIENCE:g} s to start:\n{text}")


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the processes and their executors: workers first, so that no master restarts anything."""
    for process in reversed(processes):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    parser.add_argument("command", nargs="+")
    parsed = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster ends as well
    with cluster(parsed.workers, parsed.cores, parsed.memory) as started:
        environment = environment_of(started.folder) | {"SPARK_MASTER": started.master}
        return subprocess.run(parsed.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
