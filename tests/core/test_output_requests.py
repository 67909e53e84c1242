"""Requests about the softmax travel by pickle, and are among the requests that engines know."""

import pickle
from typing import get_args

import numpy as np

from daskglm.core.output_requests import (
    EvaluateOutputs,
    OutputRequest,
    OutputsAlong,
    OutputsHessianVector,
)
from daskglm.core.requests import Request


def test_requests_travel():
    W = np.arange(6.0).reshape(3, 2)
    for request in (
        EvaluateOutputs(W, 4, gram=True, basis=np.eye(3)),
        OutputsHessianVector(W, (4, W)),
        OutputsAlong(((4, W),), np.ones((1, 1)), np.zeros((1, 3))),
    ):
        again = pickle.loads(pickle.dumps(request))
        assert type(again) in get_args(OutputRequest)
        assert type(again) in get_args(Request)
