"""Every number by which one way to solve is chosen over another, with its unit and origin.

A *pass* is the work of one value and gradient over all rows; costs are numbers of passes. Nothing
here is measured while a fit runs: two equal fits choose equally, whatever else the machine does.
Times are of the development machine (2 x86-64 cores, AVX-512). "Chosen" means not measured.
"""

from __future__ import annotations

# ---- what a machine does, beside a pass
# Seconds of a thread for a pass: of a row, of a byte of dense rows, and of a stored value of sparse
# ones, whose columns are gathered and scattered; that doubles with so many features, and grows on
# by the root of their number, since no cache holds them. And what every request takes beside its
# work. Dense rows of 5 to 1,500 features took 1.1 to 0.22 ns a value in float32, 1.3 to 0.52 in
# float64; sparse ones 1.5 to 3 up to 20,000 features, 3 to 4 with 100,000, 4.6 to 5.5 with 300,000,
# 6 to 10 with a million (one thread, 2026-11-28).
ROW_SECONDS, BYTE_OF_ROW_SECONDS, SPARSE_SECONDS = 0.5e-8, 0.055e-9, 1.6e-9
CACHED_FEATURES, REQUEST_SECONDS = 60_000, 5e-5
# Stored values of a row for which forming the Hessian adds one more pass; Hessians cost the square
# of a row's length. Dense rows of 28 to 1,500 features gave 14 to 38 (2026-11-28); sparse rows of 5
# to 100 values, whose products are scattered one by one, 4 to 6 where the Hessian fits into a
# core's cache, up to so many features, then 4.2 (700 features) to 1.5 (1,500) (2026-11-23). Whole
# fits of 53 drawn problems took three quarters of what these means gave (one thread, 2026-11-28).
DENSE_HESSIAN_VALUES = 27.0
SPARSE_HESSIAN_VALUES, LARGE_HESSIAN_VALUES, CACHED_HESSIAN = 7.0, 4.5, 500
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
# Seconds of a thread for an entry of a factor's square by which a system is solved: 0.4 to 0.9 ns
# with 300 to 3,000 unknowns (2026-11-29).
SOLVED_ENTRY_SECONDS = 0.8e-9
# Features up to which a Hessian is formed without being asked for: 32 MB a thread. Chosen.
LARGEST_HESSIAN = 2000
# Features up to which a Hessian is cheap beside reading rows from disk, or on a device. Chosen.
FEW_FEATURES = 1000
# Seconds of a thread for a Hessian and its factorisation that are no time to speak of: Newton's
# method is then done in about 10 ms. Chosen.
SMALL_SECONDS = 1e-3
# Seconds of a thread for one entry of a vector of coefficients that NumPy reads or writes: an
# iteration of L-BFGS with ten pairs took 10 to 39 ns for each of 100,000 and 300,000 features
# beside its pass, 32 to 80 of a million (2026-11-28).
VECTOR_SECONDS = 0.25e-9
# Seconds that an iteration of L-BFGS takes beside passes and vectors, or a round of dual ascent
# beside its epoch: 0.15 to 0.3 ms with 15 to 450 features (2026-11-28).
ITERATION_SECONDS = 0.2e-3
# Vectors of coefficients that an iteration of L-BFGS with ten pairs, and a product of conjugate
# gradients, read or write: counted in the code (2026-11-22).
LBFGS_VECTORS, TRON_VECTORS = 150.0, 25.0
# Pairs of vectors that TRON's preconditioner keeps, at least and at most, the vectors that solving
# with it reads for each, and the share of a pass's time and of the stored values they may take.
# On 210 drawn problems 20 pairs took 9 to 17 % fewer passes (5 % of time on one thread), 50 pairs
# the same; 2 or 3 pairs took up to 20 % more (2026-11-28).
LEAST_PAIRS, MOST_PAIRS, PAIR_VECTORS, PAIRS_SHARE = 8, 20, 4.0, 0.1
# The same of an epoch of dual ascent: 7 ns for each of 200,000 features on one thread; two, each
# with a copy of the shared vector, took 25 to 80 (2026-11-23, 2026-11-28).
EPOCH_VECTORS = 50.0
# Seconds of a thread for an epoch of dual ascent: of a row, and of a stored value of dense rows,
# beside reading them, and of sparse rows, which grows by as much with so many features. 66 to 175
# ns for rows of 5 to 60 values, 150 to 300 of 220, 990 to 1,330 of 1,500; sparse ones 70 to 95 ns
# of 10 values, 140 of 40, 220 of 100, and of 40 of a million features (one thread, 2026-11-28).
EPOCH_ROW_SECONDS, EPOCH_DENSE_SECONDS, EPOCH_SPARSE_SECONDS = 6e-8, 0.2e-9, 1.9e-9
EPOCH_FEATURES = 1_000_000
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
# Hessians of Newton's method without samples, and how many more for each decade of 1 + the
# curvature ratio: medians of 182 drawn problems were 4 below a ratio of 1, 5 up to 100, 6 and 7
# above (2026-11-28). Least squares take one.
NEWTON_STEPS, STEPS_PER_DECADE, QUADRATIC_STEPS = 3.7, 0.8, 1.0
# The same where curvatures jump, as those of squared hinges: medians of 180 generated problems were
# 2 to 3 Hessians below a ratio of 1, then 5, 6.5, 9, 9.5 and 15 for each decade, and TRON, by what
# is below, took 2 and 10 times what a limit of three decades foretold (2026-11-28).
# That is so with few rows for each feature; sums over many rows hardly jump: of 54 drawn problems
# those with 100 rows a feature or more took 2 to 8 Hessians, 4 in the median, whatever the ratio.
# Forecasts were within 1.40 times what was taken, in the mean of logarithms (1.75 without), TRON's
# within 2.01 (2.10) (2026-11-28).
MOST_JUMP_DECADES, SMOOTHING_DECADES = 6.0, 2.0
JUMP_STEPS, JUMP_STEPS_PER_DECADE = 3.0, 1.9
# Hessians of Newton's method without a penalty, from the means of the levels of a factor that is
# eliminated: 4 to 6 for counts, classes and gamma, 300 to 100,000 levels, to 1e-8 and 1e-9
# (2026-11-28).
LEVEL_STEPS = 5.0
# Steps by the Hessian of another point that a Hessian must cost for Newton's method to keep one,
# those that one serves for at most, and the Hessians that it is foreseen to want still. On 37 drawn
# problems of two distributions that took 0.53 of the time (0.23 to 0.87); on 30 others less often
# kept, for the last Hessian alone, 1 to 4 % more (2026-11-29).
LEAST_CHORDS, MOST_CHORDS, HESSIANS_LEFT = 3.0, 50.0, 2.0
# `Workload.want_of_rows` up to which old Hessians serve: squared hinges of three rows for each
# feature took up to 1.3 of the time with them, of five half of it (2026-11-29).
MOST_WANT = 0.5
# Hessians of all rows then, and steps by others, and how many more for each decade of the curvature
# ratio: 70 drawn problems took 1 and 4 below a ratio of 1, 1.7 and 8 up to 10, 2 and 9 up to 1,000,
# 4 and 15 beyond. Forecasts were within 1.43 times what was taken (2026-11-29).
KEPT_HESSIANS, KEPT_PER_DECADE, CHORDS, CHORDS_PER_DECADE = 1.3, 0.25, 3.0, 3.0
# Newton's method that begins on samples of the rows: passes, Hessians of all rows, how many more
# for each decade of the ratio, factorisations, rounds about all rows and about samples that do not
# travel. Whole fits of 100,000 rows with 200 and 400 features (2026-11-22), and the drawn problems.
SAMPLED_PASSES, SAMPLED_HESSIANS, HESSIANS_PER_DECADE = 3.0, 1.0, 0.5
# But where Hessians of all rows cost more, steps by that of the sample take these passes, and as
# many for each decade of the ratio, and the samples this share of a Hessian. Chosen from 3 passes
# of dense rows of 132 values and 7 of one-hot rows of 33 (2026-11-28).
SAMPLE_STEPS, SAMPLE_HESSIANS = 2.0, 0.2
SAMPLED_FACTORS, WHOLE_ROUNDS, SAMPLED_ROUNDS = 7.0, 4.0, 11.0
# Epochs of dual ascent to a relative gap of 1e-6, and how many more for a curvature ratio of 1, and
# by which power of it: on 60 drawn problems 4 to 6 below a ratio of 0.1, 5 to 13 up to 1, 8 to 29
# at 2 and 3, 17 and 18 at 6 and 8 (2026-11-28). With an L1 penalty besides 6 to 20 for ratios of
# 0.0006 to 1.2 on nine of them (2026-11-25).
SDCA_EPOCHS, EPOCHS_PER_RATIO, EPOCHS_POWER = 6.0, 6.0, 0.7
# Most epochs of squared hinges with steps between them (see `core.dual_span`): the median of nine
# on text, raw counts and drawn rows, which took 14 to 156. TRON took two to eight times what was
# foreseen where that was more, and no more than that on dense rows whose spectrum decays, where it
# was less (2026-11-29).
STEPPED_EPOCHS = 50.0
# Share of the rows that have curvature at the optimum of a loss that jumps: 195 generated squared
# hinges of 0.4 to 2.2 rows for each feature took 0.56 of the time so, between 0.03 and 1.95 of it.
# Chosen (2026-11-28).
CURVED_ROWS = 0.5
# Relative suboptimality below which no cost is foreseen: float64 does not tell. Chosen.
LEAST_TOL = 1e-15
# Rounds of messages for an epoch.
EPOCH_ROUNDS = 2.0
# Products of TRON to 1e-6: these for easy rows, times (1 + so many curvature ratios) to this power,
# which is less for each decade of rows beside features; and their share for least squares, whose
# model is exact. On 420 drawn problems of two distributions half of the forecasts were within 1.57
# times what was taken, in the mean of logarithms 1.74; whatever the rows, 1.75 (2026-11-28).
TRON_PASSES, TRON_RATIO, TRON_POWER, TRON_POWER_LESS = 10.0, 40.0, 0.3, 0.07
QUADRATIC_SHARE = 0.64
# Passes that a product takes: curvatures are known. Medians of 122 drawn problems, dense and
# sparse, were 0.71 both (one thread, 2026-11-28).
PRODUCT_PASSES = 0.7
# Share of their cost that epochs of dual ascent count with: their rate is seen from the third one
# on, and TRON or Newton's method takes over where it is slow, which cost 0 to 30 % on most of 46
# generated problems of eight kinds, where TRON took up to 3.5 times as long instead (2026-11-28).
# Chosen.
SEEN_EPOCH_COST = 0.6
# Rows for each coefficient of the sample whose Hessian preconditions TRON, and its largest share of
# all rows. Chosen.
HESSIAN_SAMPLE_ROWS, LARGEST_SAMPLE = 10, 0.25

# Passes' work of Newton's method up to which the reason of a choice names no others. Chosen.
FEW_PASSES = 6.5
# The same up to which Newton's method eliminates a factor of thousands of levels, whatever else is
# expected: the curvature ratio of rows tells little of their levels'. Chosen: 63 to 102 were
# foreseen for flights by tail number where 6 to 9 passes were taken (2026-11).
ELIMINATION_PASSES = 100.0

# Newton's method is taken up to so many times the cost of TRON. That one's passes are within a
# factor of 1.74 of what is foreseen, in the mean of logarithms, and if they are more than Newton's
# cost both are paid. Of 116 drawn problems where both were foreseen the time over the best was 1.19
# in the mean with 1 to 1.2, 1.25 with 1.4 (2026-11-30).
CERTAIN = 1.2

# ---- easy rows
# Relative errors up to which L-BFGS goes on after its first point, the second and all further ones,
# points after which another solver takes over, passes that cost less than what is foreseen of that
# one, the part that few pairs take of what an iteration costs beside its pass, and the curvature
# ratio beyond which the error at zero is seldom so small. Of 145 drawn problems of a ratio up to 3
# it goes on with 18, which took 0.23 to 0.97 of the time, and three more slowly (1.2 to 1.4); 20
# others lose 5 to 25 % by the passes spent. Near the least time of 1,600 sets (2026-11-30).
EASY_ERRORS, EASY_POINTS, EASY_PASSES = (0.4, 0.02, 0.005), 12, 4.0
EASY_SHARE, EASY_RATIO = 0.5, 0.35

# ---- samples in Newton's method and in TRON
# Stored values from which samples of the rows pay. Chosen.
SAMPLED_VALUES = 1_000_000
# Passes that the Hessian of sparse rows costs from which samples pay. Flights by carrier, origin,
# destination and hour (0.7 passes) took 14 passes with them, 4 without, drawn rows 0.8 of the time
# with them at 0.7 to 0.9 passes, and 0.4 to 0.6 above 2 (2026-11-29).
CHEAP_HESSIAN = 1.0

# ---- when dual ascent hands over to a second-order method
# Tolerances below this are met by the second method as soon as its cost is less than the epochs
# left; above, it must be ten times less: epochs are certain, their rate is not yet. Chosen.
TIGHT_TOL, LOOSE_TOL_FACTOR = 1e-5, 10.0
# Rounds in turn with a value above that of w = 0 after which the ascent is given up. Chosen.
LOST_ROUNDS = 5
# Passes that the second method may take: so many times the epochs that are left, within bounds; a
# hinge's proximal points may take more. Chosen.
SECOND_PER_EPOCH, LEAST_SECOND, MOST_SECOND, MOST_HINGE = 5.0, 200.0, 500.0, 5000.0
# Part of the gap at w = 0 up to which the point of an ascent is near enough for the second method
# to begin there. Of 40 drawn classes and counts that were handed over those of more whose gradient
# was longer than that at zero took 0.98 to 4 times the passes from there than from zero, in the
# median 1.15; all others 0.4 to 1.05, but for two of 1.25 and 2.4 (2026-11-29).
NEAR_GAP = 0.1
# Epochs after which an ascent whose second method was given up is judged by the last half of them,
# and epochs left by that at which a smooth loss is given to the second method again, to its end:
# the most that a user who says nothing allows. Chosen.
LONG_ASCENT, HOPELESS_EPOCHS = 100, 1000.0
# Epochs in whose time a smooth loss would be finished by Hessians, with so many of them that cost
# their passes in epochs; proximal points of a hinge take so many times that. Chosen.
FINISH_STEPS, EPOCH_PASSES, PROXIMAL_FACTOR = 4.5, 1.5, 5.0
# Epochs that proximal points take by TRON: hinges of eight sets of text and tables took 190 to
# 5,600 passes so, where the ascent took 0.1 to 0.4 as many epochs to its end, once 1.2 as many
# (2026-11-29).
PROXIMAL_TRON_EPOCHS = 3000.0
# Rows for each feature up to which ascents on losses with corners take steps, however few features
# there are: with nearly as many rows within corners as features proximal points by Newton's method
# came to rest unproved, 1,175 x 446 at a gap of 9e4, or took seconds, where such steps end in 0.05
# to 1 s; with more rows Newton's method is faster (60 drawn hinges, 2026-11-29).
FEW_ROWS = 4.0
# Steps of interior points that losses with corners take, at most and in the median, and those in
# turn after which they are given up where their products do not fall. Of 21 drawn problems of 300
# to 6,393 rows, C up to 1,000, of which the ascent had proved none in 8 s, 19 were within 1e-5
# after 10 to 32 steps (2026-11-30).
MOST_INTERIOR, INTERIOR_STEPS, IDLE_INTERIOR = 60, 20.0, 15
# Seconds of a thread for a product of a Gram or of a factor in such a step: 0.05 to 0.2 ns with 300
# to 2,000 unknowns. And the values of rows, made dense, that are kept for it, 128 MB, and the
# seconds foreseen for all steps, at most: nothing else is done meanwhile. Chosen.
INTERIOR_SECONDS, INTERIOR_VALUES, INTERIOR_LONGEST = 1e-10, 16_000_000, 10.0
# Epochs between which a rate of dual ascent is believed, at least, and the most that count; and
# rounds that count where the second method is dear. Chosen.
SEEN_EPOCHS, RATE_WINDOW, SURE_WINDOW = 3, 5, 40

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
# The same by descents along the columns of few dense rows: 5 to 45 for 40 least squares of 500 to
# 2,000 features, half to a hundredth of the largest strength, 9 to 60 of classes (2026-11-29).
DESCENT_PASSES = 20.0
# Products with a Hessian for the minimum of one model, where it is not formed: 5 to 20 for sets of
# 500 to 11,000 features while their coefficients are few beside the rows (2026-11-25).
MODEL_PRODUCTS = 12.0
# Vectors of coefficients that these points read or write: 4 to 6 points, about 80 vectors each,
# counted in the code.
WORKING_SET_VECTORS = 400.0
# OWL-QN before the first set, where more features violate than that takes: vectors of an iteration,
# their most cost beside a pass, the share of the nonzero coefficients that may come and go in the
# last iteration, and iterations at most. 31 drawn L1 logistic and Poisson fits of sparse rows took
# 0.79 of the time in the mean of logarithms with shares of 0.01 and 0.03, 0.87 with 0.1; those of
# fewer such features, least squares and dense rows 0.96 to 1.3; news20's rows, whose vectors cost
# 0.4 by this, three times as long (2026-11-30).
SUPPORT_VECTORS, MOST_SUPPORT_VECTORS, SETTLED, SUPPORT_ITERATIONS = 100.0, 0.2, 0.02, 40
# What proximal Newton takes from where dual ascent has come to: passes, by the nonzero coefficients
# times the curvature ratio, of least squares and of losses with several models; and vectors. Of the
# passes after 320 drawn hand-overs it misses a factor of 3 (standard deviation), 15 passes and 60
# more with as many coefficients as rows missed one of 4.5. 163 of these took 1.05 of the least time
# in the mean of logarithms and 1.36 at the 95 % quantile, 1.13 and 2.6 by that, 2.7 and 18 by the
# ascent alone; powers of 1/4 to 2/5 up to 1.06. 205 others: 1.08 and 1.39, 1.06 and 1.33, 2.7 and
# 17, the worst 5, 11 and 118 (2026-11-30).
SET_PASSES_LEFT, SET_PASSES_POWER, SET_MODELS, SET_VECTORS_LEFT = 1.2, 1.0 / 3.0, 1.9, 200.0
