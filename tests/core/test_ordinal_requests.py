"""Requests about ordered classes travel whole, and are requests of an engine and of samples."""

import pickle
from typing import get_args

import numpy as np

from daskglm.core.ordinal_requests import (
    EvaluateOrdinal,
    OrdinalAlong,
    OrdinalHessianVector,
    OrdinalRequest,
)
from daskglm.core.requests import Request


def test_requests_are_frozen_picklable_and_known():
    w, t = np.zeros(3), np.array([0.0, 1.0])
    made = [
        EvaluateOrdinal(w, t, 4),
        OrdinalHessianVector(w, t, t, (4, w)),
        OrdinalAlong(((4, w),), np.ones((1, 1)), t[None]),
    ]
    assert {type(request) for request in made} == set(get_args(OrdinalRequest))
    for request in made:
        assert isinstance(request, Request)
        again = pickle.loads(pickle.dumps(request))
        assert type(again) is type(request)
