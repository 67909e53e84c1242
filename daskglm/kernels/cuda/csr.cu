// Sparse rows: CSR, and also CSC where memory allows. `lanes` neighbouring lanes of a warp share a
// row, or a segment of a column. With `pattern` all stored values equal data[0]. INDEX is the dtype
// of indices.
//
// Column sums are taken over segments of columns, so that a frequent column does not occupy one
// warp for long. The sums of segments are added in order: results do not depend on timing. Without
// the CSC copy rows are scattered by atomics, and results do depend on it. With DIAGONAL the
// kernels of column sums also add up curvature * x^2, the Hessian's diagonal, from the same read.

#ifndef DIAGONAL
#define DIAGONAL 0
#endif

// Margins, each passed to `finish_row`. Row blockIdx.x of partial (blocks, 3) gets the sums of
// slopes, of values and of curvatures.
extern "C" __global__ void __launch_bounds__(256, MODE < 0 ? 5 : 4)
csr_forward(const REAL* data, const INDEX* indices, const INDEX* indptr, int pattern,
            long long rows, int lanes, int d, const double* w, int intercept, double p1, double p2,
            const VECTOR* y, const VECTOR* weight, const double* offset, double* z, double* slope,
            VECTOR* curvature, double* partial, const int* live) {
  if (live && !*live) return;
  const int in_warp = 32 / lanes, lane = threadIdx.x % lanes;
  const int64 warp = grid_thread() / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32) * in_warp;
  const double b = intercept ? w[d] : 0.0;
  double slopes = 0.0, value = 0.0, curvatures = 0.0;
  for (int64 base = warp * in_warp; base < rows; base += all) {
    const int64 i = base + threadIdx.x % 32 / lanes;
    double u = 0.0;
    if (i < rows) {
      const int64 stop = indptr[i + 1];
      if (pattern) {
#pragma unroll 4
        for (int64 p = indptr[i] + lane; p < stop; p += lanes) u += w[indices[p]];
      } else {
#pragma unroll 4
        for (int64 p = indptr[i] + lane; p < stop; p += lanes) u += widen(data[p]) * w[indices[p]];
      }
    }
    u = lane_sum(u, lanes);
    if (pattern) u *= widen(data[0]);
    u += b;
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

// Add r x, and with DIAGONAL curvature * x^2, over the entries `from`, `from` + lanes, ... of a
// column. With PATTERN x counts as one, and the caller multiplies the sum. The loop is unrolled so
// that the gathers of four entries are under way together.
template <bool PATTERN>
__device__ inline void add_entries(const REAL* data, const INDEX* rows, int64 from, int64 stop,
                                   int lanes, const double* r, const VECTOR* curvature, double& sum,
                                   double& square) {
#pragma unroll 4
  for (int64 p = from; p < stop; p += lanes) {
    const INDEX i = rows[p];
    const double x = PATTERN ? 1.0 : widen(data[p]);
    sum += r[i] * x;
    if (DIAGONAL) square += widen(curvature[i]) * (x * x);
  }
}

// Sums of r x, and with DIAGONAL of curvature * x^2 into `squares`, over segments of columns.
// Segment s has the entries starts[s] to starts[s + 1].
extern "C" __global__ void __launch_bounds__(256, 6)
csc_segments(const REAL* data, const INDEX* rows, int pattern, const long long* starts,
             long long segments, int lanes, const double* r, const VECTOR* curvature, double* sums,
             double* squares, const int* live) {
  if (live && !*live) return;
  const int in_warp = 32 / lanes, lane = threadIdx.x % lanes;
  const int64 warp = grid_thread() / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32) * in_warp;
  for (int64 base = warp * in_warp; base < segments; base += all) {
    const int64 s = base + threadIdx.x % 32 / lanes;
    double sum = 0.0, square = 0.0;
    if (s < segments) {
      const int64 from = starts[s] + lane, stop = starts[s + 1];
      if (pattern)
        add_entries<true>(data, rows, from, stop, lanes, r, curvature, sum, square);
      else
        add_entries<false>(data, rows, from, stop, lanes, r, curvature, sum, square);
    }
    sum = lane_sum(sum, lanes);
    if (DIAGONAL) square = lane_sum(square, lanes);
    if (s >= segments || lane != 0) continue;
    const double value = pattern ? widen(data[0]) : 1.0;
    sums[s] = sum * value;
    if (DIAGONAL) squares[s] = square * (value * value);
  }
}

// Add the sums of segments to `out`, and with DIAGONAL `squares` to `diagonal`. Column j has the
// segments first[j] to first[j + 1]; four lanes share it.
extern "C" __global__ void __launch_bounds__(256)
csc_columns(const double* sums, const double* squares, const INDEX* first, long long columns,
            double* out, double* diagonal, const int* live) {
  if (live && !*live) return;
  const int lane = threadIdx.x % 4;
  const int64 all = (int64)gridDim.x * (blockDim.x / 4);
  const int64 start = grid_thread() / 32 * 8;
  for (int64 base = start; base < columns; base += all) {
    const int64 j = base + threadIdx.x % 32 / 4;
    double sum = 0.0, square = 0.0;
    if (j < columns)
      for (int64 s = first[j] + lane; s < first[j + 1]; s += 4) {
        sum += sums[s];
        if (DIAGONAL) square += squares[s];
      }
    sum = lane_sum(sum, 4);
    if (DIAGONAL) square = lane_sum(square, 4);
    if (j >= columns || lane != 0) continue;
    out[j] += sum;
    if (DIAGONAL) diagonal[j] += square;
  }
}

// Add X' r to `out`, and with DIAGONAL X.^2' curvature to `diagonal`, by atomics.
extern "C" __global__ void __launch_bounds__(256)
csr_scatter(const REAL* data, const INDEX* indices, const INDEX* indptr, int pattern,
            long long rows, int lanes, const double* r, const VECTOR* curvature, double* out,
            double* diagonal, const int* live) {
  if (live && !*live) return;
  const int lane = threadIdx.x % lanes;
  const int64 all = (int64)gridDim.x * (blockDim.x / lanes);
  for (int64 i = grid_thread() / lanes; i < rows; i += all) {
    const double s = r[i], c = DIAGONAL ? widen(curvature[i]) : 0.0;
    if (s == 0.0 && c == 0.0) continue;
    const int64 stop = indptr[i + 1];
#pragma unroll 4
    for (int64 p = indptr[i] + lane; p < stop; p += lanes) {
      const double x = widen(data[pattern ? 0 : p]);
      atomicAdd(out + indices[p], s * x);
      if (DIAGONAL) atomicAdd(diagonal + indices[p], c * (x * x));
    }
  }
}

// sqrt(D) [X 1] as dense rows of `side` columns, one warp per row. `out` must be zero before.
extern "C" __global__ void __launch_bounds__(256)
csr_scaled(const REAL* data, const INDEX* indices, const INDEX* indptr, int pattern, long long rows,
           int d, int side, const VECTOR* curvature, SCALED* out) {
  const int lane = threadIdx.x % 32;
  const int64 first = (int64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32);
  for (int64 i = first; i < rows; i += all) {
    const SCALED root = (SCALED)sqrt(widen(curvature[i]));
    for (int64 p = indptr[i] + lane; p < indptr[i + 1]; p += 32)
      out[i * side + indices[p]] = scaled(root, data[pattern ? 0 : p]);
    if (lane == 0) out[i * side + d] = root;
  }
}

// Squared norms of rows, and their largest and sum, as `dense_norms`.
extern "C" __global__ void __launch_bounds__(256)
csr_norms(const REAL* data, const INDEX* indptr, int pattern, long long rows, double* norms,
          double* partial) {
  __shared__ double scratch[32];
  double most = 0.0, total = 0.0;
  for (int64 i = grid_thread(); i < rows; i += grid_threads()) {
    double norm = 0.0;
    for (int64 p = indptr[i]; p < indptr[i + 1]; ++p) {
      double x = widen(data[pattern ? 0 : p]);
      norm += x * x;
    }
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
