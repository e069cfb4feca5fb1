"""The fields of time in a record, for records of simulated runs and of deployments."""

from collections.abc import Sequence

from fedgs.records import Record

FATES = {"answered", "late", "gone", "failed"}
ENDS = {"target", "deadline", "nobody"}


def check_time_fields(records: Sequence[Record]) -> None:
    """Check the fields of time of a run's records, the last of which holds the final model.

    The last record has a clock alone. A round begins when the one before has ended, or later.
    """
    *rounds, last = records
    assert last.clock is not None and last.cohort is None
    assert last.seconds is last.fates is last.worked is last.traffic is last.ended is None
    for record, following in zip(rounds, records[1:], strict=True):
        assert record.clock is not None and record.seconds is not None
        assert record.seconds >= 0 and following.clock is not None
        assert following.clock >= record.clock + record.seconds - 1e-9
        cohort, fates, worked = record.cohort, record.fates, record.worked
        assert cohort is not None and fates is not None and worked is not None
        assert len(fates) == len(worked) == len(cohort) and set(fates) <= FATES
        assert all(0 <= seconds <= record.seconds + 1e-9 for seconds in worked)
        assert isinstance(record.traffic, int) and record.traffic >= 0
        assert record.ended in ENDS if cohort else record.ended is None
        weights = record.weights
        assert weights is not None and len(weights) == len(cohort)
        for fate, weight in zip(fates, weights, strict=True):
            assert weight == 0 or fate == "answered"
