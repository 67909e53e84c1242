"""What the two sides of the package share: requests and replies, the engine protocol, outcomes,
checks of arguments.
"""
