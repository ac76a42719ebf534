#!/usr/bin/env python3
"""Talks to `tamis ARGS` on a pseudo-terminal: usage: chat_pty.py TAMIS ARGS…, lines to type on stdin. Prints what the terminal
showed and the exit code. A line ^C sends the interrupt character, ^D the end of input; every other line is typed when a prompt
("> " or ". ") is waiting."""
import os
import pty
import select
import sys
import time

TIMEOUT_S = 60


def main():
    lines = sys.stdin.read().split("\n")
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    shown = b""

    def read_until_prompt():
        nonlocal shown
        begin, end = len(shown), time.time() + TIMEOUT_S
        while time.time() < end:
            if not select.select([fd], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(fd, 65536)
            except OSError:
                return False  # the program has ended
            if not data:
                return False
            shown += data
            if shown[begin:].endswith((b"> ", b". ")):
                return True
        sys.exit("no prompt came; shown so far:\n" + shown.decode(errors="replace"))

    alive = read_until_prompt()
    for line in lines:
        if not alive:
            break
        if not line:
            continue
        os.write(fd, {"^C": b"\x03", "^D": b"\x04"}.get(line, line.encode() + b"\n"))
        alive = read_until_prompt()
    if alive:
        sys.exit("the program is still waiting; shown so far:\n" + shown.decode(errors="replace"))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(shown.decode(errors="replace").replace("\r\n", "\n") + f"exit {code}")


main()
