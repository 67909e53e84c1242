// Rows of codes beside numbers. Kernels gather and scatter by level, and know of no contrasts: the
// tables are multiplied by coefficients before, and by the sums of levels after. Those sums are made
// by atomics: results depend on timing. Sums of numbers are those of dense rows.

#ifndef DIAGONAL
#define DIAGONAL 0
#endif

// The type of the codes of a kind.
#ifndef LEVEL_CODE
#define LEVEL_CODE unsigned char
#endif

// Margins, each passed to `finish_row`, as `csr_forward`: `levels` has the product of each level,
// and w the coefficients of numbers, then the intercept. `lanes` neighbouring lanes share a row.
extern "C" __global__ void __launch_bounds__(256, MODE < 0 ? 5 : 4)
coded_forward(const unsigned char* narrow, const unsigned short* middle, const unsigned* wide,
              const REAL* floats, const long long* first, int p, int q, int r, int k,
              long long rows, int lanes, const double* levels, const double* w, int intercept,
              double p1, double p2, const VECTOR* y, const VECTOR* weight, const double* offset,
              double* z, double* slope, VECTOR* curvature, double* partial, const int* live) {
  if (live && !*live) return;
  const CodedRows X = {narrow, middle, wide, floats, first, p, q, r, k};
  const int in_warp = 32 / lanes, lane = threadIdx.x % lanes;
  const int64 warp = grid_thread() / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32) * in_warp;
  const double b = intercept ? w[k] : 0.0;
  double slopes = 0.0, value = 0.0, curvatures = 0.0;
  for (int64 base = warp * in_warp; base < rows; base += all) {
    const int64 i = base + threadIdx.x % 32 / lanes;
    double u = 0.0;
    if (i < rows) {
#pragma unroll 4
      for (int j = lane; j < r; j += lanes) u += levels[level_of(X, i, j)];
#pragma unroll 4
      for (int j = lane; j < k; j += lanes) u += widen(floats[i * k + j]) * w[j];
    }
    u = lane_sum(u, lanes) + b;
    if (i >= rows || lane != 0) continue;
    Row row = finish_row<VECTOR>(p1, p2, y, weight, offset, z, slope, curvature, i, u);
    slopes += row.slope;
    value += row.value;
    curvatures += row.curvature;
  }
#if MODE != FORWARD
  __shared__ double scratch[32];
  slopes = block_sum(slopes, scratch);
  value = block_sum(value, scratch);
  curvatures = block_sum(curvatures, scratch);
  if (threadIdx.x == 0) {
    partial[3 * blockIdx.x] = slopes;
    partial[3 * blockIdx.x + 1] = value;
    partial[3 * blockIdx.x + 2] = curvatures;
  }
#endif
}

// Add r, and with DIAGONAL curvature, of each row to `sums` and `squares` of its levels in the code
// columns of one kind. The levels from `base` on that a block has room for, `near` of them, are added
// up in shared memory first, in several copies, so that threads seldom meet at the same number.
extern "C" __global__ void __launch_bounds__(256)
coded_scatter(const LEVEL_CODE* codes, const long long* first, int columns, long long rows,
              const double* r, const VECTOR* curvature, long long base, int near, int copies,
              double* sums, double* squares, const int* live) {
  if (live && !*live) return;
  DYNAMIC_SHARED(double, shared);
  const int apart = near * copies;
  for (int k = threadIdx.x; k < (1 + DIAGONAL) * apart; k += blockDim.x) shared[k] = 0.0;
  __syncthreads();
  double* const own = shared + threadIdx.x % copies;
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    const double s = r[i], c = DIAGONAL ? widen(curvature[i]) : 0.0;
    if (s == 0.0 && c == 0.0) continue;
    for (int j = 0; j < columns; ++j) {
      const int64 level = first[j] + codes[i * columns + j];
      if (near) {
        double* const at = own + (level - base) * copies;
        atomicAdd(at, s);
        if (DIAGONAL) atomicAdd(at + apart, c);
      } else {
        atomicAdd(sums + level, s);
        if (DIAGONAL) atomicAdd(squares + level, c);
      }
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < near; k += blockDim.x) {
    double sum = 0.0, square = 0.0;
    for (int copy = 0; copy < copies; ++copy) {
      sum += shared[k * copies + copy];
      if (DIAGONAL) square += shared[apart + k * copies + copy];
    }
    if (sum != 0.0) atomicAdd(sums + base + k, sum);
    if (DIAGONAL && square != 0.0) atomicAdd(squares + base + k, square);
  }
}

// sqrt(D) [X 1] as dense rows of `side` columns, one warp per row. `out` must be zero before.
extern "C" __global__ void __launch_bounds__(256)
coded_scaled(const unsigned char* narrow, const unsigned short* middle, const unsigned* wide,
             const REAL* floats, const long long* first, int p, int q, int r, int k,
             long long rows, const INDEX* indptr, const INDEX* columns, const double* values,
             int width, int side, const VECTOR* curvature, SCALED* out) {
  const CodedRows X = {narrow, middle, wide, floats, first, p, q, r, k};
  const LevelTables tables = {indptr, columns, values, width};
  const int lane = threadIdx.x % 32;
  const int64 all = grid_threads() / 32;
  for (int64 i = grid_thread() / 32; i < rows; i += all) {
    const double root = sqrt(widen(curvature[i]));
    SCALED* const row = out + i * side;
    each_value(X, tables, i, lane, 32, [=](int64 j, double x) { row[j] = (SCALED)(root * x); });
    if (lane == 0) row[width + k] = (SCALED)root;
  }
}

// Squared norms of rows, and their largest and sum, as `dense_norms`.
extern "C" __global__ void __launch_bounds__(256)
coded_norms(const unsigned char* narrow, const unsigned short* middle, const unsigned* wide,
            const REAL* floats, const long long* first, int p, int q, int r, int k, long long rows,
            const INDEX* indptr, const INDEX* columns, const double* values, int width,
            double* norms, double* partial) {
  __shared__ double scratch[32];
  const CodedRows X = {narrow, middle, wide, floats, first, p, q, r, k};
  const LevelTables tables = {indptr, columns, values, width};
  double most = 0.0, total = 0.0;
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    double norm = 0.0;
    each_value(X, tables, i, 0, 1, [&norm](int64, double x) { norm += x * x; });
    total += norm;
    most = larger(most, norm);
    if (norms) norms[i] = norm;
  }
  total = block_sum(total, scratch);
  most = block_largest(most, scratch);
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.x] = most;
    partial[2 * blockIdx.x + 1] = total;
  }
}
