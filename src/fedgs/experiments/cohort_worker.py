"""A process that answers pieces of requests: part of a cohort, or some forward passes."""

import io
import logging
import pickle
import time
from collections.abc import Mapping
from typing import Any

from fedgs.arrays import AnyArray
from fedgs.data import Federation
from fedgs.experiments.member import Member, MemberSetup
from fedgs.experiments.pickled_tensors import reduced_tensor
from fedgs.experiments.this_process import own_engine
from fedgs.experiments.transfer import loads
from fedgs.experiments.worker import Log, forward_logs
from fedgs.requests import Engine, Failure

__all__ = ["PARAMETERS", "CohortWorker", "names_of"]

PARAMETERS = "parameters"  # names the parameters of a request, which are sent separately


def names_of(works: list[Any], federations: list[Federation]) -> dict[int, object]:
    """Id of what the processes of a study have already -> its name in a message."""
    named = {id(work): ("work", number) for number, work in enumerate(works)}
    data = {id(federation): ("data", number) for number, federation in enumerate(federations)}
    return {**named, **data}


class CohortWorker(Member):
    """A member that answers one piece after another. Its methods are called from several threads.

    Args:
        setup: what it needs.
    """

    def __init__(self, setup: MemberSetup) -> None:
        super().__init__(setup)
        self._logs: list[logging.LogRecord] = []
        self._known: Mapping[object, object] = {}
        self._engines: dict[tuple[str, str], Engine] = {}

    def send(self, message: object) -> None:
        """Take what the package logs here; it is sent with the next answer."""
        assert isinstance(message, Log)
        self._logs.append(message.record)

    def prepare(self, packed: bytes, *federations: Federation) -> str:
        """Load the runs.

        Returns:
            "" or why they cannot be loaded.
        """
        try:
            forward_logs(self, self.setup.log_level)
            works = [run.plan.work for run in self.load(packed, federations)]
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        kept = names_of(works, list(federations))
        self._known = {kept[id(thing)]: thing for thing in (*works, *federations)}
        return ""

    def answer(
        self, piece: bytes, parameters: AnyArray, engine: tuple[str, str], threads: int
    ) -> bytes:
        """Answer a piece.

        Args:
            piece: from `fedgs.experiments.transfer.dumps`.
            parameters: (P,) of its request.
            engine: name and device.
            threads: in which PyTorch computes.

        Returns:
            A pickled `Answer`, and what was logged meanwhile.
        """
        from fedgs.local.division import portable

        started = time.perf_counter()
        try:
            content = self._answered(piece, parameters, engine, threads)
            packed = _packed(content)
        except Exception as error:
            packed = _packed(portable(Failure(None, error)))
        logs, self._logs = self._logs, []
        return pickle.dumps((packed, time.perf_counter() - started, logs))

    def _answered(
        self, piece: bytes, parameters: AnyArray, engine: tuple[str, str], threads: int
    ) -> object:
        import torch

        from fedgs.local.division import answered
        from fedgs.local.threads import threads_of

        vector = torch.from_numpy(parameters.copy())  # the store's memory must not be written to
        request = loads(piece, {**self._known, PARAMETERS: vector})
        if engine not in self._engines:
            self._engines[engine] = own_engine(*engine)
        with threads_of(threads):
            return answered(self._engines[engine], request)


def _packed(content: object) -> bytes:
    """The content of an answer, with all tensors on the CPU."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(content)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        import torch

        if not isinstance(obj, torch.Tensor):
            return NotImplemented
        if obj.device.type != "cpu":
            return _itself, (obj.cpu(),)
        return reduced_tensor(obj)


def _itself(value: object) -> object:
    return value
