"""Functions of compiled code that modules provide, chosen by the type of their first argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba import njit
from numba.extending import overload

Function = Callable[..., Any]


def within_callers(**options: Any) -> Callable[[Function], Any]:
    """Decorate a short function: numba compiles it with each that calls it, to no file of its own.

    A call to a function that is `compiled` by itself takes 17 ns more (x86 server, 2026-11), as
    much as the work on a row; and to read its file takes longer than to compile a line again.
    """

    def decorate(function: Function) -> Any:
        dispatcher = njit(**options)(function)
        dispatcher.short = options
        return dispatcher

    return decorate


class Choice:
    """Makes functions that compiled code calls, each as one of a module for all modules alike.

    Parameters
    ----------
    like : module
        Whose functions have the arguments, and say what is done.
    """

    def __init__(self, like: ModuleType) -> None:
        self.like = like
        self.asked: dict[str, Function] = {}

    def __call__(self, name: str) -> Function:
        """Return the function of this name."""
        own = getattr(self.like, name)

        @functools.wraps(getattr(own, "py_func", own))
        def asked(*_: Any) -> Any:
            raise NotImplementedError("compiled code only")

        self.asked[name] = asked
        return asked

    def add(self, module: ModuleType, takes: Callable[[Any], bool]) -> None:
        """Offer the functions of a module where the numba type of the first argument suits."""
        for name, asked in self.asked.items():
            own = getattr(module, name)
            options = getattr(own, "short", {})
            overload(asked, jit_options=options)(_chooser(own, inspect.signature(asked), takes))


def _chooser(own: Any, signature: inspect.Signature, takes: Callable[[Any], bool]) -> Function:
    """Return what numba asks for the function to compile, by the types of arguments."""
    call: Function = getattr(own, "py_func", own)
    if call is not own and not hasattr(own, "short"):  # it is compiled by itself
        arguments = ", ".join(signature.parameters)
        call = eval(f"lambda {arguments}: own({arguments})", {"own": own})

    def choose(first: Any, *_: Any) -> Function | None:
        return call if takes(first) else None

    # numba compares the names of arguments
    choose.__signature__ = signature  # type: ignore[attr-defined]
    return choose
