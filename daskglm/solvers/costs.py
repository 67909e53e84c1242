"""Every number by which one way to solve is chosen over another, with its unit and origin.

A *pass* is the work of one value and gradient over all rows; costs are numbers of passes. Nothing
here is measured while a fit runs: two equal fits choose equally, whatever else the machine does.
Times are of the development machine (2 x86-64 cores, AVX-512). "Chosen" means not measured.
"""

from __future__ import annotations

# ---- what a machine does, beside a pass
# Stored values of a row for which forming the Hessian adds one more pass; Hessians cost the square
# of a row's length. Dense rows of 30 to 2,000 features gave 18 to 37; sparse rows of 5 to 100
# values, whose products are scattered one by one, 4 to 6 where the Hessian fits into a core's
# cache, up to so many features, then 4.2 (700 features) to 1.5 (1,500) (2026-11-23).
DENSE_HESSIAN_VALUES = 30.0
SPARSE_HESSIAN_VALUES, LARGE_HESSIAN_VALUES, CACHED_HESSIAN = 5.0, 3.0, 500
# With K margins a row: a pass in passes of one margin, for each of them; and what the Hessian adds,
# in passes with K margins, for each of the K - 1 other classes of a class: so much, and half the
# features (sparse rows are made dense) over so many. 581,000 x 54 x 7, float64: pass 0.11 s (of one
# margin 0.036), with the Hessian 1.77 (2 threads, 2026-11-24).
OUTPUT_PASS, OUTPUT_PAIR, OUTPUT_HESSIAN_VALUES = 0.45, 0.3, 12.0
# Passes of L-BFGS around the blocks of classes: 113 and 136 to 1e-6 on covtype-like rows (150,000,
# 60,000 x 54 x 7, 2026-11-24); and how often blocks are formed. Chosen from these.
OUTPUT_LBFGS_PASSES, BLOCK_RENEWALS = 100.0, 4
# Rows of the sample of which blocks are formed: so many for each feature, and at least. Chosen.
BLOCK_ROWS, LEAST_BLOCK_ROWS = 10, 10_000
# Stored values of sparse rows that take as long as one entry of a Hessian does to be cleared, added
# up over threads, mirrored and returned: 8 to 11 ns, where a value takes 1 (2026-11-23).
HESSIAN_ENTRY_VALUES = 10.0
# Seconds of a thread, times the cube of the features, for all that Newton's method does with one
# Hessian besides forming it: factors, an inverse for bounds, a step. 0.08 s of 9 iterations with
# 427 features (2026-11-23).
SOLVE_SECONDS = 4e-11
# The same times the levels of a factor that is eliminated and the square of the other coefficients.
ELIMINATION_SECONDS = 2e-10
# The same times the pairs of its levels with those of other factors, and what is beside a pair in
# its row: 0.13 s for 1,000,000 pairs with 10 in each row (2026-11).
PAIR_SECONDS = 1e-8
# Products with a Hessian of several large factors for what Newton's method does with it, and the
# seconds of one for each stored value: 24 to 50, and 8 ms with 1,000,000 pairs of 150,000 levels
# beside 30 numbers (2026-11).
PRODUCTS, PRODUCT_SECONDS = 50, 5e-10
# Features up to which a Hessian is formed without being asked for: 32 MB a thread. Chosen.
LARGEST_HESSIAN = 2000
# Features up to which a Hessian is cheap beside reading rows from disk, or on a device. Chosen.
FEW_FEATURES = 1000
# Seconds of a thread for a Hessian and its factorisation that are no time to speak of: Newton's
# method is then done in about 10 ms. Chosen.
SMALL_SECONDS = 1e-3
# Stored values that a thread takes as long for as for one entry of a vector of coefficients, which
# NumPy reads or writes from memory. Chosen from the bytes moved: 8, and 12 of a sparse value that
# also loads and stores an entry of the gradient.
VECTOR_VALUES = 0.5
# Vectors of coefficients that one iteration reads or writes: counted in the code, 7 for each of the
# two loops over 10 pairs of L-BFGS, and about 25 for a product of conjugate gradients (2026-11-22).
LBFGS_VECTORS, TRON_VECTORS = 150.0, 25.0
# The same of an epoch of dual ascent: 80 ns for each of 270,000 features, 25 for 211,000, on two
# threads (2026-11-23).
EPOCH_VECTORS = 50.0
# Passes of an epoch of dual ascent over long rows, and stored values of which every row takes the
# time besides. Epochs took 1.4 to 5 passes on six data sets, most where rows are short
# (2026-11-22).
EPOCH_PASSES, EPOCH_ROW_VALUES = 1.5, 30.0
# Seconds of a thread for one stored value in a pass, dense rows and sparse ones, whose columns are
# gathered and scattered. Both as `auto` has taken them since 2026-11-22; where they were measured
# is not recorded.
DENSE_SECONDS, SPARSE_SECONDS = 0.25e-9, 2e-9
# Seconds below which no pass is believed to be, since a request has work of its own. Chosen.
LEAST_PASS_SECONDS = 1e-5
# Seconds of a round of messages: of every round, of every worker's two messages, and of every byte
# of them. From rounds with 1 to 16 worker processes on 2 cores: 1.6 to 19 ms with 28 numbers, 3.6
# to 49 with 47,000, 54 to 605 with 1,000,000 (2026-11-22).
ROUND_SECONDS, MESSAGE_SECONDS, BYTE_SECONDS = 0.5e-3, 1.1e-3, 2.5e-9
# Seconds of a byte of sampled rows that travel through the scheduler to the client: 86 ms for 64
# MB, 21 for 16 MB of two workers on 2 cores (2026-11-28).
SAMPLE_BYTE_SECONDS = 1.3e-9

# ---- how many iterations solvers take
# Decades of the curvature ratio above which problems were no harder on the whole, for Newton's
# method and TRON, on 220 drawn problems (2026-11-23).
MOST_DECADES = 3.0
# Iterations of Newton's method without samples, each with a Hessian, and how many more for each
# decade of 1 + the curvature ratio: 1 to 3 below a ratio of 1, 3 to 6 at 10, 5 to 9 at 1,000, on
# those problems. A quadratic takes one and proves it by another evaluation.
NEWTON_STEPS, STEPS_PER_DECADE, QUADRATIC_STEPS = 3.5, 1.2, 2.0
# Hessians of Newton's method without a penalty, from the means of the levels of a factor that is
# eliminated: 4 to 6 for counts, classes and gamma, 300 to 100,000 levels, to 1e-8 and 1e-9
# (2026-11-28).
LEVEL_STEPS = 5.0
# Newton's method that begins on samples of the rows: passes, Hessians of all rows, how many more
# for each decade of the ratio, factorisations, rounds about all rows and about samples that do not
# travel. Whole fits of 100,000 rows with 200 and 400 features (2026-11-22), and the drawn problems.
SAMPLED_PASSES, SAMPLED_HESSIANS, HESSIANS_PER_DECADE = 4.0, 1.5, 0.5
SAMPLED_FACTORS, WHOLE_ROUNDS, SAMPLED_ROUNDS = 7.0, 4.0, 11.0
# Epochs of dual ascent to a relative gap of 1e-6, and how many more for a curvature ratio of 1.
# Grew from 6 to 25 over RCV1, epsilon, Criteo, rcv1_binary, amazon_reviews, news20 (2026-11-22).
# With an L1 penalty besides 6 to 20 for ratios of 0.0006 to 1.2 on nine drawn problems
# (2026-11-25).
SDCA_EPOCHS, EPOCHS_PER_RATIO = 8.5, 5.0
# Curvature ratio to which that holds.
EASY_RATIO = 3.0
# Relative suboptimality below which no cost is foreseen: float64 does not tell. Chosen.
LEAST_TOL = 1e-15
# Rounds of messages for an epoch.
EPOCH_ROUNDS = 2.0
# Passes of TRON to 1e-6: these for easy rows, times (1 + curvature ratio) to this power. Medians of
# 220 drawn problems were 7 to 13 below a ratio of 0.1, 18 at 1, 31 at 10, 46 at 100, 30 to 120
# above (2026-11-23).
TRON_PASSES, TRON_POWER = 15.0, 0.25
# Passes of TRON over those of L-BFGS that are to be expected. On 17 drawn problems 0.5 to 3.4, 1.2
# in the geometric mean (2026-11-22); more is chosen, since L-BFGS is the one that can be tried.
TRON_PER_LBFGS = 1.6

# ---- L-BFGS, and the trial that foresees its iterations
# Passes of L-BFGS after which a second-order method is to finish. Few problems were left then that
# TRON did not end sooner: counts on nycflights, diabetes130, criteo (2026-11-22).
LBFGS_PASSES = 60.0
# But it goes on while its own rate foresees an end within this share of what the other method would
# take, up to so many times the passes that it was given. Chosen.
WORTH_ENDING, MOST_EXTENDED = 0.5, 2.0
# Passes of a certain solver up to which L-BFGS, tried or not, is not expected to be faster. Chosen.
FEW_PASSES = 10.0
# The same with a factor of thousands of levels, of which a sample has few rows each: of flights by
# tail number, to 1e-9, 26 iterations were foreseen and more than 60 taken (2026-11).
PASSES_UNTRIED = 60.0
# Passes of certain solvers from which a trial cannot speak against L-BFGS where each iteration of
# the trial is a round of messages as well. Chosen.
DISTANT_PASSES = 50.0
# Rows for each feature that a trial reads, up to a share of all rows: with fewer a sample is much
# harder to fit than all rows are. Errors of forecasts on 48 drawn problems fell from samples of
# 1/32 to those four times as large (2026-11-22); the numbers are chosen.
TRIAL_ROWS, LARGEST_TRIAL = 10, 1 / 8
# Where fewer rows would do: a share of all rows, but at least and at most so many stored values.
# Chosen.
TRIAL_SHARE, LEAST_TRIAL_VALUES, MOST_TRIAL_VALUES = 1 / 32, 1e5, 1e6
# Rows for each coefficient from which the losses of a sample are scaled up to the whole. With fewer
# rows nearly every row has a direction of its own, whose curvature that would magnify: then the
# scale is multiplied by this power of the sample's share. Forecasts for RCV1-shaped rows with C
# from 0.1 to 10 were 9 to 35 iterations without it and 7 to 25 with it; 8 to 23 were taken
# (2026-11-22).
FULL_SCALE_ROWS, WIDE_SCALE_POWER = 2.0, 0.5
# Stored values of a feature in the sample below which vectors cost more than the sample's rows, so
# that a trial costs as much as a solve. Chosen.
TRIAL_FEATURE_VALUES = 4
# Iterations of a trial at most, and over how many a rate of convergence is taken: on the drawn
# problems forecasts from 12 iterations or over 10 of them were no better (2026-11-22).
TRIAL_ITERATIONS, RATE_WINDOW = 25, 5
# Share of the best certain cost: once less is foreseen, the trial ends. Chosen.
SURE_SHARE = 0.85
# But it goes on while it has cost less than this share of the best certain cost: rates of the first
# iterations are too good where eigenvalues decay. Chosen.
TRIAL_STAKE = 0.02
# Seed of the rows that a trial reads.
TRIAL_SEED = 30

# ---- samples in Newton's method and in TRON
# Stored values from which samples of the rows pay. Chosen.
SAMPLED_VALUES = 1_000_000

# ---- when dual ascent hands over to a second-order method
# Tolerances below this are met by the second method as soon as its cost is less than the epochs
# left; above, it must be ten times less: epochs are certain, their rate is not yet. Chosen.
TIGHT_TOL, LOOSE_TOL_FACTOR = 1e-5, 10.0
# Rounds in turn with a value above that of w = 0 after which the ascent is given up. Chosen.
LOST_ROUNDS = 5
# Passes that the second method may take: so many times the epochs that are left, within bounds;
# a hinge's proximal points may take more. Chosen.
SECOND_PER_EPOCH, LEAST_SECOND, MOST_SECOND, MOST_HINGE = 5.0, 200.0, 500.0, 5000.0
# Proximal points of a hinge take so many times the Newton steps of a smooth loss. Chosen.
PROXIMAL_FACTOR = 5.0
# Hessians that Newton's method forms to finish what dual ascent began, and epochs in whose time
# TRON does. Chosen.
FINISH_STEPS, TRON_FINISH_EPOCHS = 4.5, 25.0

# ---- losses with corners
# Passes of proximal points from the start, and Hessians that they form: 14 to 50 passes in all for
# quantiles of 2,000 to 1,000,000 rows of 10 and 20 features (2026-11-24).
PROXIMAL_PASSES, PROXIMAL_HESSIANS = 10.0, 20.0
# Epochs of dual ascent for a loss with corners, its second stage included. Chosen so that with
# dense rows it is taken from about 200 features on.
CORNER_EPOCHS = 100.0

# ---- penalties with kinks
# What proximal Newton with working sets takes, in passes, copies and Hessians or products included:
# 6 to 18 at a tenth of the largest strength, 13 to 107 at a hundredth, 110 to 1,000 at a thousandth
# (rcv1_binary, amazon_reviews, news20_text and rows drawn like theirs, 2026-11-25).
WORKING_SET_PASSES = 60.0
# Products with a Hessian for the minimum of one model, where it is not formed: 5 to 20 for sets of
# 500 to 11,000 features while their coefficients are few beside the rows (2026-11-25).
MODEL_PRODUCTS = 12.0
# Vectors of coefficients that these points read or write: 4 to 6 points, about 80 vectors each,
# counted in the code.
WORKING_SET_VECTORS = 400.0
