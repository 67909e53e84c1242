#!/usr/bin/env bash
# On a machine with a GPU: all tests marked gpu, all measurements of benchmarks/gpu and, where there is
# compute-sanitizer, memcheck and racecheck of the kernels, in under 9 minutes; writes gpu.json and gpu.md.
#
# usage: benchmarks/gpu_report.sh [FOLDER]    (default: benchmarks/results/gpu)
#
# Needs python3 (PYTHON=...) with CuPy, NumPy, SciPy, scikit-learn, pandas, numba, click, threadpoolctl, tqdm, pytest and
# hypothesis. Wheels of what is missing there (dask, distributed, dask-cuda, ...) are taken from the folder WHEELS
# (default: .whl) if it exists; nothing is fetched.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
out=${1:-benchmarks/results/gpu}
python=${PYTHON:-python3}
wheels=${WHEELS:-.whl}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if compgen -G "$wheels/*.whl" > /dev/null; then
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$work/site" "$wheels"/*.whl
  export PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}"
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR="$work/numba"
status=0
echo "== tests marked gpu"
timeout 120 "$python" -m pytest -q -m gpu -p no:cacheprovider -W default tests/test_device_kernels.py tests/test_device.py 2>&1 \
  | tee "$work/tests.log" || status=1
if sanitizer=$(command -v compute-sanitizer); then
  for tool in memcheck racecheck; do
    echo "== compute-sanitizer $tool" | tee -a "$work/tests.log"
    timeout 45 "$sanitizer" --tool "$tool" --error-exitcode 9 "$python" -m benchmarks.gpu.kernels 2>&1 \
      | tail -n 5 | tee -a "$work/tests.log" || status=1
  done
else
  echo "compute-sanitizer: not installed" | tee -a "$work/tests.log"
fi
echo "== measurements"
timeout 300 "$python" -m benchmarks.gpu --out "$out" --minutes "${MINUTES:-4}" --tests "$work/tests.log" || status=1
exit "$status"
