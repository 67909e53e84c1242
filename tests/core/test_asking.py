"""Requests that are put off travel with the next one."""

from daskglm.core.asking import Asking
from daskglm.core.requests import DrawRows, Together, joined


class _Rows:
    """Answers with the names of partitions that a request names, and takes note of messages."""

    def __init__(self):
        self.sent = []

    def __call__(self, request):
        self.sent.append(request)
        return self._answer(request)

    def _answer(self, request):
        if isinstance(request, Together):
            return joined([self._answer(each) for each in request.requests])
        return {"name": request.parts[0], "rows": 1}


def _about(name):
    return DrawRows((name,))


def test_requests_that_are_put_off_travel_with_the_next_one():
    rows = _Rows()
    asking = Asking(rows)
    first, second = asking.later(_about("a")), asking.later(_about("b"))
    assert not rows.sent
    assert asking(_about("c")) == {"name": "c", "rows": 1}
    assert first()["name"] == "a"
    assert second()["name"] == "b"
    assert rows.sent == [Together((_about("a"), _about("b"), _about("c")))]


def test_a_reply_that_is_wanted_takes_all_that_wait_with_it():
    rows = _Rows()
    asking = Asking(rows)
    first, second = asking.later(_about("a")), asking.later(_about("b"))
    assert first()["name"] == "a"
    assert len(rows.sent) == 1
    assert second()["name"] == "b"
    assert first()["name"] == "a"
    assert len(rows.sent) == 1


def test_one_request_alone_is_passed_on_as_it_is():
    rows = _Rows()
    assert Asking(rows)(_about("a"))["name"] == "a"
    assert rows.sent == [_about("a")]
