"""Attacks on the store: lists, references, long conversations, the disk, the database file."""

import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import wire
from gateway import MIB, Gateway
from lab import Lab, NotRun, at_once, attack, until
from provider import END, event


@attack("lists of a hundred large responses, and of their large items, that nobody reads")
def lists_of_responses(lab: Lab) -> None:
    gateway = lab.gateway()
    lab.expect(gateway.create(instructions="a" * (20 * MIB)), "instructions of 20 MiB", 400, "string_above_max_length")
    instructions = "a" * (MIB - 1)
    items = [{"role": "user", "content": "a" * 300_000} for _ in range(80)]
    stored = at_once(4, lambda _: [gateway.create(instructions=instructions) for _ in range(20)])
    lab.check(
        all(answer.status == 200 for some in stored for answer in some),
        "responses with instructions of 1 MiB were refused",
    )
    of_items = gateway.create(input=items)
    lab.expect(of_items, "a response of 24 MiB")
    lab.budget("8 pages of 4 MiB and one element", 8 * 5 * MIB)
    paths = ["/v1/responses?limit=100", f"/v1/responses/{of_items.json.get('id')}/input_items?limit=100"]
    with lab.watched(gateway):
        for i in range(8):
            request = wire.head("GET", paths[i % 2], gateway.headers())
            lab.closing(gateway.send(request, takes_nothing=True))
        time.sleep(4)
        pages = [gateway.get(path) for path in paths]
    for path, page in zip(paths, pages):
        short = path.split("/resp_")[0]
        lab.check(
            page.status == 200 and len(page.body) <= 6 * MIB,
            f"{short}: {page.status}, a page of {len(page.body) / MIB:.0f} MiB",
        )
        lab.check(page.json.get("has_more") is True, f"{short}: has_more {page.json.get('has_more')}")
        lab.check(len(page.json.get("data", [])) >= 1, f"{short}: no element")
    lab.note("pages of " + " and ".join(f"{len(page.body) / MIB:.1f}" for page in pages) + " MiB")


@attack("a hundred readers of a stored input of 10 MiB that take nothing")
def untaken_responses(lab: Lab) -> None:
    gateway = lab.gateway(server={"max_buffered_body_bytes": "64MiB", "queue_timeout": "2s"})
    stored = gateway.create({"model": "m", "input": "a" * (10 * MIB)}, timeout=30)
    lab.expect(stored, "a response to 10 MiB")
    lab.budget("server.max_buffered_body_bytes", 64 * MIB)
    request = wire.head("GET", f"/v1/responses/{stored.json.get('id')}/input_items", gateway.headers())
    with lab.watched(gateway):
        readers = at_once(100, lambda _: lab.closing(gateway.send(request, takes_nothing=True)))
        lab.check(until(lambda: not gateway.metric("antwort_queue_waiting"), 10), "readers wait for ever")
    for reader in readers:
        reader.settimeout(5)
    begun = [reader.recv(12) for reader in readers]
    refused = begun.count(b"HTTP/1.1 503")
    lab.check(refused >= 94, f"{refused} of 100 readers were refused")
    lab.note(f"{begun.count(b'HTTP/1.1 200')} were answered, {refused} refused")


@attack("references to an id that another tenant has 400,000 times")
def references_to_others(lab: Lab) -> None:
    keys = {
        "a": {"key": "key-a", "tenant": "a"},
        "b": {"key": "key-b", "tenant": "b"},
        "c": {"key": "key-c", "tenant": "c"},
    }
    gateway = lab.gateway(keys=keys, key="key-c")
    body = ('{"model":"m","input":[' + ",".join(['{"role":"user","content":"","id":"msg_1"}'] * 10_000) + "]}").encode()
    stored = [
        answer.status
        for some in at_once(4, lambda _: [gateway.create(body, key="key-a", timeout=15) for _ in range(10)])
        for answer in some
    ]
    lab.check(stored.count(200) == 40, f"{stored.count(200)} of 40 responses were stored")
    many = gateway.posted("/v1/responses", {"model": "m", "store": False, "input": [{"id": "msg_1"}] * 300}, "key-b")
    with lab.watched(gateway):
        begun = time.monotonic()
        answers = at_once(2, lambda _: wire.exchange(gateway.port, many, 10))
        lab.note(f"two requests of 300 references: {time.monotonic() - begun:.2f} s")
        for answer in answers:
            lab.expect(answer, "references to what is another's", 400, "item_not_found")
        lab.expect(
            gateway.create(input=[{"id": f"msg_{i}"} for i in range(100_000)], key="key-b"),
            "100,000 references",
            400,
            "array_above_max_length",
        )


@attack("a conversation of 128 MiB, continued eight times at once")
def long_conversations(lab: Lab) -> None:
    gateway = lab.gateway()
    text, last, length = "a" * (8 * MIB), None, 0
    for _ in range(16):
        answer = gateway.create(input=text, previous_response_id=last, timeout=15)
        if answer.status != 200:
            lab.expect(answer, f"a conversation beyond {length * 8} MiB", 400, "context_length_exceeded")
            break
        last, length = answer.json["id"], length + 1
    lab.budget("eight bodies", 64 * MIB)
    lab.budget("4 x engine.max_conversation_bytes", 256 * MIB)
    with lab.watched(gateway):
        answers = at_once(8, lambda _: gateway.create(input=text, previous_response_id=last))
        refused = [answer for answer in answers if (answer.status, answer.code) == (400, "context_length_exceeded")]
        lab.check(len(refused) == 8, f"eight that are too large: {', '.join(str(answer) for answer in answers)}")
        # These are not too large each; all at once they wait for each other, or are told to come back.
        answers = at_once(8, lambda _: gateway.create(previous_response_id=last))
        known = [answer for answer in answers if answer.status == 200 or answer.code == "server_is_overloaded"]
        lab.check(len(known) == 8, f"eight continuations: {', '.join(str(answer) for answer in answers)}")
    lab.note(f"refused from {length * 8} MiB on")


def small_disk(folder: Path, size: str) -> list[str]:
    """The beginning of a command that has a small file system of its own on a folder."""
    folder.mkdir(parents=True)
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        prefix = [*unshare, "sh", "-c", f'mount -t tmpfs -o size={size} none "$0" && exec "$@"', str(folder)]
        if shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            return prefix
    raise NotRun("needs root, or user namespaces, for a file system of its own")


@attack("a disk that gets full: readiness, deletes, what is paid for, and the way back")
def full_disk(lab: Lab) -> None:
    provider = lab.provider()
    disk = lab.folder / "disk"
    wrapper = small_disk(disk, "64m")
    gateway = lab.gateway(
        provider,
        wrapper=wrapper,
        store={"url": f"sqlite:{disk}/antwort.db", "maintenance_interval": "1s", "lease": "5s"},
    )
    body = gateway.posted("/v1/responses", {"model": "m", "input": "a" * 500_000})
    kept = []
    with lab.watched(gateway):
        for _ in range(200):
            answer = wire.exchange(gateway.port, body)
            if answer.status != 200 or answer.json.get("status") != "completed":
                break
            kept.append(answer.json["id"])
        lab.check(until(lambda: gateway.get("/readyz").status == 503, 4), "the disk is full, and /readyz says ready")
        asked = provider.asked
        answers = [wire.exchange(gateway.port, body) for _ in range(10)]
        lab.check(
            all(answer.status >= 500 for answer in answers),
            f"further ones: {answers[0]}, {answers[0].json.get('status')}",
        )
        lab.check(
            provider.asked - asked <= 1,
            f"the provider was asked {provider.asked - asked} times for what cannot be kept",
        )
        lab.expect(gateway.create(store=False), "one that is not stored")
        lost = sum(gateway.get(f"/v1/responses/{id}").status != 200 for id in kept)
        lab.check(lost == 0, f"{lost} of {len(kept)} that were acknowledged are lost")
        deleted = [gateway.delete(f"/v1/responses/{id}").status for id in kept]
        lab.check(deleted.count(200) == len(kept), f"{deleted.count(200)} of {len(kept)} could be deleted")
        lab.check(until(lambda: gateway.get("/readyz").status == 200, 6), "not ready again after all was deleted")
        lab.expect(wire.exchange(gateway.port, body), "one that is stored afterwards")
    lab.note(f"{len(kept)} were stored on 64 MiB")


@attack("what was deleted is looked for in the files of a gateway that was stopped")
def deleted_texts(lab: Lab) -> None:
    gateway = lab.gateway()
    mark = "DELETED-BUT-LEGIBLE"
    ids = [gateway.create(input=f"{mark} {i} " + "b" * 3000).json["id"] for i in range(100)]
    for id in ids:
        gateway.delete(f"/v1/responses/{id}")
    lab.check(gateway.stop(), "it did not stop")
    found = {file.name: file.read_bytes().count(mark.encode()) for file in gateway.folder.glob("antwort.db*")}
    lab.check(
        not any(found.values()),
        f"found {sum(found.values())} times in {', '.join(name for name, count in found.items() if count)}",
    )
    lab.held("no copy")


@attack("a backup beside hundreds of writes a second, and a reader that holds the log")
def backups_under_load(lab: Lab) -> None:
    gateway = lab.gateway()
    database, over = gateway.folder / "antwort.db", threading.Event()
    body = gateway.posted("/v1/responses", {"model": "m", "input": "a" * 100_000})
    written = [0] * 4

    def write(i: int) -> None:
        while not over.is_set():
            written[i] += wire.exchange(gateway.port, body).status == 200

    threads = [threading.Thread(target=write, args=(i,), daemon=True) for i in range(4)]
    with lab.watched(gateway):
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        reader = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        begun = time.monotonic()
        reader.execute("VACUUM INTO ?", (str(gateway.folder / "backup.db"),))
        seconds = time.monotonic() - begun
        # A reader that keeps its snapshot keeps the log, too.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        until(lambda: size(gateway, "antwort.db-wal") > 96 * MIB, 6)
        held = size(gateway, "antwort.db-wal")
        reader.rollback()
        time.sleep(1)
        over.set()
        for thread in threads:
            thread.join()
        shrunk = until(lambda: size(gateway, "antwort.db-wal") <= 32 * MIB or gateway.create() is None, 5)
    reader.close()
    lab.check(seconds < 8, f"a backup took {seconds:.1f} s")
    sound = sqlite3.connect(gateway.folder / "backup.db").execute("PRAGMA integrity_check").fetchone()[0]
    lab.check(sound == "ok", f"the backup: {sound}")
    lab.check(shrunk, f"the log stays at {size(gateway, 'antwort.db-wal') / MIB:.0f} MiB")
    lab.note(
        f"a backup took {seconds:.1f} s beside {sum(written)} writes, the log was {held / MIB:.0f} MiB, "
        f"then {size(gateway, 'antwort.db-wal') / MIB:.0f}"
    )


def size(gateway: Gateway, name: str) -> int:
    file = gateway.folder / name
    return file.stat().st_size if file.exists() else 0


@attack("a second gateway on the same file, and a file that is removed underneath")
def two_on_one_file(lab: Lab) -> None:
    store = {"store": {"maintenance_interval": "1s", "lease": "5s"}}
    first = lab.gateway(**store)
    second = lab.gateway(folder=first.folder, wait=False, **store)
    time.sleep(3)
    second.port = second.served_port() or 0
    ready = bool(second.port) and second.get("/readyz").status == 200
    lab.check(not ready and second.alive(), "both serve" if ready else "the second ended at once")
    lab.expect(first.get("/readyz"), "the first, meanwhile")
    first.stop()
    took_over = until(
        lambda: second.served_port()
        and (setattr(second, "port", second.served_port()), second.get("/readyz"))[1].status == 200,
        8,
    )
    lab.check(took_over, "the second does not serve after the first has ended")
    for file in second.folder.glob("antwort.db*"):
        file.unlink()
    lab.check(until(lambda: second.get("/readyz").status == 503, 6), "ready, though its file was removed")
    lab.held("the second waits, then serves; without its file it is not ready")


@attack("responses that are deleted while they run")
def deleted_while_running(lab: Lab) -> None:
    def slowly(provider, exchange, request):
        exchange.stream()
        exchange.send(event({"role": "assistant", "content": "begun"}))
        time.sleep(1.5)
        exchange.send(event({"content": "more"}) + event({}, "stop") + END)
        exchange.connection.close()

    gateway = lab.gateway(lab.provider(slowly))
    for wait in (0, 0.1, 0.8):
        stream = lab.closing(
            gateway.send(gateway.posted("/v1/responses", {"model": "m", "input": "x", "stream": True}))
        )
        received = b""
        while b'"id":"resp_' not in received:
            received += stream.recv(65536)
        id = received.split(b'"id":"', 1)[1].split(b'"', 1)[0].decode()
        time.sleep(wait)
        lab.expect(gateway.delete(f"/v1/responses/{id}"), f"DELETE {wait:g} s after it was created")
        lab.expect(gateway.get(f"/v1/responses/{id}"), "retrieved at once", 404)
        while stream.recv(65536):
            pass
        lab.expect(
            gateway.get(f"/v1/responses/{id}"), f"deleted after {wait:g} s, retrieved when its run was over", 404
        )
    lab.held("404 from then on")


@attack("kill -9 under load: what was acknowledged is there afterwards")
def killed_under_load(lab: Lab) -> None:
    gateway = lab.gateway()
    acknowledged, over = [], threading.Event()

    def create() -> None:
        while not over.is_set():
            answer = gateway.create(input="a" * 200)
            if answer.status == 200:
                acknowledged.append((answer.json["id"], answer.body))

    for restart in range(2):
        threads = [threading.Thread(target=create, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        os.kill(gateway.pid, signal.SIGKILL)
        over.set()
        for thread in threads:
            thread.join()
        over.clear()
        gateway.process.wait()
        gateway = lab.gateway(folder=gateway.folder)
    lost = sum(gateway.get(f"/v1/responses/{id}").body != body for id, body in acknowledged[-500:])
    lab.check(lost == 0, f"{lost} of {min(500, len(acknowledged))} are lost or different")
    gateway.stop()
    sound = sqlite3.connect(gateway.folder / "antwort.db").execute("PRAGMA integrity_check").fetchone()[0]
    lab.check(sound == "ok", f"integrity: {sound}")
    lab.note(f"{len(acknowledged)} acknowledged, {lost} lost")
