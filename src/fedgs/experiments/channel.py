"""Messages between a study and its worker processes.

A message is a pickled object, sent over a socket and preceded by its length.
"""

import pickle
import socket
import struct
import threading

__all__ = ["Channel"]

_LENGTH = struct.Struct("!Q")


class Channel:
    """One end of a connection. Several threads may send; one receives.

    >>> first, second = (Channel(end) for end in socket.socketpair())
    >>> first.send({"round": 3})
    >>> second.receive()
    {'round': 3}
    >>> first.close()
    >>> second.receive()
    Traceback (most recent call last):
    EOFError: the other end is closed
    >>> second.close()
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The descriptor, for functions that wait for one of several channels."""
        return self.socket.fileno()

    def send(self, message: object) -> None:
        """Send any object that can be pickled.

        Raises:
            OSError: the other end is closed.
        """
        content = pickle.dumps(message)
        with self._sending:
            self.socket.sendall(_LENGTH.pack(len(content)) + content)

    def receive(self) -> object:
        """Wait for the next message.

        Raises:
            EOFError: the other end is closed, also in the middle of a message.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(length))

    def discard(self) -> bool:
        """Wait for a part of a message and drop it.

        Returns:
            False where the other end is closed or sends nothing more.
        """
        try:
            return bool(self.socket.recv(1 << 20))
        except ConnectionResetError:
            return False

    def end_sending(self) -> None:
        """Report that no message follows, without waiting for one that is being sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end."""
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            try:
                part = self.socket.recv(min(size - len(content), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError("the other end is closed")
            content += part
        return bytes(content)
