"""Benchmarks of daskglm beside its rivals: `python -m benchmarks --help`. Not part of the installed
package.
"""
