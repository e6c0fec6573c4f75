"""The policy: pure functions from a request to a verdict.

Rules are compiled once. `index.py` keeps the set of rules that fit a value as the bits of one number; a request ANDs a
few of these and walks the rest in order. So the verdict is that of a walk from the top, and 1,000 rules cost about as
much as 10. Globs, expressions (CEL), rates and scanners are compiled as the file is read, so every fault has its line.
"""
