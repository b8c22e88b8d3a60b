"""Runs the gateway in the root file system of the image, read-only, as user 65532, and looks what it does.

    rehearse.py IMAGE ENTER…            the tests; ENTER is the command that gives a mount namespace
    rehearse.py --inside IMAGE SETTINGS COMMAND…   (by itself, in that namespace)"""

import ctypes
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

USER = 65532
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 32, 4096, 16384, 1 << 18)
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_SET_NO_NEW_PRIVS = 47, 4, 38
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, flags):
    done = libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None)
    if done != 0:
        raise OSError(ctypes.get_errno(), f"mounting {target}")


def inside(image, settings, command):
    """Becomes the command, in the image."""
    root = image / "root"
    mount("none", "/", MS_REC | MS_PRIVATE)
    mount(root, root, MS_BIND)
    mount(image / "data", root / "data", MS_BIND)
    mount("/proc", root / "proc", MS_BIND | MS_REC)
    for device in ("null", "urandom"):
        mount(f"/dev/{device}", root / "dev" / device, MS_BIND)
    if settings != "-":
        mount(settings, root / "etc/antwort/antwort.yaml", MS_BIND)
    # Flags that a namespace of another user's must keep.
    kept = os.statvfs(root).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("none", root, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)
    os.chroot(root)
    os.chdir("/")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.execv(command[0], command)


class Provider(http.server.BaseHTTPRequestHandler):
    """A model server that says the same at all times."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}), "application/json")

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        chunks = [{"delta": {"role": "assistant", "content": "Well."}, "finish_reason": None},
                  {"delta": {}, "finish_reason": "stop"}]
        events = [json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                              "choices": [{"index": 0, **chunk}]}) for chunk in chunks]
        self.reply("".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]), "text/event-stream")

    def reply(self, text, kind):
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Image:
    def __init__(self, image, enter):
        self.image, self.enter = image, enter

    def command(self, words, settings="-"):
        script = [sys.executable, "-B", __file__, "--inside", str(self.image), str(settings)]
        return [*self.enter, *script, "/usr/local/bin/antwort", *words]

    def start(self, words, settings="-", **environment):
        return subprocess.Popen(self.command(words, settings), env=self.environment(environment),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, words, settings="-", **environment):
        return subprocess.run(self.command(words, settings), env=self.environment(environment), timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    @staticmethod
    def environment(more):
        return {"PATH": os.environ["PATH"], "HOME": "/data", **more}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def until_ready(base, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            ask(f"{base}/readyz")
            return
        except (OSError, urllib.error.URLError):
            if process.poll() is not None:
                sys.exit(f"the gateway ended: {process.stdout.read()}")
            time.sleep(0.1)
    process.kill()
    sys.exit(f"the gateway was not ready in time: {process.stdout.read()}")


def stop(process):
    """Ends a gateway as Docker does; what it wrote."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    check(process.returncode == 0, f"it ends with {process.returncode}", output)
    return output


def check(holds, words, output=""):
    if not holds:
        sys.exit(f"image: {words}\n{output}")


def the_image_says_where_it_serves_and_keeps(image):
    shown = image.run(["config", "show"], ANTWORT_API_KEY="the-key-of-this-test")
    said = shown.stdout
    check(shown.returncode == 0 and "listen: 0.0.0.0:8080" in said, "its settings are those of the file", said)
    check("sqlite:/data/antwort.db" in said and "/etc/antwort/antwort.yaml" in said, "and it says so", said)
    refused = image.run(["serve"], ANTWORT_UPSTREAM_URL="http://127.0.0.1:9/v1")
    check(refused.returncode == 2 and "key" in refused.stdout, "without keys it serves nobody", refused.stdout)


def the_demo_runs(image):
    port = free_port()
    demo = image.start(["demo"], ANTWORT_LISTEN=f"127.0.0.1:{port}")
    base = f"http://127.0.0.1:{port}"
    until_ready(base, demo)
    model = json.loads(ask(f"{base}/v1/models"))["data"][0]["id"]
    response = json.loads(ask(f"{base}/v1/responses", {"model": model, "input": "Hi"}))
    check(response["status"] == "completed", "a response", response)
    stream = ask(f"{base}/v1/responses", {"model": model, "input": "Hi", "stream": True})
    check("response.completed" in stream, "a stream", stream)
    stop(demo)
    for file in (image.image / "data").iterdir():
        check(file.stat().st_mode & 0o077 == 0, f"{file.name} is its owner's alone")
    check((image.image / "data/antwort.db").exists(), "responses are kept in /data")


def a_mounted_file_counts(image, provider):
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    settings = image.image / "mounted.yaml"
    settings.write_text(json.dumps({
        "listen": f"0.0.0.0:{port}",
        "auth": {"keys": {"one": {"key": "the-key-of-this-test"}}},
        "store": {"url": "sqlite:/data/mounted.db"},
        # The name comes from /etc/hosts.
        "providers": {"default": {"url": f"http://localhost:{provider}/v1"},
                      # Its authorities are read at the start.
                      "other": {"url": "https://localhost:9/v1", "models": ["other-*"]}},
    }))
    settings.chmod(0o644)
    server = image.start(["serve"], settings)
    until_ready(base, server)

    def call(path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "authorization": "Bearer the-key-of-this-test"}
        with urllib.request.urlopen(urllib.request.Request(base + path, data, headers), timeout=30) as answer:
            return json.load(answer)

    response = call("/v1/responses", {"model": "m", "input": "Hi"})
    check(response["output"][0]["content"][0]["text"] == "Well.", "a response", response)
    healthy = image.run(["healthcheck"], settings)
    check(healthy.returncode == 0, "the health check of the image", healthy.stdout)
    copied = image.run(["store", "backup", "/data/copy.db"], settings)
    check(copied.returncode == 0 and (image.image / "data/copy.db").exists(), "a backup", copied.stdout)
    refused = image.run(["store", "backup", "/copy.db"], settings)
    check(refused.returncode == 1 and "ead-only" in refused.stdout, "nothing but /data can be written", refused.stdout)
    stop(server)
    check(image.run(["healthcheck"], settings).returncode == 1, "nobody serves any more")
    server = image.start(["serve"], settings)
    until_ready(base, server)
    check(call(f"/v1/responses/{response['id']}") == response, "it is there after a restart")
    stop(server)


def main():
    match sys.argv[1:]:
        case ["--inside", image, settings, *command]:
            inside(pathlib.Path(image), settings, command)
        case [path, *enter]:
            image = Image(pathlib.Path(path).resolve(), enter)
            root = image.image / "root"
            # What a container engine brings, and the user may go through.
            for folder in ("proc", "dev"):
                (root / folder).mkdir()
            for device in ("null", "urandom"):
                (root / "dev" / device).touch()
            (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
            (root / "etc/resolv.conf").write_text("")
            for parent in (image.image, image.image.parent):
                parent.chmod(0o755)
            if os.geteuid() == 0:
                shutil.chown(image.image / "data", USER, USER)
            elif enter[0] == "sudo":
                subprocess.run([*enter[:2], "chown", f"{USER}:{USER}", image.image / "data"], check=True)
            others = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
            threading.Thread(target=others.serve_forever, daemon=True).start()
            the_image_says_where_it_serves_and_keeps(image)
            the_demo_runs(image)
            a_mounted_file_counts(image, others.server_port)
            size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
            print(f"image: runs as {USER} with a read-only root of {size >> 20} MiB")


main()
