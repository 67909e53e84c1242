"""What is measured on a GPU: `python -m benchmarks.gpu`, or all of it with the tests by
`benchmarks/gpu_report.sh`.
"""
