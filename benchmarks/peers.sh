#!/usr/bin/env bash
# Make an environment for each peer of the benchmarks: benchmarks/peers.sh [NAME...]; without names all but cuml, which
# wants a GPU. Versions are pinned in benchmarks/peers/NAME.txt. They go into $DASKGLM_PEERS, by default benchmarks/.peers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${DASKGLM_PEERS:-$here/.peers}
python=${PYTHON:-python3}
if [ $# -eq 0 ]; then
    set -- $(cd "$here/peers" && ls | sed 's/\.txt$//' | grep -v '^cuml$')
fi
for name in "$@"; do
    if [ ! -f "$here/peers/$name.txt" ]; then
        echo "no peer is called $name; there are: $(cd "$here/peers" && ls | sed 's/\.txt$//' | tr '\n' ' ')" >&2
        exit 2
    fi
done
failed=()
for name in "$@"; do
    echo "$name"
    rm -f "$folder/$name/.done"
    if "$python" -m venv "$folder/$name" &&
        "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/peers/$name.txt"; then
        touch "$folder/$name/.done"
    else
        failed+=("$name")
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "not installed: ${failed[*]}" >&2
    exit 1
fi
