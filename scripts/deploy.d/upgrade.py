"""From one version to the next and back: what was stored stays."""

import shutil
import sqlite3
import subprocess
from pathlib import Path

from http1 import Client
from processes import Failed, Gateway
from scene import Row
from traffic import create
from upstream import Provider


async def run(old: str, new: str, parent: Path, migrates: bool) -> Row:
    folder = parent / "upgrade"
    folder.mkdir()
    provider = Provider()
    await provider.start()
    # With nothing that an older version would not know.
    config = {"providers": {"mock": {"url": f"http://127.0.0.1:{provider.port}/v1"}}}
    gateway = Gateway("upgraded", folder, new, config)
    gateway.config["store"]["ttl"] = "off"
    figures = [await left(gateway, old)]
    stored, schema = rows(gateway.database), user_version(gateway.database)
    faults = [] if len(stored) >= 3 else [f"only {len(stored)} responses were stored"]
    await gateway.start()
    faults += await missing(gateway, stored, "after the upgrade")
    await made(gateway, "say 1 0", previous_response_id=await finished(gateway))
    newer = user_version(gateway.database)
    figures.append(f"{len(stored)} there after the upgrade to schema {newer}, one continued")
    faults += backup(new, gateway, folder / "by-hand.db", stored)
    await gateway.stop()
    copies = list(folder.glob(f"{gateway.database.name}.schema-{schema}*.backup"))
    if newer == schema:
        figures.append("no migration")
        faults += [f"both have schema {newer}: nothing was migrated"] if migrates else []
    elif len(copies) != 1 or user_version(copies[0]) != schema:
        faults.append(f"the migration left {[copy.name for copy in copies]} as backups")
    if not faults:
        faults += await back(gateway, old, copies, stored)
        figures.append("and after the way back to its backup and the old binary" if copies else "and with the old binary again")
    provider.stop()
    return Row("", "upgrade and rollback", "; ".join(figures), faults)


async def left(gateway: Gateway, old: str) -> str:
    """Lets the old binary make a database."""
    await gateway.start(old)
    for number in range(20):
        await made(gateway, f"say {number + 1} 0")
    await gateway.stop()
    return f"{len(rows(gateway.database))} responses of {version(old)}"


async def back(gateway: Gateway, old: str, copies: list[Path], stored: list[str]) -> list[str]:
    """As docs/upgrading.md says: an older version refuses the file of a later schema; the backup goes in its place."""
    if copies:
        so_far = len(gateway.log())
        try:
            await gateway.start(old)
            await gateway.stop()
            return ["the old binary served a file of a later schema"]
        except Failed:
            said = gateway.log()[so_far:].strip()
            if gateway.alive or "schema" not in said:
                gateway.kill()
                return [f"the old binary does not refuse a file of a later schema, but says: {said[-300:]}"]
        for end in ["", "-wal", "-shm"]:
            gateway.database.with_name(gateway.database.name + end).unlink(missing_ok=True)
        shutil.copyfile(copies[0], gateway.database)
        gateway.database.chmod(0o600)
    await gateway.start(old)
    faults = await missing(gateway, stored, "after the rollback")
    await made(gateway, "say 1 0", previous_response_id=await finished(gateway))
    await gateway.stop()
    return faults


def backup(binary: str, gateway: Gateway, file: Path, stored: list[str]) -> list[str]:
    """`antwort store backup` beside the server."""
    said = subprocess.run(
        [binary, "store", "backup", str(file), "--config", str(gateway.file)], capture_output=True, text=True, cwd=file.parent
    )
    if said.returncode:
        return [f"antwort store backup: {said.stderr.strip()[-300:]}"]
    lacking = set(stored) - set(rows(file))
    return [f"the backup lacks {len(lacking)} responses of {len(stored)}"] if lacking else []


async def made(gateway: Gateway, text: str, **more) -> None:
    client = Client(gateway.port)
    reply = await client.ask("POST", "/v1/responses", create(text, **more))
    client.close()
    if reply.status != 200 or reply.json.get("status") != "completed":
        raise Failed(f"a response on {gateway.name}: {reply.status} {reply.body.decode()[:300]}")


async def finished(gateway: Gateway) -> str:
    """A response that ended with words, and so can be continued by others."""
    client = Client(gateway.port)
    reply = await client.ask("GET", "/v1/responses?limit=100")
    client.close()
    if reply.status != 200:
        raise Failed(f"the list of responses of {gateway.name}: {reply.status} {reply.code}")
    ended = [each for each in reply.json["data"] if [item["type"] for item in each["output"]] == ["message"]]
    return ended[0]["id"]


async def missing(gateway: Gateway, stored: list[str], when: str) -> list[str]:
    client, faults = Client(gateway.port), []
    for identifier in stored:
        reply = await client.ask("GET", f"/v1/responses/{identifier}")
        if reply.status != 200 or reply.json.get("id") != identifier:
            faults.append(f"{when} {identifier} is {reply.status} {reply.code}")
    client.close()
    return faults


def rows(file: Path) -> list[str]:
    """The ids of the responses in a database."""
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        return [identifier for (identifier,) in database.execute("SELECT id FROM responses")]


def user_version(file: Path) -> int:
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def version(binary: str) -> str:
    return subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.strip()
