"""What processes use of the machine, read from /proc: CPU time, memory, and what others took meanwhile."""

import os
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def tree(root):
    """The process ids of `root` and its descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = open(f"/proc/{entry}/stat").read()
                children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry))
            except OSError:
                pass
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def cpu_seconds(root):
    """Run time of the tree's threads, in nanoseconds' resolution; ticks of 10 ms where the kernel has no schedstat."""
    total = 0.0
    for pid in tree(root):
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                total += int(open(f"/proc/{pid}/task/{thread}/schedstat").read().split()[0]) / 1e9
        except OSError:
            total += ticks(pid)
    return total


def ticks(pid):
    try:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def rss(root):
    """Resident memory of the tree, in MiB."""
    total = 0
    for pid in tree(root):
        try:
            total += int(open(f"/proc/{pid}/statm").read().split()[1]) * PAGE
        except OSError:
            pass
    return total / MIB


def peak(root):
    """The most that was resident since `begin_peak`, in MiB."""
    total = 0
    for pid in tree(root):
        try:
            lines = open(f"/proc/{pid}/status").readlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return total / 1024


def open_files(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def begin_peak(root):
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass


def busy_seconds():
    """CPU time that all processes of the machine have used; interrupts and stolen time are not theirs."""
    return sum(int(x) for x in open("/proc/stat").readline().split()[1:4]) / TICK


def stolen_seconds():
    return int(open("/proc/stat").readline().split()[8]) / TICK


class Series(threading.Thread):
    """Samples a tree's resident memory each 100 ms until stopped: `samples` are [seconds, MiB]; and each second how many
    files the root has open, of which `files` is the most."""

    def __init__(self, root):
        super().__init__(daemon=True)
        self.root, self.samples, self.files = root, [], 0
        self.begun, self.done = time.monotonic(), threading.Event()
        self.start()

    def run(self):
        turn = 0
        while not self.done.is_set():
            self.samples.append([round(time.monotonic() - self.begun, 2), round(rss(self.root), 2)])
            if turn % 10 == 0:
                self.files = max(self.files, open_files(self.root))
            turn += 1
            self.done.wait(max(0.0, self.begun + 0.1 * turn - time.monotonic()))

    def now(self):
        return time.monotonic() - self.begun

    def stop(self):
        self.done.set()
        self.join()
        return self.samples
