"""The command line, one module for each command.

A command parses its options, calls one function, prints, and sets the exit code.
"""
