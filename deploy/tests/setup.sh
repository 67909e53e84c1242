#!/usr/bin/env bash
# What the tests of the launchers and of the pages need beyond `make setup`: Debian's packages (as root) and libraries for Python.
# They run then with `make nightly`, or: .venv/bin/python -m pytest -m root tests/launch/test_deploy.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PACKAGES=(chromium iproute2 openssh-server openssh-client slurm-wlm munge openmpi-bin numactl shellcheck)
if [[ "$(id -u)" == 0 ]] && command -v apt-get > /dev/null; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d # packages must not start their services
    chmod +x /usr/sbin/policy-rc.d
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" > /dev/null
    rm -f /usr/sbin/policy-rc.d
else
    echo "not root, or no apt-get: install ${PACKAGES[*]} yourself, or their tests skip" >&2
fi
make -s setup
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-deploy.lock
