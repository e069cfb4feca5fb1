"""The client's side of the private graph: a query handler of its ClientApp.

A ClientApp may run in a process of its own for each message, so everything that has to last is in
Flower's client state: the node's key, the fingerprints of others, and the session in progress. A
node has one session at a time; the first message of another one replaces it.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedgs.arrays import AnyArray, FloatArray
from fedgs.errors import ConfigError, FedgsError, ProtocolError
from fedgs.flower.client import client_key, describe
from fedgs.flower.names import LONGEST_KEY
from fedgs.flower.private.keys import check_keys, fingerprint, kept_key, read_pins
from fedgs.flower.private.messages import (
    ACCUSED,
    MOST_CLIENTS,
    QUERY,
    RECORD,
    REFUSED,
    Entries,
    Sent,
    entry,
    named,
    roster_label,
)
from fedgs.secure.channel import KEY_BYTES, SEAL_BYTES, KeyPair
from fedgs.secure.fixed_point import fixed_point
from fedgs.secure.ring import RingParty
from fedgs.secure.session import SessionPlan
from fedgs.secure.wire import HEADER_BYTES, single

__all__ = ["STATE", "describe_privately"]

STATE = "fedgs-private"
_LONGEST_TEXT = 300  # characters
_logger = logging.getLogger(__name__)
_PARTY = "party."  # prefix of the entries of the saved party
_LASTING = ("key", "seen", "prints")  # entries that outlast a session
_SEALED = HEADER_BYTES + SEAL_BYTES

Numbers = Sequence[float] | AnyArray


class _Refusal(ProtocolError):
    """A request is refused; `accused` are the names of the clients at fault."""

    def __init__(self, text: str, accused: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.accused = list(accused)


def describe_privately(
    app: ClientApp,
    *,
    label_counts: Callable[[Context], Numbers] | None = None,
    feature: Callable[[Context], Numbers] | None = None,
    value_range: float = 1.0,
    data_size: Callable[[Context], int] | None = None,
    battery: Callable[[Context], float] | None = None,
    metered: Callable[[Context], bool] | None = None,
) -> None:
    """Let a ClientApp take part in the private graph, in place of `fedgs.flower.describe`.

    The server learns the client's key, its data size and the scalar products of its vector with
    those of others, and not the vector. The node configuration may name files with the node's key
    (`key-file`) and the fingerprints of the others' keys (`pins-file`).

    Args:
        app: the ClientApp; it gets the query handlers "fedgs" and "fedgs_private".
        label_counts: context -> (C,) training examples by label, >= 0 with a positive sum. Their
            proportions are the client's vector.
        feature: context -> (d,) instead, another finite vector u_k with entries in [-value_range,
            value_range].
        value_range: public bound of the entries of `feature`, > 0, the same for all clients. It
            must not be computed from the data.
        data_size: see `fedgs.flower.describe`, also for the following two.
        battery: charge of the battery.
        metered: whether the network is metered.

    Raises:
        ConfigError: both or neither of `label_counts` and `feature`, or a bad `value_range`.
        MissingExtraError: `cryptography` is not installed.

    >>> from flwr.clientapp import ClientApp
    >>> describe_privately(ClientApp(), label_counts=lambda context: [3, 1])
    """
    if (label_counts is None) == (feature is None):
        raise ConfigError(
            "describe_privately takes one of label_counts and feature, got "
            f"{'neither' if feature is None else 'both'}"
        )
    if not (np.isfinite(value_range) and value_range > 0):
        raise ConfigError(f"value_range must be a finite number > 0, got {value_range}")
    if label_counts is not None and value_range != 1:
        raise ConfigError(
            f"value_range is of feature and has no effect on label_counts, got {value_range}"
        )
    KeyPair.generate()  # fails at once where the package for it is missing
    describe(app, data_size=data_size, battery=battery, metered=metered)

    def vector(context: Context) -> FloatArray:
        if label_counts is not None:
            return _proportions(label_counts(context))
        assert feature is not None
        return np.asarray(feature(context), dtype=np.float64).ravel()

    def answer(message: Message, context: Context) -> Message:
        request: Entries = message.content.config_records.get(RECORD, {})
        stored = context.state.config_records.get(STATE, ConfigRecord())
        node = _Node({**stored}, context.node_config, value_range)
        try:
            entries = node.answer(request, lambda: vector(context))
        except FedgsError as error:
            entries = _refusal(error)
        else:
            context.state[STATE] = ConfigRecord(node.stored)
        return Message(RecordDict({RECORD: ConfigRecord(entries)}), reply_to=message)

    app.query(QUERY)(answer)


def _refusal(error: FedgsError) -> Sent:
    """The entries of a reply that refuses the request."""
    text = " ".join(str(error).split())[:_LONGEST_TEXT]
    _logger.warning("a message of the private graph is refused: %s", text)
    accused = error.accused if isinstance(error, _Refusal) else []
    return {REFUSED: text, ACCUSED: list(accused)} if accused else {REFUSED: text}


def _proportions(counts: Numbers) -> FloatArray:
    values = np.asarray(counts, dtype=np.float64).ravel()
    if not (np.isfinite(values) & (values >= 0)).all() or values.sum() <= 0:
        raise ConfigError("label_counts must be finite counts >= 0 with a positive sum")
    return np.asarray(values / values.sum())


class _Node:
    """One message to a node.

    Args:
        stored: the entries of its client state; those after `answer` are to be stored.
        config: of the node.
        value_range: of the vector's entries.
    """

    def __init__(self, stored: Sent, config: Mapping[str, object], value_range: float) -> None:
        self.stored = stored
        self._config, self._range = config, value_range

    def answer(self, request: Entries, vector: Callable[[], FloatArray]) -> Sent:
        """The entries of the reply.

        Raises:
            FedgsError: the request is refused, or the user's function or a file fails.
        """
        phase, session = request.get("phase"), entry(request, "session", least=16, most=16)
        if phase == "keys":
            return self._begin(session, vector)
        expected = self.stored.get("phase", "keys")
        if session != self.stored.get("session") or phase != expected:
            raise ProtocolError(
                f"the request {str(phase)[:20]!r} is replayed, out of order or of another session: "
                f"this node expects {expected!r}"
            )
        try:
            return self._mask(request) if phase == "masked" else self._continue(request)
        except _Refusal:
            raise
        except ProtocolError as error:
            names = dict(enumerate(self._names))
            accused = [names[error.sender]] if error.sender in names else []
            raise _Refusal(named(str(error), names), accused) from None

    def _begin(self, session: bytes, compute: Callable[[], FloatArray]) -> Sent:
        """The phase "keys": the vector is computed, and stays."""
        try:
            vector = compute()
        except Exception as error:  # of the user's function; its text may tell what the data are
            text = f"the client's function failed: {type(error).__name__}"
            raise ProtocolError(text) from error
        inside = np.isfinite(vector) & (np.abs(vector) <= self._range)
        if not len(vector) or not inside.all():
            raise ConfigError(
                "the client's vector must have entries in "
                f"[-{self._range:g}, {self._range:g}], got others"
            )
        keys, nonce = self._keys(), os.urandom(KEY_BYTES)
        self._keep()
        self.stored |= {
            "phase": "masked",
            "session": session,
            "nonce": nonce,
            "vector": vector.astype("<f8").tobytes(),
        }
        return {
            "public": keys.public,
            "nonce": nonce,
            "length": len(vector),
            "range": float(self._range),
        }

    def _mask(self, request: Entries) -> Sent:
        """The phase "masked": all keys are known, and accepted; the masked vectors leave."""
        names = self._checked_names(request.get("names"))
        vector = np.frombuffer(_bytes(self.stored["vector"]), dtype="<f8")
        invitation = entry(request, "invitation", most=1000)
        number = single(invitation, where="the invitation").recipient
        if number >= len(names):
            raise ProtocolError("the invitation is malformed: it is for a client without a name")
        own = client_key(self._config)
        if own is not None and names[number] != str(own):
            raise ProtocolError(f"the invitation is for {names[number]!r}, and this is {own!r}")
        self.stored |= {"names": names, "party": number}
        plan, keys = self._plan(len(vector)), self._keys()
        party = RingParty(plan, number, vector, keys=keys, nonce=_bytes(self.stored["nonce"]))
        party.member.hello(invitation)
        party.answer(
            entry(request, "directory", most=HEADER_BYTES + 2 * KEY_BYTES * (plan.clients + 2))
        )
        self._check_directory(party)
        numbers = _SEALED + 4 * (plan.clients + 1)  # a sealed list, and the list of absent parties
        replies: Sent = {}
        lists = {"assignment": 4 * (plan.clients + 1), "dealing": 4 * (plan.clients**2 + 1)}
        for (name, most), key in zip(lists.items(), ("message", "corrections"), strict=True):
            if name in request:
                replies[key] = party.answer(entry(request, name, most=numbers + most))
        self._store(party)
        self.stored["phase"] = "blinded"
        return replies

    def _continue(self, request: Entries) -> Sent:
        """The phases "blinded" and "shares"."""
        saved = {
            name.removeprefix(_PARTY): _bytes(value)
            for name, value in self.stored.items()
            if name.startswith(_PARTY)
        }
        length = len(saved["vector"]) // 8
        plan, number = self._plan(length), self.stored["party"]
        assert isinstance(number, int)
        party = RingParty.restored(plan, number, saved, keys=self._keys())
        # The list of absent parties, and from each client a masked vector and corrections.
        most = _SEALED + (plan.clients + 1) * (2 * _SEALED + 8 * length + 12)
        reply: Sent = {"message": party.answer(entry(request, "message", most=most))}
        if self.stored["phase"] == "blinded":
            self._store(party)
            self.stored["phase"] = "shares"
        else:
            self._remember(party)
            self._keep()
        return reply

    def _plan(self, length: int) -> SessionPlan:
        names, session = self._names, _bytes(self.stored["session"])
        label = roster_label(session, names)
        return SessionPlan(len(names), fixed_point(length, self._range), label=label)

    def _keys(self) -> KeyPair:
        """The key of `key-file`, else the one of the client state, else a fresh one."""
        if "key-file" in self._config:
            return kept_key(str(self._config["key-file"]))
        if "key" not in self.stored:
            self.stored["key"] = KeyPair.generate().private_bytes
        return KeyPair.from_private_bytes(_bytes(self.stored["key"]))

    # The roster.

    @property
    def _names(self) -> list[str]:
        """The names of the session's clients, by number."""
        return _texts(self.stored.get("names"))

    def _checked_names(self, names: object) -> list[str]:
        listed = _texts(names)
        distinct = len(set(listed)) == len(listed)
        if not 3 <= len(listed) <= MOST_CLIENTS or not distinct:
            raise ProtocolError(f"the roster must have 3 to {MOST_CLIENTS} different names")
        if max(map(len, listed)) > LONGEST_KEY:
            raise ProtocolError(f"the roster has a name of more than {LONGEST_KEY} characters")
        return listed

    def _directory(self, party: RingParty) -> dict[str, bytes]:
        """Name -> public key of the session's other clients."""
        keys = {
            name: party.member.public_key(number)
            for number, name in enumerate(self._names)
            if number != party.member.party
        }
        return {name: key for name, key in keys.items() if key is not None}

    def _check_directory(self, party: RingParty) -> None:
        """Refuse keys that are not the pinned or the remembered ones; all of them are named."""
        pins = read_pins(str(self._config["pins-file"])) if "pins-file" in self._config else None
        refused = check_keys(self._directory(party), pins=pins, seen=self._seen)
        if refused:
            listed = "; ".join(f"client {name!r}: {why}" for name, why in sorted(refused.items()))
            raise _Refusal(f"the directory has keys that are not accepted: {listed}", list(refused))

    @property
    def _seen(self) -> dict[str, str]:
        """Name -> fingerprint of the clients that this node has completed a session with."""
        pairs = zip(_texts(self.stored.get("seen")), _texts(self.stored.get("prints")), strict=True)
        return dict(pairs)

    def _remember(self, party: RingParty) -> None:
        assert party.client is not None
        names = self._names
        absent = {names[number] for number in party.client.absent if number < len(names)}
        present = {
            name: fingerprint(key)
            for name, key in self._directory(party).items()
            if name not in absent
        }
        seen = {**present, **self._seen}
        self.stored |= {"seen": list(seen), "prints": list(seen.values())}

    # The client state.

    def _store(self, party: RingParty) -> None:
        self.stored |= {f"{_PARTY}{name}": value for name, value in party.save().items()}

    def _keep(self) -> None:
        """Drop a session; the node's key and the fingerprints stay."""
        self.stored = {name: self.stored[name] for name in _LASTING if name in self.stored}


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _texts(value: object) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else []
