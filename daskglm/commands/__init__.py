"""The commands of `daskglm`, one a module: a function whose docstring is what `--help` shows."""
