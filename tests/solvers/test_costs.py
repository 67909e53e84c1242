"""Solvers decide by counts and constants, never by a clock."""

import ast
from pathlib import Path

from daskglm.solvers import costs

SOLVERS = Path(costs.__file__).parent


def test_no_module_of_the_solvers_reads_a_clock():
    for path in SOLVERS.glob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        assert not names & {"time", "perf_counter", "monotonic", "timeit"}, path.name
