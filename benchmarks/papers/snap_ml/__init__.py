"""The figures of the Snap ML paper, reproduced with daskglm; see README.md beside this file."""
