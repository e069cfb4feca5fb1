"""A node's key, and the keys of other clients that it accepts.

`key-file` in the node's configuration is a file with the node's private key; it is made where it
does not exist. `pins-file` is a file of fingerprints by client key that the operator writes, one a
line: the fingerprint, a space, the client key.

    python -m fedgs.flower.private.keys site-0.key     # makes the key, prints its fingerprint
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from fedgs.errors import ConfigError, OutputError
from fedgs.secure.channel import KEY_BYTES, KeyPair

__all__ = ["check_keys", "fingerprint", "kept_key", "read_pins"]


def fingerprint(public: bytes) -> str:
    """The fingerprint of a public key: its SHA-256, 64 hexadecimal digits.

    >>> fingerprint(bytes(32))[:16]
    '66687aadf862bd77'
    """
    return hashlib.sha256(public).hexdigest()


def kept_key(path: str | Path) -> KeyPair:
    """The key of a file, which is made, readable by its owner alone, if it does not exist.

    Raises:
        ConfigError: a file that holds no key.
        OutputError: a file that can be neither read nor made.
    """
    path = Path(path)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            keys = KeyPair.generate()
            part = path.with_name(f"{path.name}.{os.getpid()}.part")
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(keys.private_bytes.hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)  # unlike a rename, it never replaces a key made meanwhile
            except FileExistsError:
                pass
            finally:
                part.unlink()
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"key-file must be a file with a private key, got {error}") from None
    try:
        stored = bytes.fromhex(text)
    except ValueError:
        stored = b""
    if len(stored) != KEY_BYTES:
        raise ConfigError(
            f"key-file must hold a private key of {2 * KEY_BYTES} hexadecimal digits, got {path}, "
            "which does not"
        )
    return KeyPair.from_private_bytes(stored)


def read_pins(path: str | Path) -> dict[str, str]:
    """Client key -> fingerprint of a file; empty lines and lines that begin with # are skipped.

    Raises:
        ConfigError: no such file, a line that is not a fingerprint and a client key, or a client
            key twice.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"pins-file must be a readable file, got {error}") from None
    pins: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        digits, _, name = line.strip().partition(" ")
        digits, name = digits.lower(), name.strip()
        if len(digits) != 64 or not set(digits) <= set("0123456789abcdef") or not name:
            raise ConfigError(
                f"pins-file must hold a fingerprint of 64 hexadecimal digits, a space and a client "
                f"key in each line, got line {number} of {path}"
            )
        if name in pins:
            raise ConfigError(f"pins-file must name a client key once, got {name!r} twice: {path}")
        pins[name] = digits
    return pins


def check_keys(
    directory: Mapping[str, bytes], *, pins: Mapping[str, str] | None, seen: Mapping[str, str]
) -> dict[str, str]:
    """The clients whose keys a node does not accept, each with the reason.

    Args:
        directory: client key -> public key.
        pins: client key -> fingerprint; None: the operator has given none.
        seen: client key -> fingerprint of earlier sessions.

    Returns:
        Client key -> why. A pin comes before what was seen. With pins, a client without one is not
        accepted.

    >>> check_keys({"a": bytes(32)}, pins=None, seen={"a": "0" * 64})
    {'a': 'its key is another one than before'}
    >>> check_keys({"a": bytes(32)}, pins={}, seen={})
    {'a': 'its key is not pinned'}
    """
    refused: dict[str, str] = {}
    for name, public in directory.items():
        print_of_it = fingerprint(public)
        if pins is not None and name not in pins:
            refused[name] = "its key is not pinned"
        elif pins is not None and pins[name] != print_of_it:
            refused[name] = "its key is not the pinned one"
        elif pins is None and seen.get(name, print_of_it) != print_of_it:
            refused[name] = "its key is another one than before"
    return refused


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m fedgs.flower.private.keys FILE")
    print(fingerprint(kept_key(sys.argv[1]).public))
