// Kernels on vectors of one number per row, and the sum of what blocks leave. None reads X.

#define MOST_POINTS 3
#define SIDE (MOST_POINTS + 1)
#define LENGTH (1 + SIDE + SIDE * SIDE)

// Column sums of partial (rows, length), one block per column: out[j] = sum, or with `add` out[j]
// += sum. With a flag `live` that is zero it does nothing.
extern "C" __global__ void __launch_bounds__(256)
sum_partials(const double* partial, int rows, int length, double* out, int add, const int* live) {
  if (live && !*live) return;
  __shared__ double scratch[32];
  double sum = 0.0;
  for (int i = threadIdx.x; i < rows; i += blockDim.x)
    sum += partial[(int64)i * length + blockIdx.x];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) out[blockIdx.x] = (add ? out[blockIdx.x] : 0.0) + sum;
}

extern "C" __global__ void __launch_bounds__(256) zeros(long long count, double* out) {
  for (int64 i = grid_thread(); i < count; i += grid_threads()) out[i] = 0.0;
}

// Store slopes and curvatures of the losses at the margins z + offset; each, and the offset, is null
// if it is not wanted. Row blockIdx.x of partial (blocks, 3) gets the sums of slopes, losses and
// curvatures.
extern "C" __global__ void __launch_bounds__(256, 4)
row_losses(long long rows, double p1, double p2, const VECTOR* y, const VECTOR* weight,
           const double* offset, const double* z, double* slope, VECTOR* curvature, double* partial) {
  __shared__ double scratch[32];
  double slopes = 0.0, value = 0.0, curvatures = 0.0;
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    const double at = offset ? z[i] + offset[i] : z[i];
    LossTerms terms = mode_at(p1, p2, widen(y[i]), at, weight ? widen(weight[i]) : 1.0);
    if (slope) slope[i] = terms.slope;
    if (curvature) curvature[i] = (VECTOR)terms.curvature;
    slopes += terms.slope;
    value += terms.value;
    curvatures += terms.curvature;
  }
  slopes = block_sum(slopes, scratch);
  value = block_sum(value, scratch);
  curvatures = block_sum(curvatures, scratch);
  if (threadIdx.x == 0) {
    partial[3 * blockIdx.x] = slopes;
    partial[3 * blockIdx.x + 1] = value;
    partial[3 * blockIdx.x + 2] = curvatures;
  }
}

// The loss along combinations of margins, z = c_0 z_0 + ... + c_(k-1) z_(k-1) + c_k + offset, with
// its gradient and Hessian in the coefficients c; the offset is null if there is none. `coefficients` (m, k + 1) has one row per blockIdx.y.
// partial (blocks, m, LENGTH) gets the value, the gradient and the Hessian; k <= MOST_POINTS.
extern "C" __global__ void __launch_bounds__(256)
along(long long rows, double p1, double p2, const VECTOR* y, const VECTOR* weight,
      const double* offset, const double* z0, const double* z1, const double* z2, int k, const double* coefficients,
      double* partial) {
  __shared__ double scratch[32];
  // loops have fixed trip counts, so that these arrays stay in registers
  const double* Z[MOST_POINTS] = {z0, z1, z2};
  double c[SIDE], basis[SIDE], value = 0.0, slopes[SIDE], hessian[SIDE * SIDE];
#pragma unroll
  for (int a = 0; a < SIDE; ++a) {
    c[a] = a <= k ? coefficients[blockIdx.y * (k + 1) + a] : 0.0;
    basis[a] = a == k ? 1.0 : 0.0;
    slopes[a] = 0.0;
#pragma unroll
    for (int b = 0; b < SIDE; ++b) hessian[a * SIDE + b] = 0.0;
  }
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    double z = offset ? offset[i] : 0.0;
#pragma unroll
    for (int a = 0; a < MOST_POINTS; ++a)
      if (a < k) basis[a] = Z[a][i];
#pragma unroll
    for (int a = 0; a < SIDE; ++a) z += c[a] * basis[a];
    LossTerms terms = mode_at(p1, p2, widen(y[i]), z, weight ? widen(weight[i]) : 1.0);
    value += terms.value;
#pragma unroll
    for (int a = 0; a < SIDE; ++a) {
      slopes[a] += terms.slope * basis[a];
#pragma unroll
      for (int b = 0; b < SIDE; ++b)
        hessian[a * SIDE + b] += terms.curvature * basis[a] * basis[b];
    }
  }
  double* out = partial + ((int64)blockIdx.x * gridDim.y + blockIdx.y) * LENGTH;
  value = block_sum(value, scratch);
  if (threadIdx.x == 0) out[0] = value;
#pragma unroll
  for (int a = 0; a < SIDE; ++a) {
    double sum = block_sum(slopes[a], scratch);
    if (threadIdx.x == 0) out[1 + a] = sum;
#pragma unroll
    for (int b = 0; b < SIDE; ++b) {
      double entry = block_sum(hessian[a * SIDE + b], scratch);
      if (threadIdx.x == 0) out[1 + SIDE + a * SIDE + b] = entry;
    }
  }
}
