// Sparse rows: CSR, and CSC beside it where memory allows. `lanes` neighbouring lanes of a warp share a row, or a
// segment of a column. With `pattern` all stored values equal data[0]. INDEX is the dtype of indices.
//
// Column sums are taken in segments, so that a frequent column does not keep one warp busy for long; their sums are
// added in order, so that results do not depend on timing. Without the CSC rows are scattered by atomics, which do.

// Margins and what `visit` makes of them. A row of partial: sums of slopes, of values and of curvatures.
extern "C" __global__ void __launch_bounds__(256)
csr_forward(const REAL* data, const INDEX* indices, const INDEX* indptr, int pattern, long long rows, int lanes, int d,
            const double* w, int intercept, int mode, const VECTOR* y, const VECTOR* weight, double* z, double* slope,
            VECTOR* curvature, double* partial, const int* live) {
  if (live && !*live) return;
  __shared__ double scratch[32];
  const int in_warp = 32 / lanes, lane = threadIdx.x % lanes;
  const int64 warp = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32) * in_warp;
  const double b = intercept ? w[d] : 0.0;
  double slopes = 0.0, value = 0.0, curvatures = 0.0;
  for (int64 base = warp * in_warp; base < rows; base += all) {
    const int64 i = base + threadIdx.x % 32 / lanes;
    double u = 0.0;
    if (i < rows) {
      const int64 stop = indptr[i + 1];
      if (pattern)
        for (int64 p = indptr[i] + lane; p < stop; p += lanes) u += w[indices[p]];
      else
        for (int64 p = indptr[i] + lane; p < stop; p += lanes) u += (double)data[p] * w[indices[p]];
    }
    u = lane_sum(u, lanes);
    if (pattern) u *= (double)data[0];
    u += b;
    if (i >= rows || lane != 0) continue;
    Row row = visit<VECTOR>(mode, y, weight, z, slope, curvature, i, u);
    slopes += row.slope;
    value += row.value;
    curvatures += row.curvature;
  }
  if (mode == FORWARD) return;
  slopes = block_sum(slopes, scratch);
  value = block_sum(value, scratch);
  curvatures = block_sum(curvatures, scratch);
  if (threadIdx.x == 0) {
    partial[3 * blockIdx.x] = slopes;
    partial[3 * blockIdx.x + 1] = value;
    partial[3 * blockIdx.x + 2] = curvatures;
  }
}

// Sums of r x, or with power 2 of r x^2, over the segments of columns that `starts` (segments + 1) cuts.
extern "C" __global__ void __launch_bounds__(256)
csc_segments(const REAL* data, const INDEX* rows, int pattern, const long long* starts, long long segments, int lanes,
             const VECTOR* r, int power, double* sums, const int* live) {
  if (live && !*live) return;
  const int in_warp = 32 / lanes, lane = threadIdx.x % lanes;
  const int64 warp = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32) * in_warp;
  for (int64 base = warp * in_warp; base < segments; base += all) {
    const int64 s = base + threadIdx.x % 32 / lanes;
    double sum = 0.0;
    if (s < segments)
      for (int64 p = starts[s] + lane; p < starts[s + 1]; p += lanes) {
        double x = (double)data[pattern ? 0 : p];
        sum += (double)r[rows[p]] * (power == 2 ? x * x : x);
      }
    sum = lane_sum(sum, lanes);
    if (s < segments && lane == 0) sums[s] = sum;
  }
}

// Column sums from those of segments, added to `out`; column j has the segments first[j] to first[j + 1].
extern "C" __global__ void __launch_bounds__(256)
csc_columns(const double* sums, const INDEX* first, long long columns, double* out, int add, const int* live) {
  if (live && !*live) return;
  const int lane = threadIdx.x % 4;
  const int64 all = (int64)gridDim.x * (blockDim.x / 4);
  const int64 start = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * 8;
  for (int64 base = start; base < columns; base += all) {
    const int64 j = base + threadIdx.x % 32 / 4;
    double sum = 0.0;
    if (j < columns)
      for (int64 s = first[j] + lane; s < first[j + 1]; s += 4) sum += sums[s];
    sum = lane_sum(sum, 4);
    if (j < columns && lane == 0) out[j] = (add ? out[j] : 0.0) + sum;
  }
}

// X' r, or X.^2' r, added to `out` by atomics.
extern "C" __global__ void __launch_bounds__(256)
csr_scatter(const REAL* data, const INDEX* indices, const INDEX* indptr, int pattern, long long rows, int lanes,
            const VECTOR* r, int power, double* out, const int* live) {
  if (live && !*live) return;
  const int lane = threadIdx.x % lanes;
  const int64 all = (int64)gridDim.x * (blockDim.x / lanes);
  for (int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / lanes; i < rows; i += all) {
    const double s = (double)r[i];
    if (s == 0.0) continue;
    for (int64 p = indptr[i] + lane; p < indptr[i + 1]; p += lanes) {
      double x = (double)data[pattern ? 0 : p];
      atomicAdd(out + indices[p], s * (power == 2 ? x * x : x));
    }
  }
}

// sqrt(D) [X 1] as dense rows, into zeros, a warp a row.
extern "C" __global__ void __launch_bounds__(256)
csr_scaled(const REAL* data, const INDEX* indices, const INDEX* indptr, int pattern, long long rows, int d,
           const VECTOR* curvature, SCALED* out) {
  const int lane = threadIdx.x % 32;
  const int64 all = (int64)gridDim.x * (blockDim.x / 32);
  for (int64 i = (int64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < rows; i += all) {
    const SCALED root = (SCALED)sqrt((double)curvature[i]);
    for (int64 p = indptr[i] + lane; p < indptr[i + 1]; p += 32)
      out[i * (d + 1) + indices[p]] = root * (SCALED)data[pattern ? 0 : p];
    if (lane == 0) out[i * (d + 1) + d] = root;
  }
}

// As dense_norms.
extern "C" __global__ void __launch_bounds__(256)
csr_norms(const REAL* data, const INDEX* indptr, int pattern, long long rows, double* norms, double* partial) {
  __shared__ double scratch[32];
  double most = 0.0, total = 0.0;
  for (int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += (int64)gridDim.x * blockDim.x) {
    double norm = 0.0;
    for (int64 p = indptr[i]; p < indptr[i + 1]; ++p) {
      double x = (double)data[pattern ? 0 : p];
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
