"""`python -m daskglm` is the command line."""

from daskglm.cli import main

main()
