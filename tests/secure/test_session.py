import re
from collections import Counter

import pytest
from scipy import stats

from fedgs.errors import ConfigError, ProtocolError
from fedgs.secure.channel import KeyPair
from fedgs.secure.fixed_point import fixed_point
from fedgs.secure.session import Member, SessionPlan, dealer_of, directory_of
from fedgs.secure.wire import DEALER, EVERYBODY, SERVER, Head, Kind, pack, single

PLAN = SessionPlan(clients=5, encoding=fixed_point(3))


def members(plan: SessionPlan = PLAN) -> dict[int, Member]:
    return {party: Member(plan, party) for party in [*range(plan.clients), SERVER]}


def directory(parties: dict[int, Member], plan: SessionPlan = PLAN) -> bytes:
    return directory_of(plan, {number: member.introduction for number, member in parties.items()})


@pytest.mark.parametrize(("clients", "named", "least"), [(2, False, 3), (1, True, 2)])
def test_too_few_clients_are_refused(clients: int, named: bool, least: int) -> None:
    with pytest.raises(
        ConfigError, match=f"the ring protocol needs at least {least} clients, got {clients}"
    ):
        SessionPlan(clients, fixed_point(3), named_dealer=named)


def test_dealer_is_a_third_client_that_everybody_finds() -> None:
    sessions = [bytes([number]) * 32 for number in range(40)]
    for session in sessions:
        for pair in ((0, 1), (0, 4), (2, 3)):
            dealer = dealer_of(session, PLAN, pair, ())
            assert dealer in set(range(5)) - set(pair)
            assert dealer == dealer_of(session, PLAN, pair, ())


def test_every_third_client_deals_equally_often() -> None:
    # Fixed sessions, so the test always gives the same answer; a fair choice fails it for 1 in 10⁴
    # choices of sessions.
    counts = Counter(
        dealer_of(number.to_bytes(32, "big"), PLAN, (1, 3), ()) for number in range(3000)
    )
    assert set(counts) == {0, 2, 4}
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_colluding_clients_read_as_many_vectors_as_the_docs_say() -> None:
    # docs/explanation/privacy.md: c colluding clients of N read a given other vector with odds 1 -
    # (1 - (c - 1)/(N - 2))^c.
    plan, colluding, sessions = SessionPlan(20, fixed_point(3)), {0, 7, 8, 19}, 200
    read = 0
    for session in (number.to_bytes(32, "big") for number in range(sessions)):
        for other in set(range(20)) - colluding:
            dealers = {
                dealer_of(session, plan, (min(other, k), max(other, k)), ()) for k in colluding
            }
            read += bool(dealers & colluding)
    odds = 1 - (1 - 3 / 18) ** 4  # .518
    # Fixed sessions: the same answer always. Mean of 3200 cases, standard error below .01.
    assert read / (sessions * 16) == pytest.approx(odds, abs=0.04)


def test_absent_dealer_is_replaced_and_others_stay() -> None:
    session = b"s" * 32
    for pair in ((0, 1), (1, 2), (3, 4)):
        first = dealer_of(session, PLAN, pair, ())
        for absent in set(range(5)) - set(pair):
            dealer = dealer_of(session, PLAN, pair, {absent})
            assert dealer not in {absent, *pair}
            assert dealer == first or absent == first


def test_nobody_left_to_deal_is_none() -> None:
    assert dealer_of(b"s" * 32, PLAN, (0, 1), {2, 3, 4}) is None
    assert dealer_of(b"s" * 32, PLAN, (0, 1), {2, 3}) == 4
    named = SessionPlan(2, fixed_point(3), named_dealer=True)
    assert dealer_of(b"s" * 32, named, (0, 1), ()) == DEALER
    assert dealer_of(b"s" * 32, named, (0, 1), {DEALER}) is None


def test_members_agree_on_a_session_that_fresh_nonces_make_new() -> None:
    keys = {party: KeyPair.generate() for party in [*range(5), SERVER]}
    digests = []
    for _ in range(2):
        parties = {party: Member(PLAN, party, keys=pair) for party, pair in keys.items()}
        data = directory(parties)
        for member in parties.values():
            member.join(data)
        digests.append({member.session for member in parties.values()})
    assert len(digests[0]) == len(digests[1]) == 1
    assert digests[0] != digests[1]


def test_acting_before_the_directory_is_refused() -> None:
    with pytest.raises(
        ProtocolError, match="client 2 was asked to act before it had the directory of keys"
    ):
        members()[2].channel(0)


def test_second_directory_is_refused_as_replayed() -> None:
    parties = members()
    parties[0].join(directory(parties))
    with pytest.raises(ProtocolError, match="is replayed: client 0 has joined already"):
        parties[0].join(directory(parties))


@pytest.mark.parametrize(
    "data",
    [
        pack(Head(Kind.DIRECTORY, SERVER, EVERYBODY, 0), bytes(64 * 6)),
        pack(Head(Kind.DIRECTORY, 3, EVERYBODY, 0), bytes(64 * 7)),
    ],
)
def test_directory_of_another_size_or_sender_is_malformed(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="is malformed: a directory of 5 clients was expected"):
        members()[0].join(data)


def test_directory_with_ones_own_key_swapped_is_refused() -> None:
    parties, others = members(), members()
    parties[1].join(directory({**others, 1: parties[1]}))
    with pytest.raises(
        ProtocolError, match="was tampered with: the entry of client 2 is not its own"
    ):
        parties[2].join(directory({**parties, 2: others[2]}))


def test_pinned_key_that_the_relay_swaps_is_refused_and_an_unpinned_one_is_not() -> None:
    parties, crook = members(), Member(PLAN, 3)
    kept = KeyPair.generate()
    for pins in ({3: kept.public}, None):
        parties[0] = Member(PLAN, 0, pins=pins)
        swapped = directory({**parties, 3: crook})
        if pins is None:
            parties[0].join(swapped)  # documented: without pins the relay is trusted
        else:
            with pytest.raises(
                ProtocolError, match="gives a key for client 3 that is not the pinned one"
            ):
                parties[0].join(swapped)


def test_pinned_key_of_its_owner_is_accepted_also_when_the_owner_is_absent() -> None:
    kept = KeyPair.generate()
    parties = {
        **members(),
        0: Member(PLAN, 0, pins={3: kept.public}),
        3: Member(PLAN, 3, keys=kept),
    }
    parties[0].join(directory(parties))
    alone = Member(PLAN, 0, pins={3: kept.public})
    alone.join(directory({0: alone, SERVER: parties[SERVER]}))
    with pytest.raises(
        ProtocolError, match="client 3 is not a party that client 0 can exchange messages with"
    ):
        alone.channel(3)


@pytest.mark.parametrize("party", [5, DEALER])
def test_pin_for_an_unknown_party_is_refused(party: int) -> None:
    with pytest.raises(ConfigError, match=re.escape("but the session's clients are 0..4")):
        Member(PLAN, 0, pins={party: bytes(32)})


@pytest.mark.parametrize("peer", [0, 5, DEALER])
def test_no_channel_to_oneself_or_to_strangers(peer: int) -> None:
    parties = members()
    parties[0].join(directory(parties))
    with pytest.raises(
        ProtocolError, match="is not a party that client 0 can exchange messages with"
    ):
        parties[0].channel(peer)


def test_invitation_to_another_plan_is_refused_in_words() -> None:
    other = SessionPlan(clients=5, encoding=fixed_point(4), named_dealer=True)
    data = pack(Head(Kind.INVITATION, SERVER, 0, 0), other.to_bytes())
    with pytest.raises(
        ProtocolError,
        match=re.escape(
            "another plan (5 clients, vectors of length 4, range 1, 30 fraction bits, a named"
        ),
    ):
        members()[0].hello(data)


@pytest.mark.parametrize(
    ("sender", "recipient", "kind"), [(1, 0, 1), (SERVER, 1, 1), (SERVER, 0, Kind.DIRECTORY)]
)
def test_misaddressed_invitation_is_refused(sender: int, recipient: int, kind: int) -> None:
    with pytest.raises(
        ProtocolError, match="is misaddressed: it reached client 0 as an invitation"
    ):
        members()[0].hello(pack(Head(Kind(kind), sender, recipient, 0), PLAN.to_bytes()))


def test_invitation_without_a_plan_is_malformed() -> None:
    with pytest.raises(ProtocolError, match="states no plan"):
        members()[0].hello(pack(Head(Kind.INVITATION, SERVER, 0, 0), b""))


def test_hello_names_the_plan_and_the_key() -> None:
    member = members()[2]
    hello = single(
        member.hello(pack(Head(Kind.INVITATION, SERVER, 2, 0), PLAN.to_bytes())), where="hello"
    )
    assert hello.body == PLAN.to_bytes() + member.introduction


def test_forgetting_keeps_the_channel_to_the_server_only() -> None:
    parties = members()
    parties[0].join(directory(parties))
    server, peer = parties[0].channel(SERVER), parties[0].channel(1)
    parties[0].forget()
    assert parties[0].channel(SERVER) is server
    assert parties[0].channel(1) is not peer
    assert parties[0].channel(1).mask_key == peer.mask_key
