"""One thread for BLAS, where more would wait for each other longer than they work."""

from __future__ import annotations

import contextlib
import functools
from typing import Any


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """Limit BLAS to one thread of this process for as long as the context lasts."""
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
