# Packages, the scripted provider and gateways before it, for `test-sdk`, `test-clients`, `test-generated` and `test-ui`, which source this.
#
# Sets `project`, `suites` and `work`; the caller sets `cache` before it installs packages.

readonly project="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly suites="$project/tests/sdk"
work="$(mktemp -d)"
readonly work
started=()

say() { printf '%s: %s\n' "$(basename -- "$0")" "$*"; }
die() { say "$*" >&2; exit 1; }

# Only what this script started is stopped.
clean_up() {
    ((${#started[@]} == 0)) || kill "${started[@]}" 2>/dev/null || true
    ((${#started[@]} == 0)) || wait "${started[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- packages -------------------------------------------------------------------------------------------

# Whether a folder holds what these files say, for this interpreter; a cut-off installation does not count.
fresh() { # FOLDER VERSION FILE...
    local folder="$1"; shift
    stamp="$(printf '%s\n' "$1" | cat - "${@:2}" | sha256sum)"
    [[ -f "$folder/.installed" && "$(<"$folder/.installed")" == "$stamp" ]]
}

# Installs what a file pins into a folder of the cache, and sets `python` to an interpreter that finds it.
python_packages() { # NAME REQUIREMENTS
    local folder="$cache/$1"
    export PIP_ROOT_USER_ACTION=ignore
    if ! fresh "$folder" "$(python3 -VV)" "$2"; then
        say "installing the Python packages of $1"
        rm -rf "$folder" && mkdir -p "$folder"
        # Debian ships Python without venv; pip can do without, into a folder of its own.
        local pip=(python3 -m pip install --target "$folder/packages")
        if python3 -m venv "$folder/venv" >/dev/null 2>&1 || python3 -m virtualenv -q "$folder/venv" 2>/dev/null; then
            pip=("$folder/venv/bin/python" -m pip install)
        else
            rm -rf "$folder/venv"
        fi
        "${pip[@]}" --quiet --disable-pip-version-check --no-compile -r "$2" \
            || die "the Python packages could not be installed"
        printf '%s' "$stamp" >"$folder/.installed"
    fi
    python=(env "PYTHONPATH=$folder/packages" python3)
    [[ ! -x "$folder/venv/bin/python" ]] || python=("$folder/venv/bin/python")
}

# Node finds packages only beside the files that import them, so the suite runs from a copy in the cache.
node_packages() { # SOURCE
    local folder="$cache/node"
    mkdir -p "$folder"
    rm -f "$folder"/*.m[jt]s
    cp "$1"/*.m[jt]s "$folder"
    npm_install "$1"
}

# Installs what a folder's lock says into the cache.
npm_install() { # SOURCE [NAME]
    local folder="$cache/${2:-node}"
    mkdir -p "$folder"
    fresh "$folder" "$(node --version)" "$1/package-lock.json" && return
    say "installing the npm packages"
    rm -f "$folder/.installed"
    cp "$1"/{package.json,package-lock.json,.npmrc} "$folder"
    (cd "$folder" && npm ci --loglevel=error --no-audit --no-fund --ignore-scripts) || die "the npm packages could not be installed"
    printf '%s' "$stamp" >"$folder/.installed"
}

# --- servers --------------------------------------------------------------------------------------------

free_ports() { # COUNT
    python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in sockets))
PY
}

start() { # NAME COMMAND...
    "${@:2}" >"$work/$1.log" 2>&1 &
    started+=("$!")
}

# The environment of this script may hold settings for another gateway; only these count.
gateway() { # NAME PORT [NAME=VALUE...]
    local settings=()
    while IFS= read -r name; do settings+=(-u "$name"); done < <(compgen -e ANTWORT_ || true)
    start "$1" env -C "$work" "${settings[@]}" \
        "ANTWORT_LISTEN=127.0.0.1:$2" \
        "ANTWORT_UPSTREAM_URL=http://127.0.0.1:$mock_port/v1" \
        "ANTWORT_UPSTREAM_API_KEY=sk-of-the-gateway-itself" \
        "ANTWORT_STORE_URL=sqlite:$work/$1.db" \
        ANTWORT_LOG=warn "${@:3}" "$binary" serve
}

wait_ready() { # NAME PORT PID
    local until=$((SECONDS + 30))
    until python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' \
        "http://127.0.0.1:$2/readyz" 2>/dev/null; do
        if ((SECONDS > until)) || ! kill -0 "$3" 2>/dev/null; then
            cat "$work/$1.log" >&2
            die "the gateway '$1' did not get ready"
        fi
    done
}

find_gateway() {
    binary="${ANTWORT_BIN:-}"
    if [[ -z "$binary" ]]; then
        (cd "$project" && cargo build --locked --quiet --bin antwort)
        binary="${CARGO_TARGET_DIR:-$project/target}/debug/antwort"
    fi
    binary="$(realpath -- "$binary")"
    [[ -x "$binary" ]] || die "no gateway at $binary"
}

start_servers() {
    local open_port keyed_port mcp_port hook_port
    read -r mock_port open_port keyed_port mcp_port hook_port < <(free_ports 5)
    export SDK_KEY_FULL="sk-full" SDK_KEY_READER="sk-reader" SDK_KEY_OTHER="sk-other" SDK_KEY_HOOKED="sk-hooked"
    export SDK_OPEN_URL="http://127.0.0.1:$open_port/v1" SDK_KEYED_URL="http://127.0.0.1:$keyed_port/v1"
    export SDK_MCP_URL="http://127.0.0.1:$mcp_port"
    # Tests listen there.
    export SDK_HOOK_URL="http://127.0.0.1:$hook_port/hook?from=antwort"
    SDK_HOOK_SECRET="whsec_$(head -c 32 /dev/urandom | base64)"
    export SDK_HOOK_SECRET
    # A proxy is for the registries above, not for these.
    export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
    start mock python3 -B "$suites/mock_provider.py" "$mock_port"
    gateway open "$open_port" "ANTWORT_CONFIG=$suites/open.yaml" "SDK_SEARCH_URL=http://127.0.0.1:$mock_port"
    gateway keyed "$keyed_port" "ANTWORT_CONFIG=$suites/keyed.yaml"
    start mcp python3 -B "$suites/mcp_server.py" "$mcp_port"
    wait_ready open "$open_port" "${started[1]}"
    wait_ready keyed "$keyed_port" "${started[2]}"
}

# Warnings are part of the tests; a gateway that logs an error has gone wrong even if no client saw it.
gateways_are_well() {
    ! grep -hE '"level":"ERROR"|panicked' "$work"/{open,keyed}.log >&2
}
