#!/usr/bin/env python3
"""Counts the verdicts of real sessions on this machine: what A/A says, and what two equal chapters say.

usage: sessions.py [--profile debug|release] [--sessions N] [--repeat R] [--n-runs N] [--mode M] [--model M]
                   [--threads N] [PART ...]

parts (all by default):
  aa    N sessions (default 10) of one chapter against itself, `run --chapter 2,2 --repeat 5` and
        `compare session:ID#a session:ID#b`: FASTER or SLOWER in at most one of ten
  same  N sessions (default 3) of two chapters that do the same work, `run --chapter 1,2 --repeat 5`
        and `compare ch01 ch02`: EQUIVALENT within 5 %, or practically equal, for the offline wall in
        at least two of three

Each session has a database of its own. Its line has the word of each primary metric with the ratio and
its interval; then come the counts. The machine should be quiet. Everything is built by cargo in the
profile that README's command uses; --profile release builds that instead.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Exit codes of `compare` that are results and not failures: done, slower, not comparable, undecided.
RESULTS = (0, 10, 11, 12)
MARGIN = 0.05


def run(command, env=None, codes=(0,)):
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def words(verdict):
    """The verdict of a row in the words that people see."""
    if verdict is None:
        return "no verdict"
    word = verdict["word"]
    if word in ("faster", "slower"):
        equal = ", practically equal" if verdict["practically_equal"] else ""
        return f"{word.upper()} by {verdict['by']:.1%} (at least {verdict['at_least']:.1%}){equal}"
    if word == "equivalent":
        return f"EQUIVALENT within {MARGIN:.0%}"
    if word == "no_difference_shown":
        return f"NO DIFFERENCE SHOWN (could be {verdict['low']:+.1%} … {verdict['high']:+.1%})"
    return f"no verdict: {verdict.get('why', '')}"


class Sessions:
    def __init__(self, options):
        self.options = options
        flags = ["--release"] if options.profile == "release" else []
        run(["cargo", "build", "--quiet", "--bin", "controller", *flags])
        folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / options.profile
        self.program = folder / "controller"

    def session(self, chapters, sides):
        """One session in a database of its own; gives the primary rows of its comparison."""
        options = self.options
        with tempfile.TemporaryDirectory() as home:
            env = dict(os.environ, CHAPTERBENCH_DB=f"{home}/bench.db", XDG_STATE_HOME=home)
            plan = ["--chapter", chapters, "--repeat", str(options.repeat), "--n-runs", str(options.n_runs)]
            asked = [self.program, "run", *plan, "--mode", options.mode, "--model", options.model]
            asked += ["--threads", str(options.threads)] if options.threads else []
            made = json.loads(run([*asked, "--format", "json"], env))
            selected = [side.format(made["session_id"]) for side in sides]
            compared = run([self.program, "compare", *selected, "--format", "json"], env, RESULTS)
        compared = json.loads(compared)
        cells = [cell for step in compared["steps"] for cell in step["cells"]]
        refused = [reason["message"] for cell in cells for reason in cell["reasons"]]
        rows = [row for cell in cells for row in cell["rows"] if row["primary"]]
        return rows, refused

    def table(self, count, chapters, sides):
        """Runs the sessions, prints a line for each primary metric; gives each session's verdicts."""
        verdicts = []
        for number in range(count):
            rows, refused = self.session(chapters, sides)
            for message in refused:
                print(f"  session {number + 1:2}: NOT COMPARABLE: {message}", flush=True)
            for row in rows if not refused else []:
                effect = row["effect"]
                ratio = ""
                if effect:
                    low, high = effect["interval"]
                    ratio = f"{row['ratio']:.4f} [{low:.4f}, {high:.4f}]"
                print(f"  session {number + 1:2}: {row['metric']:<12} {ratio:<28} {words(row['verdict'])}", flush=True)
            verdicts.append([row["verdict"] for row in rows] if not refused else [])
        said = collections.Counter(words(verdict).split(" by ")[0].split(" (")[0] for row in verdicts for verdict in row)
        print(f"  words: {', '.join(f'{word} {n}' for word, n in said.most_common()) or 'none'}")
        return verdicts

    def aa(self):
        count = self.options.sessions or 10
        verdicts = self.table(count, "2,2", ["session:{}#a", "session:{}#b"])
        alarms = sum(any(v and v["word"] in ("faster", "slower") for v in row) for row in verdicts)
        judged = sum(bool(row) for row in verdicts)
        print(f"aa: FASTER or SLOWER in {alarms} of {judged} sessions of {count}; goal at most 1 of 10, all judged")
        return alarms * 10 <= count and judged == count

    def same(self):
        count = self.options.sessions or 3
        verdicts = self.table(count, "1,2", ["ch01", "ch02"])
        equal = sum(
            bool(row) and all(v and (v["word"] == "equivalent" or v.get("practically_equal")) for v in row)
            for row in verdicts)
        print(f"same: EQUIVALENT or practically equal in {equal} of {count} sessions; goal at least 2 of 3")
        return equal * 3 >= count * 2


def main():
    parts = ["aa", "same"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=["debug", "release"], default="debug")
    parser.add_argument("--sessions", type=int, help="of each part")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--n-runs", type=int, default=20)
    parser.add_argument("--mode", choices=["offline", "online"], default="offline")
    parser.add_argument("--model", default="dummy:tiny-llm")
    parser.add_argument("--threads", type=int, help="of the engine [default: all cores]")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{' or '.join(parts)} [default: both]")
    options = parser.parse_args()
    for part in options.parts:
        if part not in parts:
            parser.error(f"no part {part}; there are {', '.join(parts)}")
    sessions = Sessions(options)
    met = True
    for part in options.parts or parts:
        print(f"-- {part}", flush=True)
        met &= getattr(sessions, part)()
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
