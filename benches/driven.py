"""Engines as child processes that stay loaded, measured one at a time on a quiet machine.

What `engines.py` and `soak.py` share: drivers (the lines of engine/examples/chapter_speed.rs), whose
CPU time it was, and the wait for quiet. What is compared with what is theirs.
"""

import json
import os
import pathlib
import select
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORES = os.cpu_count()
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Above this share of the machine, what others do is no noise any more.
FOREIGN_MAX = 0.05
QUIET_LOOK_S = 0.5
# A model of a hundred million parameters loads in seconds; a request takes at most some minutes.
LINE_LIMIT_S = 600
# Characters of a command that failed: its last argument may be a whole text.
COMMAND_SHOWN = 200


class Failed(Exception):
    """A program of ours or of others did not do what it was asked; one line says why."""


def build(profile, *what):
    """Builds with cargo in a profile; gives the folder of the programs."""
    flags = ["--release"] if profile == "release" else []
    # The whole workspace at once: a part of it would pick other features of what it depends on.
    done = subprocess.run(["cargo", "build", "--quiet", "--workspace", *what, *flags], cwd=ROOT)
    if done.returncode != 0:
        sys.exit("cargo build failed")
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / profile


def run(command, env=None):
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))[:COMMAND_SHOWN]}: exit code {done.returncode}: {done.stderr[-800:].strip()}")
    return done.stdout


def busy_s():
    """CPU time of the whole machine that was not idle, its hypervisor's share included."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words)
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def cpu_s(pid):
    """CPU time of a process, all its threads."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICKS_PER_S


def memory_bytes(pid, field):
    """`VmRSS` or `VmHWM` of a process."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise Failed(f"/proc/{pid}/status has no {field}")


def wait_for_quiet(limit_s):
    """Returns when the machine was quiet for a moment, or after `limit_s`."""
    until = time.monotonic() + limit_s
    while True:
        before, began = busy_s(), time.monotonic()
        time.sleep(QUIET_LOOK_S)
        share = (busy_s() - before) / (time.monotonic() - began) / CORES
        if share < FOREIGN_MAX or time.monotonic() > until:
            return


class Driver:
    """One engine, loaded once; between two requests it waits in a read and uses no CPU."""

    def __init__(self, name, command, folder):
        self.name = name
        self.log = pathlib.Path(folder) / f"{name}.log"
        self.process = subprocess.Popen(
            [str(word) for word in command], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log.open("wb"))
        self.rest = b""
        self.ready = self.line()
        self.warm = set()

    def line(self):
        until = time.monotonic() + LINE_LIMIT_S
        while b"\n" not in self.rest:
            readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            read = os.read(self.process.stdout.fileno(), 1 << 20) if readable else b""
            if not read:
                why = "has ended" if readable else f"said nothing for {LINE_LIMIT_S} s"
                self.close()
                raise Failed(f"{self.name} {why}: {self.log.read_text()[-800:].strip()}")
            self.rest += read
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def ask(self, prompts, new_tokens):
        """One request; its answer, with the share of the machine that others used meanwhile."""
        pid = self.process.pid
        busy, own, began = busy_s(), cpu_s(pid), time.monotonic()
        try:
            self.process.stdin.write(json.dumps({"prompts": prompts, "new_tokens": new_tokens}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # The read says why.
        answer = self.line()
        took = time.monotonic() - began
        foreign = (busy_s() - busy) - (cpu_s(pid) - own)
        answer["foreign"] = max(0.0, foreign) / took / CORES
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
