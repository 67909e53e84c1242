"""Each type of request has one place that answers it."""

from typing import get_args

from daskglm.core.requests import DualRequest, OfProblem, Request, Together
from daskglm.worker import answers, dual_state, shard


def test_every_type_of_request_is_answered_in_one_place():
    assert not {*shard.OWN} & {*answers.ANSWERS}
    around = {Together, OfProblem}  # other requests, which are answered as they would be alone
    assert {*shard.OWN} | {*answers.ANSWERS} == {*get_args(Request)} - around
    assert {*dual_state.WITHOUT_STATE} | {*dual_state.AT_A_STATE} == {*get_args(DualRequest)}
    assert {*answers.FROM_CACHE} <= {*get_args(Request)}
