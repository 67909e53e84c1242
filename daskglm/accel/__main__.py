"""`python -m daskglm.accel script.py [arguments]`: a program for scikit-learn, with our solvers."""

from __future__ import annotations

import argparse
import atexit
import logging
import runpy
import sys
from pathlib import Path

from daskglm.accel import install, report


def main(given: list[str] | None = None) -> None:
    """Run the program that the command line names, and tell at exit what was called."""
    parser = argparse.ArgumentParser(prog="python -m daskglm.accel", description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="log reasons as they come up")
    parser.add_argument("--quiet", action="store_true", help="no report at exit")
    parser.add_argument(
        "--compare", action="store_true", help="time scikit-learn's fit, too, after each of ours"
    )
    parser.add_argument("-m", dest="module", metavar="MODULE", help="a module instead of a script")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="script.py [arguments]")
    known, rest = _split(sys.argv[1:] if given is None else given)
    options = parser.parse_args(known)
    if options.module is None and not rest:
        parser.error("which script?")
    if options.verbose:
        logging.basicConfig(format="%(name)s: %(message)s")
        logging.getLogger("daskglm.accel").setLevel(logging.INFO)
    install(compare=options.compare)
    if not options.quiet:
        atexit.register(lambda: print(report(), file=sys.stderr))
    if options.module is not None:
        sys.argv = [options.module, *rest]
        sys.path[0] = ""
        runpy.run_module(options.module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = rest
        sys.path[0] = str(Path(rest[0]).resolve().parent)
        runpy.run_path(rest[0], run_name="__main__")


def _split(given: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the program's: these begin at the script, or after the module's name."""
    for place, word in enumerate(given):
        if word == "-m":
            return given[: place + 2], given[place + 2 :]
        if not word.startswith("-"):
            return given[:place], given[place:]
    return given, []


if __name__ == "__main__":
    main()
