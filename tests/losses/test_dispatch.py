"""Values, slopes and curvatures of all losses over runs of rows, and the machine code that makes them."""

import platform
import re
import types

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from daskglm.kernels import sweep
from daskglm.losses import conjugates
from daskglm.losses.base import OUTSIDE
from daskglm.losses.dispatch import compile_tile, tile
from daskglm.losses.smoothed_hinge import smoothed_hinge
from daskglm.losses.table import LOSSES, law_of
from tests.covering import each_choice
from tests.losses.formulas import FAMILIES, reference, two_targets


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in FAMILIES])
def test_losses_at_ordinary_and_extreme_margins(name):
    z = np.concatenate(
        [np.linspace(-40, 40, 1001), [-1e3, 1e3, -800.0, 800.0, 0.0, -1e150, 1e150, 1e-320]]
    )
    for label in (-1.0, 1.0):
        y = np.full_like(z, label)
        slope, curvature = np.empty_like(z), np.empty_like(z)
        singles = [
            tile(
                law_of(LOSSES[name].ref),
                y[i : i + 1],
                z[i : i + 1],
                np.empty(0),
                slope[:1],
                curvature[:1],
            )
            for i in range(len(z))
        ]
        total = tile(law_of(LOSSES[name].ref), y[:1001], z[:1001], np.empty(0), slope, curvature)
        value, s, c = reference(name, y, z)
        np.testing.assert_allclose(singles, value, rtol=1e-14, atol=1e-300)
        np.testing.assert_allclose(total, value[:1001].sum(), rtol=1e-13)
        tile(law_of(LOSSES[name].ref), y, z, np.empty(0), slope, curvature)
        np.testing.assert_allclose(slope, s, rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(curvature, c, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_logistic_loss_over_the_whole_range_of_margins(label):
    size = np.logspace(-300, 300, 2403)
    z = np.concatenate([-size, size, np.linspace(-750, 750, 30_001)])
    y, slope, curvature = np.full_like(z, label), np.empty_like(z), np.empty_like(z)
    tile(law_of(LOSSES["logistic"].ref), y, z, np.empty(0), slope, curvature)
    singles = [
        tile(
            law_of(LOSSES["logistic"].ref),
            y[i : i + 1],
            z[i : i + 1],
            np.empty(0),
            np.empty(1),
            np.empty(1),
        )
        for i in range(0, len(z), 7)
    ]
    value, s, c = reference("logistic", y, z)
    normal = (
        np.abs(z) < 700
    )  # beyond, slopes and curvatures are below any that matter beside the rounding of sums
    np.testing.assert_allclose(singles, value[::7], rtol=2e-15, atol=1e-300)
    np.testing.assert_allclose(slope[normal], s[normal], rtol=2e-15)
    np.testing.assert_allclose(curvature[normal], c[normal], rtol=4e-15)
    np.testing.assert_allclose(slope, s, rtol=2e-15, atol=1e-300)
    assert (curvature >= 0).all()


def by_any_other_name(row):
    """A copy that is not found in the cache on disk, from which no assembly comes."""
    copy = types.FunctionType(row.__code__, row.__globals__)
    copy.__module__ = "elsewhere"
    return copy


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
def test_losses_and_dense_products_are_made_of_packed_instructions():
    y = np.ones(64)
    assembly = compile_tile(by_any_other_name(LOSSES["logistic"].row))._library.get_asm_str()
    # the logistic loss has two divisions, of all rows of a vector
    assert len(re.findall(r"divpd\s.*[xyz]mm", assembly)) >= 2
    assert not re.search(r"call\w*\s.*\b(exp|log1p)\b", assembly)
    product = njit(error_model="numpy")(sweep.hessian_vector.py_func)
    product(np.ones((64, 5), np.float32), y, np.ones(5), 0.0, 0, 64, np.zeros(6))
    assembly = product.inspect_asm(product.signatures[0])
    assert re.search(r"cvtps2pd\s", assembly)
    assert re.search(r"(fmadd\d+|mul)pd\s", assembly)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_at_ordinary_and_extreme_margins(name):
    z = np.concatenate([np.linspace(-40, 40, 1001), [-1e3, 1e3, -300.0, 300.0, -700.0, 0.0]])
    law, nothing = law_of(LOSSES[name].ref), np.empty(0)
    for target in two_targets(name):
        y, slope, curvature = np.full_like(z, target), np.empty_like(z), np.empty_like(z)
        values = np.array(
            [
                tile(law, y[i : i + 1], z[i : i + 1], nothing, slope[:1], curvature[:1])
                for i in range(len(z))
            ]
        )
        tile(law, y, z, nothing, slope, curvature)
        value, s, c = reference(name, y, z)
        # shares beside other links than the logit are differences of terms of the size of one
        cancelled = 1e-15 if name in ("binomial_probit", "binomial_cloglog") else 0.0
        np.testing.assert_allclose(values, value, rtol=2e-13, atol=cancelled + 1e-300)
        np.testing.assert_allclose(slope, s, rtol=5e-13, atol=1e-300)
        # the reference of the probit's loses digits in the tail
        rtol = 5e-12 if name == "binomial_probit" else 5e-13
        np.testing.assert_allclose(curvature, c, rtol=rtol, atol=1e-300)
        used = LOSSES[name].link.room(z) > 0.0
        total = tile(law, y[used], z[used], nothing, slope[used].copy(), curvature[used].copy())
        assert total == pytest.approx(values[used].sum(), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_margin_that_is_not_finite_reaches_the_sum(name, bad):
    z, out = np.array([0.5, bad]), np.empty(2)
    for target in two_targets(name):
        y = np.full(2, target)
        assert not np.isfinite(tile(law_of(LOSSES[name].ref), y, z, np.empty(0), out, out.copy()))


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.classifies])
def test_labels_are_bytes_or_numbers(name):
    rng = np.random.default_rng(4)
    y, z, weight = np.sign(rng.standard_normal(700)), rng.standard_normal(700), rng.random(700)
    law, out, of_bytes = law_of(LOSSES[name].ref), np.empty((2, 700)), np.empty((2, 700))
    total = tile(law, y, z, weight, out[0], out[1])
    assert tile(law, y.astype(np.int8), z, weight, of_bytes[0], of_bytes[1]) == total
    np.testing.assert_array_equal(of_bytes, out)


def test_vectors_that_are_not_contiguous_are_not_compiled():
    law, y, z = law_of(LOSSES["squared"].ref), np.ones(4), np.ones((4, 2))
    with pytest.raises(TypingError, match="contiguous float64 vectors"):
        tile(law, y, z[:, 0], np.empty(0), y.copy(), y.copy())
    with pytest.raises(TypingError, match="contiguous float64 vectors"):
        tile(law, y, y.astype(np.float32), np.empty(0), y.copy(), y.copy())


@pytest.mark.parametrize("width", [1.0, 0.1, 1e-4])
def test_the_width_of_the_smoothed_hinge_is_a_parameter(width):
    law, y, out = law_of(smoothed_hinge(width).ref), np.ones(3), np.empty((2, 3))
    z = np.array([1.5, 1.0 - 0.5 * width, -1.0])
    total = tile(law, y, z, np.empty(0), out[0], out[1])
    assert total == pytest.approx(width / 8 + 2.0 - 0.5 * width, rel=1e-12)
    np.testing.assert_allclose(out[0], [0.0, -0.5, -1.0], rtol=1e-9)
    np.testing.assert_allclose(out[1], [0.0, 1.0 / width, 0.0])


@pytest.mark.parametrize("code", [-1, 5, 7, OUTSIDE])
def test_a_code_that_no_loss_has_fails(code):
    """Before: every code from 4 on was a hinge, all others the squared loss, and nothing was said."""
    law, y, out = (code, 0.0, 0.0, 0), np.ones(2), np.empty(2)
    with pytest.raises(ValueError, match="no compiled loss"):
        tile(law, y, y, np.empty(0), out, out.copy())
    for targets in (y, y.astype(np.int8)):
        targets.flags.writeable = False
        with pytest.raises(ValueError, match="no compiled loss"):
            conjugates.losses(law, targets, out, y)
        assert np.isnan(conjugates.conjugates(law, targets, out, y))


@each_choice
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["logistic", "gamma", "negative_binomial", "binomial_probit"])
def test_curvatures_of_other_kinds(name, weighted):
    loss = LOSSES[name]
    z = np.linspace(-3.0, 3.0, 37)
    y = np.where(np.arange(37) % 2, 1.0, -1.0 if loss.classifies else 0.5)
    s = np.linspace(0.5, 4.0, 37) if weighted else np.ones(37)
    weight = s if weighted else np.empty(0)

    def of(kind):
        slope, curvature = np.empty(37), np.empty(37)
        total = tile(law_of(loss.ref, curvature=kind), y, z, weight, slope, curvature)
        return total, slope, curvature

    total, slope, observed = of("observed")
    rows = [loss.row(*each, loss.p1, loss.p2) for each in zip(y, z, strict=True)]
    np.testing.assert_allclose(observed, s * [row[2] for row in rows], rtol=1e-12)
    fisher = loss.fisher or (lambda *row: loss.row(*row)[2])
    expected = [fisher(*each, loss.p1, loss.p2) for each in zip(y, z, strict=True)]
    first = np.array([row[1] for row in rows])
    for kind, wanted in (
        ("fisher", s * expected),
        ("squared_slope", (s * first) ** 2),
        ("squared_slope_of_each", s * first**2),
    ):
        again, slopes, curvature = of(kind)
        np.testing.assert_allclose(curvature, wanted, rtol=1e-12, err_msg=kind)
        np.testing.assert_allclose(slopes, slope, rtol=1e-14)
        assert again == pytest.approx(total, rel=1e-13)


def test_an_unknown_kind_of_curvature_is_an_error():
    with pytest.raises(KeyError, match="bent"):
        law_of(LOSSES["poisson"].ref, curvature="bent")


@pytest.mark.parametrize("name", ["poisson_identity", "binomial_log", "gamma_inverse"])
def test_rows_of_weight_zero_may_have_margins_outside_of_the_domain(name):
    slope, curvature = np.ones(2), np.ones(2)
    y, z = np.array([0.5, 0.5]), np.array([1.0, -1.0])
    for weight in (np.array([1.0, 0.0]), np.array([0.0, 1.0])):
        total = tile(law_of(LOSSES[name].ref), y, z, weight, slope, curvature)
        inside = weight[int(name == "binomial_log")] == 1.0
        assert np.isfinite(total) == inside
        if inside:
            assert slope[weight == 0.0] == curvature[weight == 0.0] == 0.0
