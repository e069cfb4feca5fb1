"""The command line: one file a command; each parses, calls one function, prints and sets the exit code."""
