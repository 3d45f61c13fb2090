"""Runs a command on a terminal of its own, types an answer, and prints what the terminal showed.

on_a_terminal.py ANSWER COMMAND…; ends with the command's exit code.
"""

import os
import pty
import sys

answer, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
os.write(terminal, (answer + "\n").encode())
shown = b""
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:  # Linux tells the end of a terminal this way.
        break
    if not part:
        break
    shown += part
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
