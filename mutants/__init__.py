"""Mutation testing: change one place of the code, run the tests that reach it, see whether one of them fails."""
