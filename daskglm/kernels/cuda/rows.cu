// Vectors with one number a row, and sums of what blocks left: nothing here reads X.

#define MOST_POINTS 3
#define SIDE (MOST_POINTS + 1)
#define LENGTH (1 + SIDE + SIDE * SIDE)

// out[j], or with `add` what is there plus, the sum of column j of partial (rows, length). A block a column.
extern "C" __global__ void __launch_bounds__(256)
sum_partials(const double* partial, int rows, int length, double* out, int add, const int* live) {
  if (live && !*live) return;
  __shared__ double scratch[32];
  double sum = 0.0;
  for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += partial[(int64)i * length + blockIdx.x];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) out[blockIdx.x] = (add ? out[blockIdx.x] : 0.0) + sum;
}

// Slopes (null: not wanted) and curvatures (likewise) at the margins z; sums of slopes, losses and curvatures in a row
// of partial (3).
extern "C" __global__ void __launch_bounds__(256)
row_losses(long long rows, int code, double p1, double p2, const VECTOR* y, const VECTOR* weight, const double* z,
           double* slope, VECTOR* curvature, double* partial) {
  __shared__ double scratch[32];
  double slopes = 0.0, value = 0.0, curvatures = 0.0;
  for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += (int64)gridDim.x * blockDim.x) {
    Jet jet = loss_at(code, p1, p2, widen(y[i]), z[i], weight ? widen(weight[i]) : 1.0);
    if (slope) slope[i] = jet.slope;
    if (curvature) curvature[i] = (VECTOR)jet.curvature;
    slopes += jet.slope;
    value += jet.value;
    curvatures += jet.curvature;
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

// Loss on combinations of k margin vectors and a constant, with derivatives in the coefficients; the combination is
// row blockIdx.y of `coefficients` (m, k + 1). Row blockIdx.x of partial holds LENGTH numbers for each combination.
extern "C" __global__ void __launch_bounds__(256)
along(long long rows, int code, double p1, double p2, const VECTOR* y, const VECTOR* weight, const double* z0,
     const double* z1, const double* z2, int k, const double* coefficients, double* partial) {
  __shared__ double scratch[32];
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
  for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += (int64)gridDim.x * blockDim.x) {
    double z = 0.0;
#pragma unroll
    for (int a = 0; a < MOST_POINTS; ++a)
      if (a < k) basis[a] = Z[a][i];
#pragma unroll
    for (int a = 0; a < SIDE; ++a) z += c[a] * basis[a];
    Jet jet = loss_at(code, p1, p2, widen(y[i]), z, weight ? widen(weight[i]) : 1.0);
    value += jet.value;
#pragma unroll
    for (int a = 0; a < SIDE; ++a) {
      slopes[a] += jet.slope * basis[a];
#pragma unroll
      for (int b = 0; b < SIDE; ++b) hessian[a * SIDE + b] += jet.curvature * basis[a] * basis[b];
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
