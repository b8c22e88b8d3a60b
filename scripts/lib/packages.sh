# Installs Debian's packages that a script needs; sourced.

# Debian keeps daemons where only root's path looks, and PostgreSQL's programs by version.
export PATH="$PATH:/usr/sbin:/sbin"
for folder in /usr/lib/postgresql/*/bin; do
    [[ ! -d "$folder" ]] || PATH="$folder:$PATH"
done

# Installs those packages whose program is missing, if root on Debian or Ubuntu runs this. Their services are not started.
debian_packages() { # PACKAGE:PROGRAM...
    local missing=() each
    for each in "$@"; do
        command -v "${each#*:}" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/${each#*:}" >/dev/null || missing+=("${each%%:*}")
    done
    ((${#missing[@]} == 0)) && return
    [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null || { echo "these are needed: ${missing[*]}" >&2; exit 1; }
    echo "installing ${missing[*]}" >&2
    local policy=/usr/sbin/policy-rc.d ours=no installed=yes log
    log="$(mktemp)"
    [[ -e "$policy" ]] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && ours=yes; }
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 || installed=no
    [[ "$ours" == no ]] || rm -f "$policy"
    [[ "$installed" == yes ]] || { cat "$log" >&2; rm -f "$log"; echo "they could not be installed" >&2; exit 1; }
    rm -f "$log"
}
