"""What is inferred, at which cost, and what is refused before anything is loaded."""

import numpy as np
import pytest

from daskglm.data.partitions import partitions
from daskglm.fitting.config import FitConfig
from daskglm.fitting.inference import InferenceConfig, infer
from daskglm.fitting.likelihoods import fixed_dispersion, has_likelihood
from daskglm.losses.table import LOSSES, find

FREE = FitConfig("poisson", C=np.inf)


def check(config, loss="poisson", C=np.inf, clusters=False):
    config.check(find(loss), FitConfig(loss, C=C), clusters=clusters)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"covariance": "HC4"}, "covariance='HC4' is not one of 'classical', 'HC0', 'HC1', 'HC2'"),
        ({"dispersion": "X2"}, "dispersion='X2' is not one of 'pearson', 'deviance'"),
        ({"dispersion": True}, "dispersion=True is not one of"),
        ({"dispersion": 0.0}, "dispersion=0.0 must be a number above 0"),
        ({"dispersion": np.nan}, "dispersion=nan must be a number above 0"),
        ({"weights": "variance"}, "weights='variance' is not one of"),
        ({"penalized": "yes"}, "penalized='yes' is not one of"),
        ({"observed": 1}, "observed=1"),
        ({"use_t": "no"}, "use_t='no'"),
        ({"covariance": "cluster"}, "covariance='cluster', but clusters are not given"),
    ],
)
def test_arguments_out_of_range_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        check(InferenceConfig(**config))


def test_clusters_without_their_covariance_are_refused():
    with pytest.raises(ValueError, match="covariance='HC1', but clusters are given"):
        check(InferenceConfig("HC1"), clusters=True)
    check(InferenceConfig("cluster"), clusters=True)


def test_penalised_fits_are_refused_unless_it_is_said():
    with pytest.raises(
        ValueError, match=r"penalised \(C=0.5\).*towards zero.*penalized='effective'"
    ):
        check(InferenceConfig(), C=0.5)
    check(InferenceConfig(penalized="effective"), C=0.5)


def test_losses_with_corners_and_without_a_likelihood_are_refused():
    with pytest.raises(ValueError, match="'hinge' has corners"):
        check(InferenceConfig("HC0"), "hinge")
    with pytest.raises(ValueError, match="'squared_hinge' is of no family"):
        check(InferenceConfig(), "squared_hinge")
    check(InferenceConfig("HC0"), "squared_hinge")


@pytest.mark.parametrize("loss", ["ordinal", "multinomial"])
def test_losses_of_all_classes_have_none_around_a_penalised_optimum(loss):
    check(InferenceConfig(), loss)
    with pytest.raises(ValueError, match=f"for loss='{loss}' there is no covariance around"):
        check(InferenceConfig(penalized="effective"), loss)


def test_observed_hessians_of_losses_that_have_the_expected_one_are_refused():
    with pytest.raises(ValueError, match="'inverse_gaussian' is not convex"):
        check(InferenceConfig(observed=True), "inverse_gaussian")
    check(InferenceConfig(observed=True), "gamma")


@pytest.mark.parametrize("loss", ["ordinal", "multinomial", "squared_hinge"])
def test_losses_without_a_dispersion_are_refused_one(loss):
    with pytest.raises(ValueError, match=f"dispersion=2.0: loss='{loss}' is of no family with a"):
        check(InferenceConfig("HC0", dispersion=2.0), loss)


@pytest.mark.parametrize("loss", ["ordinal", "multinomial"])
def test_rows_of_several_classes_have_no_leverage(loss):
    with pytest.raises(ValueError, match=f"covariance='HC3': for loss='{loss}' rows have no lev"):
        check(InferenceConfig("HC3"), loss)


def test_likelihoods_and_dispersions_of_losses():
    without = {name for name, loss in LOSSES.items() if not has_likelihood(loss)}
    assert "squared_hinge" in without
    assert not without & {"logistic", "squared", "binomial_probit", "poisson", "tweedie"}
    assert fixed_dispersion(LOSSES["logistic"]) == fixed_dispersion(LOSSES["poisson"]) == 1.0
    assert fixed_dispersion(LOSSES["gamma"]) is None


class TestOnRows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = rng.poisson(2.0, 200).astype(float)

    def infer(self, config=InferenceConfig(), w=None, y=None, **more):  # noqa: B008
        y = self.y if y is None else y
        data = partitions(self.X * 0.0 + 1.0, y, None, classify=False, **more)
        settings = FitConfig("poisson", C=np.inf, fit_intercept=False)
        w = np.log([self.y.mean()]) if w is None else w
        return infer(data, settings, w, config, ["constant"])

    def test_a_constant_has_the_error_of_a_mean(self):
        found = self.infer()
        assert found.cov[0, 0] == pytest.approx(1.0 / self.y.sum(), rel=1e-12)
        assert (found.n, found.df_resid, found.dispersion) == (200, 199, 1.0)
        assert found.df_inference == 199
        assert not found.use_t

    @pytest.mark.parametrize("covariance", ["classical", "HC0", "HC1", "cluster"])
    def test_one_pass_whatever_is_asked(self, covariance):
        more = {"clusters": np.arange(200) % 7} if covariance == "cluster" else {}
        found = self.infer(InferenceConfig(covariance), **more)
        assert found.passes == 1.0
        assert found.clusters == (7 if more else 0)
        assert found.df_inference == (6 if more else 199)

    @pytest.mark.parametrize("covariance", ["HC2", "HC3"])
    def test_leverages_take_a_second_pass(self, covariance):
        found = self.infer(InferenceConfig(covariance))
        # of one constant all leverages are weights of means: here mu over the sum of mu
        mu, total = self.y.mean(), self.y.sum()
        power = {"HC2": 1, "HC3": 2}[covariance]
        wanted = ((self.y - mu) ** 2).sum() / total**2 / (1 - mu / total) ** power
        assert found.cov[0, 0] == pytest.approx(wanted, rel=1e-12)
        assert found.passes == 2.0

    def test_a_constant_is_its_own_null_model(self):
        found = self.infer()
        assert found.null_deviance == pytest.approx(found.deviance, rel=1e-13)
        assert found.null_llf == pytest.approx(found.llf, rel=1e-13)

    @pytest.mark.parametrize("dispersion", ["pearson", "deviance", 2.5])
    def test_dispersions_by_choice(self, dispersion):
        found, own = self.infer(InferenceConfig(dispersion=dispersion)), self.infer()
        spread = {"pearson": own.pearson_chi2, "deviance": own.deviance}
        wanted = spread[dispersion] / 199 if dispersion in spread else 2.5
        assert found.dispersion == pytest.approx(wanted, rel=1e-13)
        np.testing.assert_allclose(found.cov, wanted * own.cov, rtol=1e-13)
        assert found.llf == own.llf  # which is that of the family

    def test_frequencies_that_are_no_whole_numbers_are_refused(self):
        data = partitions(self.X * 0.0 + 1.0, self.y, np.full(200, 0.5), classify=False)
        settings = FitConfig("poisson", C=np.inf, fit_intercept=False)
        w = np.log([self.y.mean()])
        infer(data, settings, w, InferenceConfig(), ["constant"])
        with pytest.raises(ValueError, match="number of equal rows, and 200 of them are no whole"):
            infer(data, settings, w, InferenceConfig(weights="frequency"), ["constant"])

    def test_other_coefficients_and_other_targets_are_refused(self):
        with pytest.raises(ValueError, match="moves 'constant' by .* standard errors"):
            self.infer(w=np.array([0.0]))
        with pytest.raises(ValueError, match="not those of the fit"):
            self.infer(y=self.y + 1.0)

    def test_classes_that_the_fit_did_not_have(self):
        data = partitions(self.X, np.arange(200) % 2 + 5, None, classify=True)
        settings = FitConfig("logistic", C=np.inf)
        with pytest.raises(ValueError, match=r"y has the classes \[5, 6\], .* fitted to \[0, 1\]"):
            infer(
                data,
                settings,
                np.zeros(2),
                InferenceConfig(),
                ["x0", "intercept"],
                classes=np.array([0, 1]),
            )
