"""Whether workers have this package. Without it they cannot read what they are asked: Dask cuts their links instead."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

SHOWN = 3  # addresses in a message
ASK_SECONDS = 30.0  # for an answer; the import takes a second, on a busy machine ten

_KNOWN: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()  # by client: workers that have it


def _probe() -> Callable[[], str]:
    """A function that is sent as code, not by its name, which workers without the package could not look up."""

    def reason() -> str:
        import importlib

        try:
            importlib.import_module("daskglm")
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    return reason


async def need_package(client: Any) -> None:
    """Raise RuntimeError unless every worker can import daskglm. Cost: one round trip for workers not asked before."""
    known = _KNOWN.setdefault(client, set())
    new = sorted(set(await client.nthreads()) - known)
    if not new:
        return
    try:
        answers = await asyncio.wait_for(client.run(_probe(), workers=new, on_error="return"), ASK_SECONDS)
    except TimeoutError:  # of a worker that is stopped: the fit will tell
        return
    # what is no text is the error of a link to a worker that has just gone
    missing = {address: answer for address, answer in sorted(answers.items()) if isinstance(answer, str) and answer}
    known.update(address for address, answer in answers.items() if answer == "")
    if missing:
        named = ", ".join(list(missing)[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
        raise RuntimeError(
            f"daskglm cannot be imported on {len(missing)} of the cluster's workers: {named} "
            f"({next(iter(missing.values()))}); install the same version of it there as here"
        )
