#!/usr/bin/env python3
"""Measures the database's figures: what a comparison, a list and storing a run cost.

usage: store.py [--profile debug|release] [--times N] [--keep DIR] [PART ...]

parts (all by default):
  compare   two sides of 20 runs with 50,000 requests each: under 1 s and 200 MB
  list      `runs list` over 10,000 runs: under 200 ms, all of them and the newest 50
  store     a run of 100,000 requests, in one transaction: under 2 s; meanwhile `runs list` is asked
            again and again from another process, and must answer

Everything is built by cargo in the profile that README's command uses (`debug` there has optimised
dependencies); --profile release builds that instead. Databases are made by the program's own store
(controller/examples/fill.rs); --keep leaves them in DIR and takes those that are there. The first
call of each is not counted: a file that was just made is still being written to the disk.
Prints medians with ranges; on a busy machine only the CPU time says something. Memory is the largest
of all calls (ru_maxrss).
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS, REQUESTS = 20, 50_000
LISTED = 10_000
STORED = 100_000
# A reader that answers once in this time is not blocked by a transaction of seconds.
READ_MS_MAX = 500


def run(command, env=None):
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def spread(values):
    return f"median {statistics.median(values):.0f} ms (min {min(values):.0f}, max {max(values):.0f}, n {len(values)})"


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


class Bench:
    def __init__(self, options):
        self.options = options
        flags = ["--release"] if options.profile == "release" else []
        run(["cargo", "build", "--quiet", "--workspace", "--bin", "controller", "--example", "fill", *flags])
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / options.profile
        self.controller, self.fill = target / "controller", target / "examples" / "fill"
        self.home = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(options.keep or self.home.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.failed = False
        print(f"{cpu()}, {os.cpu_count()} cores, profile {options.profile}", flush=True)

    def database(self, *words):
        """A database of this content, made if need be."""
        path = self.folder / f"{'-'.join(words)}.db"
        if not path.exists():
            making = path.with_suffix(".part")
            started = time.monotonic()
            run([self.fill, making, *words])
            making.rename(path)
            size = path.stat().st_size / 1e6
            print(f"  made {path.name}: {size:.0f} MB in {time.monotonic() - started:.0f} s", flush=True)
        return path

    def call(self, database, *words):
        """Runs the controller; gives ms, ms of CPU, the most memory in MB and what it printed."""
        env = dict(os.environ, CHAPTERBENCH_DB=str(database), XDG_STATE_HOME=self.home.name)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            started = time.monotonic()
            child = subprocess.Popen([self.controller, *words], cwd=ROOT, env=env, stdout=out, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            ms = (time.monotonic() - started) * 1000
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            if child.returncode not in (0, 10, 11, 12):
                sys.exit(f"controller {' '.join(words)}: exit code {child.returncode}\n{err.read().decode()}")
            cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
            return ms, cpu_ms, usage.ru_maxrss * 1024 / 1e6, out.read().decode()

    def measure(self, name, database, words, goal_ms, goal_mb=None):
        self.call(database, *words)
        calls = [self.call(database, *words) for _ in range(self.options.times)]
        ms, cpu_ms, mb = [call[0] for call in calls], [call[1] for call in calls], max(call[2] for call in calls)
        self.judge(statistics.median(ms) < goal_ms and (goal_mb is None or mb < goal_mb))
        goal = f"goal under {goal_ms} ms" + (f" and {goal_mb} MB" if goal_mb else "")
        print(f"{name}: {spread(ms)}, CPU {statistics.median(cpu_ms):.0f} ms, {mb:.0f} MB; {goal}", flush=True)
        return calls[-1][3]

    def judge(self, met):
        self.failed |= not met

    def compare(self):
        database = self.database("sides", str(RUNS), str(REQUESTS))
        printed = self.measure("compare ch01 ch02", database, ["compare", "ch01", "ch02"], 1000, 200)
        for line in printed.splitlines():
            if "outputs" in line:
                print(f"  it says: {line.strip()}")

    def list(self):
        database = self.database("list", str(LISTED))
        self.measure("runs list", database, ["runs", "list"], 200)
        every = ["runs", "list", "--limit", str(LISTED)]
        printed = self.measure(" ".join(every), database, every, 200)
        if len(printed.splitlines()) < LISTED:
            sys.exit("runs list: it printed too few lines")

    def store(self):
        alone, beside, reads, cpus = [], [], [], []
        for index in range(2 * self.options.times):
            path = self.folder / f"store-{index}.db"
            filler = subprocess.Popen([self.fill, path, "store", str(STORED)], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            # It says when it begins to store.
            filler.stderr.readline()
            if index % 2 == 1:
                while filler.poll() is None:
                    reads.append(self.call(path, "runs", "list")[0])
            out, err = filler.communicate()
            if filler.returncode != 0:
                sys.exit(f"fill store: exit code {filler.returncode}\n{err}")
            ms, cpu_ms = map(float, out.split())
            cpus.append(cpu_ms)
            (beside if index % 2 == 1 else alone).append(ms)
            for left in self.folder.glob(f"{path.name}*"):
                left.unlink()
        self.judge(statistics.median(alone) < 2000)
        self.judge(max(reads) < READ_MS_MAX)
        print(f"store {STORED} requests: {spread(alone)}; goal under 2000 ms")
        print(f"  CPU of it, in all threads: {spread(cpus)}")
        print(f"  beside a reader in another process: {spread(beside)}")
        print(f"  that reader's `runs list`: {spread(reads)}; goal: none beyond {READ_MS_MAX} ms", flush=True)


def main():
    parts = ["compare", "list", "store"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=["debug", "release"], default="debug")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--keep")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} [default: all]")
    options = parser.parse_args()
    for part in options.parts:
        if part not in parts:
            parser.error(f"no part {part}; there are {', '.join(parts)}")
    bench = Bench(options)
    for part in options.parts or parts:
        print(f"-- {part}", flush=True)
        getattr(bench, part)()
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
