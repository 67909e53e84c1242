"""Starting clusters: what `daskglm cluster` and the scripts in `deploy/` run, one worker per NUMA
node or per GPU.
"""
