"""What a worker does with its blocks: answer a request, keep what several requests share, dual
coordinate ascent.
"""
