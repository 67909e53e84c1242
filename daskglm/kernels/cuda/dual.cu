// Stochastic dual coordinate ascent on the device, after TPA-SCD (Parnell et al. 2017). A team of
// threads, one block, updates one row at a time. Teams that share a replica of the shared vector
// add to it by atomics, asynchronously. Coordinate steps are those of `losses/`, and the orders of
// rows those of `kernels/coordinate_ascent.py`.

#ifdef __CUDA_ON_CPU__
#define FRESH(place) (*(place))
#else
// Bypasses the first-level cache, which does not see the atomics of other blocks.
#define FRESH(place) __ldcg(place)
#endif

// The coordinate step of the logistic loss: p = 1 / (1 + exp(m)) for the root m of
// m - q / (1 + exp(m)) = c, by Newton's method from `start`, safeguarded by bisection.
__device__ inline double logistic_step(double c, double q, double start) {
  double low = c, high = c + q, m = smaller(larger(start, low), high), last = 1e308;
  for (int turn = 0; turn < 100; ++turn) {
    double e = exp(-fabs(m)), r = 1.0 / (1.0 + e), p = m > 0.0 ? e * r : r, slope = e * r * r;
    double excess = m - q * p - c;
    if (excess > 0.0)
      high = m;
    else
      low = m;
    double move = -excess / (1.0 + q * slope);
    if (fabs(move) <= 0.25 && (move * move <= 0.25 * fabs(m + move - start) ||
                               fabs(move) <= 1e-12 * (1.0 + fabs(m))))
      return p - slope * move;
    if (high - low <= 1e-15 * (fabs(low) + fabs(high))) return p;
    if (!(low < m + move && m + move < high) || fabs(move) > 0.5 * last)
      move = 0.5 * (low + high) - m;
    last = fabs(move);
    m += move;
  }
  return 1.0 / (1.0 + exp(m));
}

// Whether the kernels are compiled for a loss of an exponential family, the one of MODE; else for
// all others, of which `code` tells which it is.
#define OF_FAMILY (MODE >= FIRST_FAMILY)
// Largest dual variable, as in losses/entropy.py.
#define LARGEST_DUAL 1e100

// s log(s) - s + 1 for s = 1 - t, exact to rounding near t = 0.
__device__ inline double kl_term(double t) {
  const double s = 1.0 - t, u = t / s;
  if (fabs(t) >= 0.5) return s * log(larger(s, TINY)) + t;
  if (fabs(t) >= 1e-2) return s * (u - log1p(u));
  // the series of u - log(1 + u), whose difference would cancel
  double p = 1.0 / 9.0;
  for (int k = 8; k >= 2; --k) p = 1.0 / k - u * p;
  return s * u * u * p;
}

// The conjugate of half the Poisson deviance at -a.
__device__ inline double poisson_conjugate(double y, double a) {
  return y > 0.0 ? y * kl_term(a / y) - a * log_of(y) : a - a * log_of(-a);
}

// The m that solves log(m) + q m = k, by Wright's omega: see losses/entropy.py.
__device__ inline double exponential_root(double k, double q) {
  q = larger(q, TINY);
  const double x = k + log(q);
  if (x <= -30.0) return smaller(exp(smaller(k, 700.0)), LARGEST_DUAL);
  double w = x;
  if (x > 1.0) {
    w = x - log(x);
  } else {
    const double e = exp(x);
    w = e / (1.0 + 0.56 * e);
  }
  if (x <= 1e17)
    for (int turn = 0; turn < 3; ++turn) {
      const double r = x - w - log(w), p = 1.0 + w, f = 2.0 * p * (p + 2.0 / 3.0 * r);
      w *= 1.0 + r / p * (f - r) / (f - 2.0 * r);
    }
  return smaller(w / q, LARGEST_DUAL);
}

// The ends of the domain of the conjugate, for losses of families.
__device__ inline void ends_of(double p1, double y, double* low, double* high) {
  *low = MODE == GAMMA               ? -1.0
         : MODE == NEGATIVE_BINOMIAL ? -1.0 / p1
         : MODE == BINOMIAL          ? y - 1.0
                                     : -LARGEST_DUAL;
  *high = MODE == GAMMA ? LARGEST_DUAL : smaller(y, LARGEST_DUAL);
}

// The nearest dual variable within the domain of the conjugate.
__device__ inline double into_domain(int code, double p1, double y, double a) {
  if (code == SQUARED || code == SQUARED_EPSILON_INSENSITIVE) return a;
  if (code == HUBER) return smaller(larger(a, -p1), p1);
  if (code == QUANTILE) return smaller(larger(a, p1 - 1.0), p1);
  if (code == EPSILON_INSENSITIVE) return smaller(larger(a, -1.0), 1.0);
  if (OF_FAMILY) {
    double low, high;
    ends_of(p1, y, &low, &high);
    return smaller(larger(a, low), high);
  }
  double p = larger(y * a, 0.0);
  return y * (code == SQUARED_HINGE ? p : smaller(p, 1.0));
}

// The same number moved towards zero by `by`, at most to zero.
__device__ inline double shrunk(double u, double by) {
  double size = larger(fabs(u) - by, 0.0);
  return u > 0.0 ? size : -size;
}

// The best dual variable of one row of the family of MODE.
__device__ inline double best_of_family(double p1, double y, double z, double a, double q) {
  if (MODE == POISSON) return y - exponential_root(z - q * a + q * y, q);
  if (MODE == GAMMA) return exponential_root(log_of(y) - z + q * a + q, q) - 1.0;
  if (MODE == BINOMIAL) return y - logistic_step(q * (a - y) - z, q, -z);
  const double trials = y + 1.0 / p1, x = z + log_of(p1);
  return y - trials * logistic_step(q * (a - y) - x, q * trials, -x);
}

// The best dual variable of one row while all others are fixed: `losses.conjugates.step`.
__device__ inline double best(int code, double p1, double p2, double y, double z, double a,
                              double q) {
  if (OF_FAMILY) return into_domain(code, p1, y, best_of_family(p1, y, z, a, q));
  double u = y - z + q * a;
  switch (code) {
    case SQUARED: return u / (1.0 + q);
    case HUBER: return into_domain(code, p1, y, u / (1.0 + q));
    case QUANTILE: return into_domain(code, p1, y, u / larger(q + p2, TINY));
    case EPSILON_INSENSITIVE:
      return into_domain(code, p1, y, shrunk(u, p1) / larger(q + p2, TINY));
    case SQUARED_EPSILON_INSENSITIVE: return shrunk(u, p1) / (0.5 + q);
  }
  double c = y * z - q * (y * a), p;
  if (code == LOGISTIC)
    p = logistic_step(c, q, y * z);
  else if (code == SQUARED_HINGE)
    p = larger(2.0 * (1.0 - c) / (1.0 + 2.0 * q), 0.0);
  else if (code == SMOOTHED_HINGE)
    p = smaller(larger((1.0 - c) / (p1 + q), 0.0), 1.0);
  else if (code == HINGE)
    p = smaller(larger((1.0 - c) / larger(q, TINY), 0.0), 1.0);
  else
    p = nan("");  // no loss has this code
  return y * p;
}

// Coefficient of a^2 in the conjugate of a loss, for all but the logistic one.
__device__ inline double square_of(int code, double p1, double p2) {
  switch (code) {
    case SQUARED:
    case HUBER: return 0.5;
    case SQUARED_HINGE:
    case SQUARED_EPSILON_INSENSITIVE: return 0.25;
    case HINGE: return 0.0;
    case QUANTILE:
    case EPSILON_INSENSITIVE: return 0.5 * p2;
    case SMOOTHED_HINGE: return 0.5 * p1;
  }
  return nan("");  // no loss has this code
}

// Coefficient of |a| in the conjugate of a loss.
__device__ inline double kink_of(int code, double p1) {
  return code == EPSILON_INSENSITIVE || code == SQUARED_EPSILON_INSENSITIVE ? p1 : 0.0;
}

// The conjugate of the loss at -a, for a dual variable within its domain.
__device__ inline double conjugate(int code, double p1, double p2, double y, double a) {
  if (code == LOGISTIC) {
    double p = y * a, other = 1.0 - p;
    return p * log(larger(p, TINY)) + other * log(larger(other, TINY));
  }
  if (MODE == GAMMA) return kl_term(-a) - a * log_of(y);
  if (OF_FAMILY) {
    double value = poisson_conjugate(y, a);
    if (MODE == NEGATIVE_BINOMIAL) value += kl_term(-p1 * a) / p1;
    if (MODE == BINOMIAL) value += poisson_conjugate(1.0 - y, -a);
    return value;
  }
  return square_of(code, p1, p2) * a * a - y * a + kink_of(code, p1) * fabs(a);
}

// Its first two derivatives in a, for the family of MODE and a within the domain.
__device__ inline void bend_of(double p1, double y, double a, double* first, double* second) {
  if (MODE == GAMMA) {
    const double ratio = larger(1.0 + a, TINY);
    *first = log(ratio) - log_of(y);
    *second = 1.0 / ratio;
    return;
  }
  const double mean = larger(y - a, TINY);
  *first = -log(mean);
  *second = 1.0 / mean;
  if (MODE == POISSON) return;
  const double scale = MODE == BINOMIAL ? 1.0 : p1;
  const double rest = larger(MODE == BINOMIAL ? 1.0 - y + a : 1.0 + p1 * a, TINY);
  *first += log(rest);
  *second += scale / rest;
}

typedef unsigned long long bits64;  // wraps around on overflow

// A random bijection of 0 ... mask, and the order that it makes, as `_shuffled` and `place_of` of
// kernels/coordinate_ascent.py.
__device__ inline bits64 shuffled(bits64 i, bits64 mask, int half, bits64 key) {
  i = ((i + key) * 0x9E3779B1ULL) & mask;
  i ^= i >> half;
  i = ((i + (key >> 20)) * 0x85EBCA6BULL) & mask;
  i ^= i >> half;
  i = ((i + (key >> 40)) * 0xC2B2AE35ULL) & mask;
  return i ^ (i >> half);
}

// The place of number i in a random order of 0 ... count - 1, which `key` chooses.
__device__ inline int64 place_of(int64 i, int64 count, int64 key) {
  int bits = 1;
  while ((1LL << bits) < count) ++bits;
  const bits64 mask = (1ULL << bits) - 1;
  bits64 at = shuffled(i, mask, (bits + 1) / 2, key);
  while (at >= (bits64)count) at = shuffled(at, mask, (bits + 1) / 2, key);
  return (int64)at;
}

// Whether margins are those of the shared vector with its entries, but for the last, moved towards
// zero by `threshold`.
#ifndef THRESHOLDED
#define THRESHOLDED 0
#endif

// Rows as arrays, or where `indptr` is null dense ones.
struct StoredRows {
  const REAL* data;
  const INDEX* indices;
  const INDEX* indptr;
  int pattern, d;
};

// Call entry(feature, value) for all values of row i that this thread of a team has.
template <class Entry>
__device__ inline void each_of_team(const StoredRows& X, int64 i, Entry entry) {
  const int64 from = X.indptr ? (int64)X.indptr[i] : i * X.d;
  const int64 to = X.indptr ? (int64)X.indptr[i + 1] : from + X.d;
  for (int64 p = from + threadIdx.x; p < to; p += blockDim.x)
    entry(X.indptr ? (int64)X.indices[p] : p - from, widen(X.data[X.pattern ? 0 : p]));
}

// Run one epoch over the rows of a block, which have d features. gridDim = (teams, partitions), and
// each partition has a replica of v (d + 1).
//
// `key` chooses the order of the buckets of rows. They are assigned to partitions anew, or with
// `fixed` each partition keeps its own run of them. Changes enter v multiplied by sigma; `damp`
// (>= 1) shortens steps, since other teams change v meanwhile. `seen`, unless null, gets the margins
// that rows had when they were updated. `Rows` has its own `each_of_team`.
template <class Rows>
__device__ inline void sweep_rows(const Rows& X, int64 rows, int d, int code, double p1, double p2,
                                  const VECTOR* y, const VECTOR* weight, double C,
                                  const double* norms, double bias, double offset, double* alpha,
                                  double* replicas, double* seen, int bucket, int64 key, int fixed,
                                  double sigma, double damp, double threshold) {
  __shared__ double scratch[32];
  __shared__ double step;
  const int64 buckets = (rows + bucket - 1) / bucket;
  const int64 begin = buckets * blockIdx.y / gridDim.y;
  const int64 end = buckets * (blockIdx.y + 1) / gridDim.y;
  double* v = replicas + (int64)blockIdx.y * (d + 1);
  for (int64 t = begin + blockIdx.x; t < end; t += gridDim.x) {
    const int64 place =
        fixed ? begin + place_of(t - begin, end - begin, key) : place_of(t, buckets, key);
    const int64 stop = (place + 1) * bucket < rows ? (place + 1) * bucket : rows;
    for (int64 i = place * bucket; i < stop; ++i) {
      const double cost = C * (weight ? widen(weight[i]) : 1.0);
      if (cost == 0.0) continue;
      double z = 0.0;
      each_of_team(X, i, [&z, v, threshold](int64 j, double x) {
        const double entry = FRESH(v + j);
        z += x * (THRESHOLDED ? shrunk(entry, threshold) : entry);
      });
      z = block_sum(z, scratch);
      if (threadIdx.x == 0) {
        z += bias * FRESH(v + d) + offset;
        if (seen) seen[i] = z;
        const double a = alpha[i], q = damp * sigma * cost * (norms[i] + bias * bias);
        const double better = best(code, p1, p2, widen(y[i]), z, a, q);
        alpha[i] = better;
        step = sigma * cost * (better - a);
        if (bias != 0.0 && step != 0.0) atomicAdd(v + d, bias * step);
      }
      __syncthreads();
      const double change = step;
      if (change != 0.0)
        each_of_team(X, i, [change, v](int64 j, double x) { atomicAdd(v + j, change * x); });
      __syncthreads();
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
dual_sweep(const REAL* data, const INDEX* indices, const INDEX* indptr, int pattern, long long rows,
           int d, int code, double p1, double p2, const VECTOR* y, const VECTOR* weight, double C,
           const double* norms, double bias, double offset, double* alpha, double* replicas,
           double* seen, int bucket, long long key, int fixed, double sigma, double damp,
           double threshold) {
  const StoredRows X = {data, indices, indptr, pattern, d};
  sweep_rows(X, rows, d, code, p1, p2, y, weight, C, norms, bias, offset, alpha, replicas, seen,
             bucket, key, fixed, sigma, damp, threshold);
}

// The loss of a row of weight s.
__device__ inline double loss_of(int code, double p1, double p2, double y, double z, double s) {
  return (OF_FAMILY ? mode_at(p1, p2, y, z, s) : loss_at(code, p1, p2, y, z, s)).value;
}

// Row blockIdx.x of partial (blocks, 4) gets the sums of the conjugates before and after an epoch,
// and of the losses and the gaps at the margins seen.
extern "C" __global__ void __launch_bounds__(256)
dual_estimates(long long rows, int code, double p1, double p2, const VECTOR* y,
               const VECTOR* weight, const double* alpha, const double* work, const double* seen,
               double* partial) {
  __shared__ double scratch[32];
  double sum[4] = {0.0, 0.0, 0.0, 0.0};
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    const double s = weight ? widen(weight[i]) : 1.0, z = seen[i], a = alpha[i];
    const double loss = s == 0.0 ? 0.0 : loss_of(code, p1, p2, widen(y[i]), z, s);
    const double before = s * conjugate(code, p1, p2, widen(y[i]), a);
    sum[0] += before;
    sum[1] += s * conjugate(code, p1, p2, widen(y[i]), work[i]);
    sum[2] += loss;
    sum[3] += s == 0.0 ? 0.0 : loss + before + s * a * z;
  }
  for (int k = 0; k < 4; ++k) {
    double total = block_sum(sum[k], scratch);
    if (threadIdx.x == 0) partial[4 * blockIdx.x + k] = total;
  }
}

// The sum of the conjugates at alpha + c1 (work - alpha) + c2 previous, for each row (c1, c2) of
// `coefficients`. partial (blocks, m, LENGTH) gets the value, two slopes, three second derivatives,
// and how many rows are outside the domain. See `losses.conjugates.along`.
#define LENGTH 7

extern "C" __global__ void __launch_bounds__(256)
dual_along(long long rows, int code, double p1, double p2, const VECTOR* y, const VECTOR* weight,
           const double* alpha, const double* work, const double* previous,
           const double* coefficients, double* partial) {
  __shared__ double scratch[32];
  const double c1 = coefficients[2 * blockIdx.y], c2 = coefficients[2 * blockIdx.y + 1];
  const double square = square_of(code, p1, p2), kink = kink_of(code, p1);
  double sum[LENGTH] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    const double s = weight ? widen(weight[i]) : 1.0, label = widen(y[i]);
    const double d1 = work[i] - alpha[i], d2 = previous ? previous[i] : 0.0;
    const double at = alpha[i] + c1 * d1 + c2 * d2;
    const bool moved = d1 != 0.0 || d2 != 0.0;
    double p = label * at, value, first, second;
    if (code == LOGISTIC) {
      if (moved && (p < 0.0 || p > 1.0)) sum[6] += 1.0;
      p = smaller(larger(p, TINY), 1.0);
      const double other = larger(1.0 - p, 1e-17), log_p = log(p), log_other = log(other);
      value = p * log_p + other * log_other;
      first = label * (log_p - log_other);
      second = 1.0 / (p * other);
    } else if (OF_FAMILY) {
      const double inside = into_domain(code, p1, label, at);
      if (moved && fabs(at - inside) > 1e-15 * fabs(inside)) sum[6] += 1.0;
      value = conjugate(code, p1, p2, label, inside);
      bend_of(p1, label, inside, &first, &second);
    } else {
      const double beyond = fabs(at - into_domain(code, p1, label, at));
      if (moved && beyond > 1e-15 * larger(fabs(at), 1.0)) sum[6] += 1.0;
      value = square * at * at - label * at + kink * fabs(at);
      first = 2.0 * square * at - label + (at > 0.0 ? kink : at < 0.0 ? -kink : 0.0);
      second = 2.0 * square;
    }
    sum[0] += s * value;
    sum[1] += s * first * d1;
    sum[2] += s * first * d2;
    sum[3] += s * second * d1 * d1;
    sum[4] += s * second * d1 * d2;
    sum[5] += s * second * d2 * d2;
  }
  for (int k = 0; k < LENGTH; ++k) {
    double total = block_sum(sum[k], scratch);
    if (threadIdx.x == 0)
      partial[((int64)blockIdx.x * gridDim.y + blockIdx.y) * LENGTH + k] = total;
  }
}

// The sum of the conjugates with the positive and the negative dual variables scaled; one number per
// block.
extern "C" __global__ void __launch_bounds__(256)
dual_value(long long rows, int code, double p1, double p2, const VECTOR* y, const VECTOR* weight,
           const double* alpha, double positive, double negative, double* partial) {
  __shared__ double scratch[32];
  double sum = 0.0;
  for (int64 i = grid_thread(); i < rows; i += grid_threads())
    sum += (weight ? widen(weight[i]) : 1.0) *
           conjugate(code, p1, p2, widen(y[i]),
                     (alpha[i] > 0.0 ? positive : negative) * alpha[i]);
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Clip dual variables to the domain of the conjugate.
extern "C" __global__ void __launch_bounds__(256)
dual_clip(long long rows, int code, double p1, double p2, const VECTOR* y, double* alpha) {
  for (int64 i = grid_thread(); i < rows; i += grid_threads())
    alpha[i] = into_domain(code, p1, widen(y[i]), alpha[i]);
}
