"""Requests that are put off until the next one, and travel with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from daskglm.core.requests import OfProblem, Problem, Request, Together, Totals, parted


@dataclass
class _Waiting:
    request: Request
    reply: Totals | None = None


class Asking:
    """Passes requests on, each with those that were put off before it: 1 round for all of them.

    Workers answer them in the order in which they were put off, so that one may be about margins
    that another has them keep.

    Parameters
    ----------
    ask : callable
        Passes a request to rows, such as `Objective.ask`.
    problem : Problem, optional
        What `ask` takes requests to be about, where others may be put off.
    """

    def __init__(self, ask: Callable[[Request], Totals], problem: Problem | None = None) -> None:
        self._ask, self._problem = ask, problem
        self._waiting: list[_Waiting] = []

    def __call__(self, request: Request) -> Totals:
        """Return the reply to a request. Cost: its own, 1 round."""
        return self.later(request)()

    def later(self, request: Request, problem: Problem | None = None) -> Callable[[], Totals]:
        """Put a request off, and return what returns the reply.

        `problem` is what it is about, if that may be another one. Cost: no round where another is
        asked for before the reply is.
        """
        if problem is not None and problem != self._problem:
            request = OfProblem(problem, request)
        waiting = _Waiting(request)
        self._waiting.append(waiting)

        def reply() -> Totals:
            if waiting.reply is None:
                self._send()
            assert waiting.reply is not None
            return waiting.reply

        return reply

    def _send(self) -> None:
        sent, self._waiting = self._waiting, []
        requests = tuple(each.request for each in sent)
        if len(requests) == 1:
            sent[0].reply = self._ask(requests[0])
            return
        replies = parted(self._ask(Together(requests)))
        for each, reply in zip(sent, replies, strict=True):
            each.reply = reply
