#!/usr/bin/env bash
# On a machine with a GPU: all tests marked gpu, where there is compute-sanitizer three of its tools on the kernels, and
# all measurements of benchmarks/gpu, in under 15 minutes; writes tests.log, gpu.json and gpu.md.
#
# usage: benchmarks/gpu_report.sh [FOLDER]    (default: benchmarks/results/gpu)
#
# Needs python3 (PYTHON=...) with CuPy, NumPy, SciPy, scikit-learn, pandas, numba, click, threadpoolctl, tqdm, pytest and
# hypothesis. Wheels of what is missing there (dask, distributed, dask-cuda, ...) are taken from the folder WHEELS
# (default: .whl) if it exists; nothing is fetched. What numba compiles is kept in NUMBA_CACHE_DIR (default:
# /tmp/daskglm-numba) and what CuPy compiles in ~/.cupy, so that a second run does not compile again.
#
# Whatever takes too long is sent SIGINT: pytest then prints its failures, and the measurements have written all lines
# that were finished. TESTS_SECONDS, TOOL_SECONDS and MINUTES say how long each may take.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
out=${1:-benchmarks/results/gpu}
python=${PYTHON:-python3}
wheels=${WHEELS:-.whl}
minutes=${MINUTES:-4}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if compgen -G "$wheels/*.whl" > /dev/null; then
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$work/site" "$wheels"/*.whl
  export PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}"
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export NUMBA_CACHE_DIR="${NUMBA_CACHE_DIR:-/tmp/daskglm-numba}"
status=0
: > "$out/tests.log"
if [ "${TESTS_SECONDS:-300}" -gt 0 ]; then
  echo "== tests marked gpu"
  timeout -s INT "${TESTS_SECONDS:-300}" "$python" -m pytest -q -m gpu -p no:cacheprovider -W default --tb=short \
    tests/kernels/cuda tests/integration/test_device.py 2>&1 | tee -a "$out/tests.log" || status=1
fi
if sanitizer=$(command -v compute-sanitizer); then
  for tool in synccheck memcheck racecheck; do  # the cheapest first
    echo "== compute-sanitizer $tool" | tee -a "$out/tests.log"
    timeout -s INT "${TOOL_SECONDS:-60}" "$sanitizer" --tool "$tool" --error-exitcode 9 "$python" -m benchmarks.gpu.kernels 2>&1 \
      | tail -n 15 | tee -a "$out/tests.log" || status=1
  done
else
  echo "compute-sanitizer: not installed" | tee -a "$out/tests.log"
fi
echo "== measurements"
# no case is begun after MINUTES; the one at work then may take two more
timeout -s INT "$(awk "BEGIN { print int(60 * ($minutes + 2)) }")" "$python" -m benchmarks.gpu --out "$out" \
  --minutes "$minutes" --tests "$out/tests.log" ${QUICK:+--quick} || status=1
exit "$status"
