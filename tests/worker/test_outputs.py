"""Requests about the softmax are answered from caches, and rebuilt from what they carry."""

from dataclasses import replace

import numpy as np
import pytest

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Problem
from daskglm.core.view import Drawn, View
from daskglm.losses.table import find
from daskglm.worker import asked
from tests.kernels.softmax_case import draw, sums
from tests.worker.softmax_shard import engine_of

PROBLEM = Problem(find("multinomial").ref, classes=(0, 1, 2, 3))


def test_threads_and_blocks_add_up_to_the_same(monkeypatch):
    X, codes, weight, W, V = draw(5000, 60)
    expected = sums(X, codes, weight, W, V)
    for threads, parts in ((1, 1), (2, 1), (3, 4)):
        engine = engine_of(X, codes, weight, threads, parts)
        found = engine.total(PROBLEM, Evaluate(W, 1, gram=True))
        np.testing.assert_allclose(found["gradient"], expected["gradient"], rtol=1e-10, atol=1e-10)
        grams = np.triu(expected["grams"])
        np.testing.assert_allclose(np.triu(found["grams"]), grams, atol=1e-9)
        # one thread for Grams too large for each to have its own
        monkeypatch.setattr(asked, "SUMS_BYTES", 1)
        again = engine.total(PROBLEM, Evaluate(W, 1, gram=True))
        np.testing.assert_allclose(np.triu(again["grams"]), grams, atol=1e-9)
        monkeypatch.undo()


def test_margins_of_two_points_are_kept_and_the_others_read_again():
    X, codes, weight, W, V = draw()
    engine, n = engine_of(X, codes, weight), len(codes)
    for token, at in ((1, W), (2, V)):
        engine.total(PROBLEM, Evaluate(at, token))

    def read(*tokens):
        points = tuple((token, W if token % 2 else V) for token in tokens)
        coefficients = np.full((1, len(tokens)), 1 / len(tokens))
        request = EvaluateAlong(points, coefficients, np.zeros((1, 4)))
        return engine.total(PROBLEM, request)["rows"]

    assert read(1, 2) == 0
    engine.total(PROBLEM, Evaluate(W, 3, beside=2))
    assert read(2, 3) == 0
    assert read(1) == n
    engine.total(PROBLEM, Evaluate(W, 5, keep=False))
    assert read(5) == n
    assert engine.total(PROBLEM, HessianVector(V, (5, W)))["rows"] == n


def test_labels_are_matched_by_name_and_others_have_no_weight():
    X, codes, weight, W, V = draw()
    names = np.array(["b", "d", "a", "c"])
    order = np.argsort(names)
    engine = engine_of(X, names[codes], weight)
    expected = sums(X, codes, weight, W, V)
    named = replace(PROBLEM, classes=tuple(names[order].tolist()))
    found = engine.total(named, Evaluate(W[order], 1))
    assert found["value"] == pytest.approx(expected["value"], rel=1e-13)
    np.testing.assert_allclose(found["gradient"], expected["gradient"][order], atol=1e-11)

    # a class that is left out, with weight zero
    kept = codes != 3
    expected = sums(X[kept], codes[kept], weight[kept], W[:3], V[:3])
    without = replace(PROBLEM, class_weight=(("c", 0.0),), classes=("b", "d", "a"))
    found = engine.total(without, Evaluate(W[:3], 1))
    assert found["value"] == pytest.approx(expected["value"], rel=1e-13)
    np.testing.assert_allclose(found["gradient"], expected["gradient"], atol=1e-11)


def test_class_weights_and_samples():
    X, codes, weight, W, V = draw(4000)
    factors = np.array([1.0, 2.0, 0.5, 3.0])
    engine = engine_of(X, codes, weight)
    weighed = replace(PROBLEM, class_weight=tuple(enumerate(factors.tolist())))
    expected = sums(X, codes, weight * factors[codes], W, V)
    whole = engine.total(weighed, Evaluate(W, 1))
    assert whole["value"] == pytest.approx(expected["value"], rel=1e-13)
    part = engine.total(weighed, Evaluate(W, 2), View(Drawn(0.25, 7)))
    assert part["rows"] == 1000
    assert 4.0 * part["value"] == pytest.approx(expected["value"], rel=0.2)
