"""Doctests of parts whose extra is not installed are left out."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("flwr") else ["fedgs/flower/*"]
