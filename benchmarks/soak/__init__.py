"""Fits of random problems on a small cluster, with random faults, for as long as is asked: see
`__main__`.
"""
