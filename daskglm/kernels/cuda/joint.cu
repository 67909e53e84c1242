// Losses of all classes together: the softmax, and the ordinal loss with its thresholds. Margins of
// the softmax are (K, rows) with `stride` numbers from one class to the next; what is made of them
// has `rows`. A thread has a row, so that neighbours read neighbouring numbers.

// The loss of each row: its probabilities into `p`, weighted slopes into `slope`. partial (blocks,)
// gets the sums of the weighted losses, not finite where a margin is not.
//
// A loss is log(sum_k exp(z_k)) - z_y, added up as log1p of the other classes' share, so that it is
// relatively exact however small it is; so are slopes.
extern "C" __global__ void __launch_bounds__(256)
softmax_rows(long long rows, int K, const double* z, const int* codes, const VECTOR* weight,
             double* p, double* slope, double* partial) {
  __shared__ double scratch[32];
  double value = 0.0;
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    const int code = codes[i];
    const double s = weight ? widen(weight[i]) : 1.0;
    double largest = z[i];
    for (int k = 1; k < K; ++k) largest = larger(largest, z[k * rows + i]);
    double own = 0.0, others = 0.0, mine = 0.0, bad = 0.0;
    // not unrolled: for sm_80 that spills
#pragma unroll 1
    for (int k = 0; k < K; ++k) {
      const double at = z[k * rows + i], e = exp(at - largest);
      if (k == code) {
        own = e;
        mine = at;
      } else {
        others += e;
      }
      bad += 0.0 * at;
      p[k * rows + i] = e;
    }
    // where the own margin is the largest its term is one, and drops out exactly
    const double rest = others + (own - 1.0);
    value += s * (log1p(larger(rest, 0.0)) + (largest - mine)) + bad;
    const double total = 1.0 / (own + others);
    for (int k = 0; k < K; ++k) {
      const double share = p[k * rows + i] * total;
      p[k * rows + i] = share;
      slope[k * rows + i] = s * (k == code ? -others * total : share);
    }
  }
  value = block_sum(value, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = value;
}

// Multiply u (K, rows), in place, by s (diag p - p p') of each row, p being the softmax of z.
extern "C" __global__ void __launch_bounds__(256)
softmax_product(long long rows, int K, const double* z, const VECTOR* weight, double* u) {
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    double largest = z[i];
    for (int k = 1; k < K; ++k) largest = larger(largest, z[k * rows + i]);
    double total = 0.0, mean = 0.0;
    for (int k = 0; k < K; ++k) {
      const double e = exp(z[k * rows + i] - largest);
      total += e;
      mean += e * u[k * rows + i];
    }
    mean /= total;
    const double scale = (weight ? widen(weight[i]) : 1.0) / total;
    for (int k = 0; k < K; ++k) {
      const double e = exp(z[k * rows + i] - largest);
      u[k * rows + i] = scale * e * (u[k * rows + i] - mean);
    }
  }
}

// A logistic term log(1 + exp(m)) of weight s: its value, slope and curvature in m.
__device__ inline LossTerms logistic_term(double m, double s) {
  const double e = exp(-fabs(m)), other = 1.0 / (1.0 + e);
  LossTerms terms;
  terms.value = s * (larger(m, 0.0) + log1p(e));
  terms.slope = s * (m > 0.0 ? other : e * other);
  terms.curvature = s * e * other * other;
  return terms;
}

// The two logistic terms of each row of the ordinal loss. edges (2, K + 1) has the threshold below
// class k at k and the one above it at k + 1, and then 1 where there is one, else 0. of (4, rows)
// gets slope and curvature by the margin of the upper term, then of the lower one. partial
// (blocks,) gets the sums of the values, not finite where a margin is not.
extern "C" __global__ void __launch_bounds__(256)
ordinal_rows(long long rows, int K, const double* z, const double* offset, const int* codes,
             const VECTOR* weight, const double* edges, double* of, double* partial) {
  __shared__ double scratch[32];
  double value = 0.0;
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    const int k = codes[i];
    const double s = weight ? widen(weight[i]) : 1.0;
    const double at = offset ? z[i] + offset[i] : z[i];
    const LossTerms upper = logistic_term(at - edges[k + 1], s * edges[K + 1 + k + 1]);
    const LossTerms lower = logistic_term(edges[k] - at, s * edges[K + 1 + k]);
    value += upper.value + lower.value + 0.0 * at;
    of[i] = upper.slope;
    of[rows + i] = upper.curvature;
    of[2 * rows + i] = -lower.slope;
    of[3 * rows + i] = lower.curvature;
  }
  value = block_sum(value, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = value;
}
