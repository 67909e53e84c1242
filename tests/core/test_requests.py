"""Requests name what is asked."""

import numpy as np

from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    Together,
    add,
    joined,
    parted,
    with_vectors,
)


def test_messages_name_what_is_asked():
    assert Evaluate(np.ones(2), 1).gram is False
    assert HessianVector(np.ones(2), (1, np.ones(2))).at[0] == 1
    assert EvaluateAlong(((1, np.ones(2)),), np.ones((1, 1))).coefficients.shape == (1, 1)


def test_replies_of_several_workers_to_several_requests_are_added_each_by_itself():
    some = joined([{"value": 1.0, "rows": 2}, {"value": 10.0, "count": 3, "rows": 0}])
    others = joined([{"value": 2.0, "rows": 5}, {"value": 20.0, "count": 4, "rows": 5}])
    assert some["rows"] == 2
    total = add([some, others])
    assert total["rows"] == 12
    assert "waited" not in total
    assert parted(total) == [
        {"value": 3.0, "rows": 7},
        {"value": 30.0, "count": 7, "rows": 5},
    ]
    assert [len(each) for each in parted(joined([{"rows": k} for k in range(12)]))] == [1] * 12


def test_vectors_of_all_requests_in_a_message_are_moved():
    asked = Together((Evaluate(np.ones(2), 1), HessianVector(np.ones(2), (1, np.ones(2)))))
    moved = with_vectors(asked, lambda vector: 2.0 * vector)
    assert moved.requests[0].w.tolist() == [2.0, 2.0]
    assert moved.requests[1].v.tolist() == [2.0, 2.0]


def test_sums_far_out_are_told_by_their_values_without_a_warning():
    parts = [{"gram": np.array([np.inf, 1.0, 1e308])}, {"gram": np.array([-np.inf, 2.0, 1e308])}]
    np.testing.assert_array_equal(add(parts)["gram"], [np.nan, 3.0, np.inf])
