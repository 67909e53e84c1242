"""Functions of compiled code that modules provide, chosen by the type of their first argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba import jit, types
from numba.core.typing.templates import infer, infer_global, make_overload_template

Function = Callable[..., Any]
# Options of functions that only compiled code calls.
WITHIN_CALLERS = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def within_callers(**options: Any) -> Callable[[Function], Any]:
    """Decorate a short function: numba compiles it with each that calls it, to no file of its own.

    A call to a function that is `compiled` by itself takes 17 ns more (x86 server, 2026-11), as
    much as the work on a row; and to read its file takes longer than to compile a line again.
    """

    def decorate(function: Function) -> Any:
        dispatcher = jit(**WITHIN_CALLERS, **options)(function)
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
        self.instead: dict[str, Function] = {}

    def __call__(self, name: str, instead: Function | None = None) -> Function:
        """Return the function of this name; modules without it have the one `instead`."""
        if instead is not None:
            self.instead[name] = instead
        own = getattr(self.like, name)

        @functools.wraps(getattr(own, "py_func", own))
        def asked(*_: Any) -> Any:
            raise NotImplementedError("compiled code only")

        self.asked[name] = asked
        return asked

    def add(self, module: ModuleType, takes: Callable[[Any], bool]) -> None:
        """Offer the functions of a module where the numba type of the first argument suits."""
        for name, asked in self.asked.items():
            own = getattr(module, name, *filter(None, [self.instead.get(name)]))
            choose = _chooser(getattr(own, "py_func", own), inspect.signature(asked), takes)
            options = {**WITHIN_CALLERS, **getattr(own, "short", {})}
            template = make_overload_template(asked, choose, options, strict=True, inline="never")
            if hasattr(own, "py_func") and not hasattr(own, "short"):  # it is compiled by itself
                template._get_jit_decorator = _taking(own)
            infer(template)
            infer_global(asked, types.Function(template))


def _taking(own: Any) -> Function:
    """Return what gives numba this function, compiled or on disk, in place of one to be compiled.

    As `overload`'s it would be a function that calls this one, and take as long to compile.
    """
    return lambda template: lambda **options: lambda function: own


def _chooser(
    function: Function, signature: inspect.Signature, takes: Callable[[Any], bool]
) -> Function:
    """Return what numba asks for the function, by the types of arguments."""

    def choose(first: Any, *_: Any) -> Function | None:
        return function if takes(first) else None

    # numba compares the names of arguments
    choose.__signature__ = signature  # type: ignore[attr-defined]
    return choose
