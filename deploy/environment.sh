# Sourced by the launchers: the checkout they lie in, and its Python, which is made on first use.
# shellcheck shell=bash
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PYTHON="${DASKGLM_PYTHON:-$ROOT/.venv/bin/python}"
if [[ -z "${DASKGLM_PYTHON:-}" && ! -f "$ROOT/.venv/.done" ]]; then
    make -s -C "$ROOT" setup
fi
if ! "$PYTHON" -c 'import daskglm' 2>/dev/null; then
    echo "$PYTHON cannot import daskglm: run make setup, or set DASKGLM_PYTHON" >&2
    exit 1
fi
