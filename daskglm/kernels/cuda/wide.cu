// Dense rows of up to 32 * EACH features. A warp holds a row in registers, EACH values per lane, so
// that one read of X serves X w and X' r. With DIAGONAL the same read gives the Hessian's diagonal.
//
// Each block leaves its sums in a row of `partial`, and `sum_partials` adds the rows in order:
// results do not depend on timing. A row has [d entries of the gradient, sum of slopes, value] and,
// with DIAGONAL, d + 1 more entries.

extern "C" __global__ void __launch_bounds__(256)
dense_wide(const REAL* X, long long rows, int d, const double* w, int intercept, double p1,
           double p2, const VECTOR* y, const VECTOR* weight, const double* offset, double* z,
           VECTOR* curvature, double* partial, const int* live) {
  if (live && !*live) return;
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int64 warp = (int64)blockIdx.x * warps + threadIdx.x / 32;
  const int64 all = (int64)gridDim.x * warps;
  double gradient[EACH], squares[DIAGONAL ? EACH : 1];
  double value = 0.0, slope_sum = 0.0, curvature_sum = 0.0;
#pragma unroll
  for (int k = 0; k < EACH; ++k) gradient[k] = 0.0;
  if (DIAGONAL)
#pragma unroll
    for (int k = 0; k < EACH; ++k) squares[k] = 0.0;
  const double b = intercept ? w[d] : 0.0;
  for (int64 i = warp; i < rows; i += all) {
    const REAL* x = X + i * d;
    REAL held[EACH];
    double u = 0.0;
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      held[k] = lane + 32 * k < d ? x[lane + 32 * k] : (REAL)0;
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      if (lane + 32 * k < d) u += widen(held[k]) * w[lane + 32 * k];
    // by exclusive or, so that every lane gets the sum
    for (int step = 16; step > 0; step /= 2) u += __shfl_xor_sync(EVERY_LANE, u, step);
    // Every lane writes the same numbers to the same places. That is harmless, and all lanes need
    // the slope.
    Row row =
        finish_row<VECTOR>(p1, p2, y, weight, offset, z, nullptr, curvature, i, u + b);
    value += row.value;
    slope_sum += row.slope;
    curvature_sum += row.curvature;
    // A row that adds nothing is passed over. Without this branch 200 bytes are spilled where sums
    // take half of the registers.
    if (EACH > 32 && row.slope == 0.0 && row.curvature == 0.0) continue;
#pragma unroll
    for (int k = 0; k < EACH; ++k) gradient[k] += row.slope * widen(held[k]);
    if (DIAGONAL)
#pragma unroll
      for (int k = 0; k < EACH; ++k)
        squares[k] += row.curvature * (widen(held[k]) * widen(held[k]));
  }
  // Warps add to shared memory one after the other, in a fixed order.
  DYNAMIC_SHARED(double, sums);
  const int length = DIAGONAL ? 2 * d + 3 : d + 2;
  for (int turn = 0; turn < warps; ++turn) {
    __syncthreads();
    if (threadIdx.x / 32 != turn) continue;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
      const int j = lane + 32 * k;
      if (j < d) {
        sums[j] = (turn ? sums[j] : 0.0) + gradient[k];
        if (DIAGONAL) sums[d + 2 + j] = (turn ? sums[d + 2 + j] : 0.0) + squares[k];
      }
    }
    if (lane == 0) {
      sums[d] = (turn ? sums[d] : 0.0) + slope_sum;
      sums[d + 1] = (turn ? sums[d + 1] : 0.0) + value;
      if (DIAGONAL) sums[2 * d + 2] = (turn ? sums[2 * d + 2] : 0.0) + curvature_sum;
    }
  }
  __syncthreads();
  for (int j = threadIdx.x; j < length; j += blockDim.x)
    partial[(int64)blockIdx.x * length + j] = sums[j];
}
