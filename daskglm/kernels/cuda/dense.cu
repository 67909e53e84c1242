// Dense rows of any width: one product per launch, and the scaled rows from which cuBLAS forms a
// Hessian.

// Margins, one warp per row, each passed to `finish_row`. partial (blocks, 2) gets the sums of
// slopes and of values.
extern "C" __global__ void __launch_bounds__(256)
dense_forward(const REAL* X, long long rows, int d, const double* w, int intercept, double p1,
              double p2, const VECTOR* y, const VECTOR* weight, const double* offset, double* z,
              double* slope, VECTOR* curvature, double* partial, const int* live) {
  if (live && !*live) return;
  const int lane = threadIdx.x % 32;
  const int64 first = (int64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32);
  const double b = intercept ? w[d] : 0.0;
  double slopes = 0.0, value = 0.0;
  for (int64 i = first; i < rows; i += all) {
    double u = 0.0;
#pragma unroll 4
    for (int j = lane; j < d; j += 32) u += widen(X[i * d + j]) * w[j];
    u = lane_sum(u, 32) + b;
    if (lane != 0) continue;
    Row row = finish_row<VECTOR>(p1, p2, y, weight, offset, z, slope, curvature, i, u);
    slopes += row.slope;
    value += row.value;
  }
#if MODE != FORWARD
  __shared__ double scratch[32];
  slopes = block_sum(slopes, scratch);
  value = block_sum(value, scratch);
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.x] = slopes;
    partial[2 * blockIdx.x + 1] = value;
  }
#endif
}

// X' r and the sum of r; unless `curvature` is null, also X.^2' curvature and the sum of
// curvatures. One thread per column and run of rows. Row blockIdx.x of partial has d + 1 entries,
// or twice as many with curvatures.
extern "C" __global__ void __launch_bounds__(256)
dense_backward(const REAL* X, long long rows, int d, const double* r, const VECTOR* curvature,
               double* partial, const int* live) {
  if (live && !*live) return;
  const int j = blockIdx.y * blockDim.x + threadIdx.x;
  if (j > d) return;
  const int64 from = rows * blockIdx.x / gridDim.x;
  const int64 to = rows * (blockIdx.x + 1) / gridDim.x;
  double sum = 0.0, square = 0.0;
  if (curvature) {
#pragma unroll 4
    for (int64 i = from; i < to; ++i) {
      const double x = j < d ? widen(X[i * d + j]) : 1.0;
      sum += r[i] * x;
      square += widen(curvature[i]) * (x * x);
    }
  } else {
#pragma unroll 4
    for (int64 i = from; i < to; ++i) sum += r[i] * (j < d ? widen(X[i * d + j]) : 1.0);
  }
  double* out = partial + (int64)blockIdx.x * (curvature ? 2 * (d + 1) : d + 1);
  out[j] = sum;
  if (curvature) out[d + 1 + j] = square;
}

// sqrt(D) [X 1], padded with zeros to `side` columns; one warp per row.
extern "C" __global__ void __launch_bounds__(256)
dense_scaled(const REAL* X, long long rows, int d, int side, const VECTOR* curvature, SCALED* out) {
  const int lane = threadIdx.x % 32;
  const int64 first = (int64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32);
  for (int64 i = first; i < rows; i += all) {
    const SCALED root = (SCALED)sqrt(widen(curvature[i]));
    for (int j = lane; j < side; j += 32)
      out[i * side + j] = j < d ? scaled(root, X[i * d + j]) : (j == d ? root : (SCALED)0);
  }
}

// Squared norms of rows (null: not wanted). partial (blocks, 2) gets the largest and the sum. The
// sum is not finite if a value or its square is not.
extern "C" __global__ void __launch_bounds__(256)
dense_norms(const REAL* X, long long rows, int d, double* norms, double* partial) {
  __shared__ double scratch[32];
  const int lane = threadIdx.x % 32;
  const int64 first = (int64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32);
  double most = 0.0, total = 0.0;
  for (int64 i = first; i < rows; i += all) {
    double norm = 0.0;
#pragma unroll 4
    for (int j = lane; j < d; j += 32) {
      double x = widen(X[i * d + j]);
      norm += x * x;
    }
    norm = lane_sum(norm, 32);
    if (lane == 0) {
      total += norm;
      most = larger(most, norm);
      if (norms) norms[i] = norm;
    }
  }
  total = block_sum(total, scratch);
  most = block_largest(most, scratch);
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.x] = most;
    partial[2 * blockIdx.x + 1] = total;
  }
}
