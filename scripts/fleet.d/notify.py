"""What notifications cost commits: the same insert without one, with one in its transaction, and with what the bus does."""

import asyncio
import subprocess
import threading
from pathlib import Path

from servers import Postgres

CLIENTS, SECONDS = 32, 10
INSERT = "INSERT INTO rows (text) VALUES (repeat('x', 2000));\n"
SCRIPTS = {
    "without notifications": INSERT,
    "each commit notifies": f"BEGIN;\n{INSERT}NOTIFY signals, 'resp_1';\nEND;\n",
}


async def run(folder: Path) -> None:
    database = Postgres(folder, fsync="on", synchronous_commit="on")
    await database.create()
    database.ask("CREATE TABLE rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text)")
    first = 0.0
    for name, script in SCRIPTS.items():
        first = show(name, rate(database, folder, script), first)
    ended = threading.Event()
    listener = threading.Thread(target=notify, args=(database, ended))
    listener.start()
    show("one connection notifies for all, every 10 ms", rate(database, folder, INSERT), first)
    ended.set()
    listener.join()


def rate(database: Postgres, folder: Path, script: str) -> float:
    file = folder / "script.sql"
    file.write_text(script)
    command = [database.bin / "pgbench", "-n", "-h", "127.0.0.1", "-p", database.port, "-U", "antwort", "-c", CLIENTS,
               "-j", 1, "-T", SECONDS, "-M", "prepared", "-f", file, "antwort"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, cwd="/")
    return float(next(line for line in done.stdout.splitlines() if line.startswith("tps")).split()[2])


def notify(database: Postgres, ended: threading.Event) -> None:
    command = [database.bin / "psql", "-q", "-h", "127.0.0.1", "-p", str(database.port), "-U", "antwort", "antwort"]
    psql = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, text=True, cwd="/")
    while not ended.wait(0.01):
        psql.stdin.write("NOTIFY signals, 'resp_1';\n")
        psql.stdin.flush()
    psql.communicate()


def show(name: str, figure: float, first: float) -> float:
    print(f"{name:46} {figure:8.0f} commits/s   {figure / (first or figure):.2f}", flush=True)
    return first or figure
