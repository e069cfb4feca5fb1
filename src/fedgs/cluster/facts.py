"""What a computer reports about itself before it gets work.

The module is sent to the computer as it is, also to one without fedgs: every function imports what
it needs, and nothing of the package.
"""

__all__ = ["node_facts"]


def node_facts() -> dict[str, str]:
    """Versions, processor and name of this computer; "none" for what is not installed.

    >>> facts = node_facts()
    >>> facts["fedgs"] == __import__("fedgs").__version__, len(facts["code of fedgs"])
    (True, 16)
    """
    import os
    import platform
    import socket
    from importlib import metadata

    def version(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "none"

    return {
        "host": socket.gethostname(),
        "fedgs": version("fedgs"),
        "code of fedgs": source_digest(),
        "Python": platform.python_version(),
        "NumPy": version("numpy"),
        "PyTorch": version("torch"),
        "processor": processor(),
        "authentication": os.environ.get("RAY_AUTH_MODE", "disabled"),
    }


def source_digest() -> str:
    """16 hexadecimal digits for the modules of fedgs that are installed; "none" without any."""
    import hashlib
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("fedgs")
    if spec is None or spec.origin is None:
        return "none"
    folder = Path(spec.origin).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).as_posix()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def processor() -> str:
    """The model of the processor, on which the last bits of results depend."""
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "Model", "cpu model"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
