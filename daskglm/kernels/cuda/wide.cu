// Dense rows of up to 32 * EACH features: a warp holds a row in its registers, EACH values a lane, so that one read
// serves both products. With DIAGONAL the Hessian's diagonal comes of it too.
// What blocks sum up they leave in rows of `partial`, which `sum_partials` adds in their order, so that results do not
// depend on timing: [d gradient entries, sum of slopes, value] and, with the diagonal, d + 1 entries more.

extern "C" __global__ void __launch_bounds__(256)
dense_wide(const REAL* X, long long rows, int d, const double* w, int intercept, int mode, double p1, double p2,
           const VECTOR* y, const VECTOR* weight, double* z, VECTOR* curvature, double* partial, const int* live) {
  if (live && !*live) return;
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int64 warp = (int64)blockIdx.x * warps + threadIdx.x / 32, all = (int64)gridDim.x * warps;
  double gradient[EACH], squares[DIAGONAL ? EACH : 1], value = 0.0, slope_sum = 0.0, curvature_sum = 0.0;
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
    for (int k = 0; k < EACH; ++k) held[k] = lane + 32 * k < d ? x[lane + 32 * k] : (REAL)0;
#pragma unroll
    for (int k = 0; k < EACH; ++k)
      if (lane + 32 * k < d) u += widen(held[k]) * w[lane + 32 * k];
    for (int step = 16; step > 0; step /= 2) u += __shfl_xor_sync(EVERY_LANE, u, step);
    // every lane writes the same numbers to the same places
    Row row = visit<VECTOR>(mode, p1, p2, y, weight, z, nullptr, curvature, i, u + b);
    value += row.value;
    slope_sum += row.slope;
    curvature_sum += row.curvature;
#pragma unroll
    for (int k = 0; k < EACH; ++k) gradient[k] += row.slope * widen(held[k]);
    if (DIAGONAL)
#pragma unroll
      for (int k = 0; k < EACH; ++k) squares[k] += row.curvature * (widen(held[k]) * widen(held[k]));
  }
  // the warps of a block add up in shared memory, one after the other
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
  for (int j = threadIdx.x; j < length; j += blockDim.x) partial[(int64)blockIdx.x * length + j] = sums[j];
}
