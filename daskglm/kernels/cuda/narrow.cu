// Dense rows of up to 63 features: a tile of rows in shared memory, a thread for each row. With GRAM the upper triangle
// of [X 1]' D [X 1] comes of the same tile: products in REAL, summed over the tile in REAL and beyond it in double.
//
// What blocks sum up they leave in rows of `partial`, which `sum_partials` adds in their order, so that results do not
// depend on timing: [d gradient entries, sum of slopes, value] and, with the diagonal, d + 1 entries more.
//
// Shared memory: w (d + 1, rounded up to even), slopes and curvatures (one a thread), 32 numbers of scratch, then two
// tiles: while one is worked on the next is on its way (with GRAM one, whose other blocks have work meanwhile). Rows of
// a tile are `apart` values apart; with `chunked` they consist of chunks of 16 bytes, and `apart` is a multiple of such.
// `_tile` and `_narrow_shared` in dense.py say how far, and how many bytes that makes.

#define CHUNK (16 / (int)sizeof(REAL))

struct __align__(16) Chunk {
  REAL value[CHUNK];
};

// Starts the copy of `count` rows into a tile.
__device__ inline void fetch(REAL* tile, const REAL* from, int count, int d, int apart, bool chunks) {
  const int width = chunks ? CHUNK : 1, a_row = d / width;
  const int step_rows = blockDim.x / a_row, step_columns = blockDim.x % a_row;
  int r = threadIdx.x / a_row, c = threadIdx.x % a_row;
  for (int k = threadIdx.x; k < count * a_row; k += blockDim.x) {
    if (chunks)
      COPY_ASYNC(tile + r * apart + c * CHUNK, from + k * CHUNK, 16);
    else
      COPY_ASYNC(tile + r * apart + c, from + k, sizeof(REAL));
    r += step_rows;
    c += step_columns;
    if (c >= a_row) {
      c -= a_row;
      ++r;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
dense_narrow(const REAL* X, long long rows, int d, int apart, int chunked, const double* w, int intercept, int mode,
             const VECTOR* y, const VECTOR* weight, double* z, VECTOR* curvature, double* partial, int diagonal,
             double* gram, const int* live) {
  if (live && !*live) return;
  const int threads = blockDim.x, me = threadIdx.x, m = (d + 4) / 4;
  const bool chunks = !GRAM && chunked;
  DYNAMIC_SHARED(double, shared);
  double *coefficients = shared, *slopes = coefficients + (d + 2) / 2 * 2, *curvatures = slopes + threads;
  double* scratch = curvatures + threads;
  REAL* tile = reinterpret_cast<REAL*>(scratch + 32);
  for (int j = me; j <= d; j += threads) coefficients[j] = j < d ? w[j] : (intercept ? w[d] : 0.0);
  const int columns = threads / d, column = me % d, share = me / d;  // d <= 63 < threads
  double gradient = 0.0, squares = 0.0, value = 0.0, slope_sum = 0.0, curvature_sum = 0.0;

  // a thread's 4 x 4 entries of the Gram, one of the upper triangle's m (m + 1) / 2 such blocks, over a share of rows
  const int corners = m * (m + 1) / 2, shares = threads / corners, corner = me % corners, part = me / corners;
  int left = 0, right = 0;
  double entries[GRAM ? 16 : 1];
  if (GRAM) {
    int at = corner;
    while (at >= m - left) at -= m - left++;
    right = left + at;
    for (int k = 0; k < 16; ++k) entries[k] = 0.0;
    for (int k = me; k < threads * apart; k += threads) tile[k] = (REAL)0;  // the padding stays zero
  }

  const int64 stride = (int64)gridDim.x * threads;
  int64 first = (int64)blockIdx.x * threads;
  if (GRAM) __syncthreads();
  if (first < rows) fetch(tile, X + first * d, rows - first < threads ? rows - first : threads, d, apart, chunks);
  COMMIT_COPIES();
  for (int turn = 0; first < rows; first += stride, ++turn) {
    const int count = (int)(rows - first < threads ? rows - first : threads);
    const int64 next = first + stride;
    const int coming = (int)(next >= rows ? 0 : (rows - next < threads ? rows - next : threads));
#if GRAM
    WAIT_FOR_COPIES_BUT(0);
#else
    REAL* other = reinterpret_cast<REAL*>(scratch + 32) + (turn + 1) % 2 * threads * apart;
    tile = reinterpret_cast<REAL*>(scratch + 32) + turn % 2 * threads * apart;
    if (coming) fetch(other, X + next * d, coming, d, apart, chunks);
    COMMIT_COPIES();
    WAIT_FOR_COPIES_BUT(1);
#endif
    __syncthreads();
    Row row = {0.0, 0.0, 0.0};
    if (me < count) {
      double u = coefficients[d];
      if (chunks) {
        const Chunk* x = reinterpret_cast<const Chunk*>(tile + me * apart);
        for (int k = 0; k < d / CHUNK; ++k) {
          const Chunk part = x[k];
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) u += coefficients[k * CHUNK + j] * (double)part.value[j];
        }
      } else {
        for (int j = 0; j < d; ++j) u += coefficients[j] * (double)tile[me * apart + j];
      }
      row = visit<VECTOR>(mode, y, weight, z, nullptr, curvature, first + me, u);
      if (GRAM) tile[me * apart + d] = (REAL)1;
    }
    slopes[me] = row.slope;
    curvatures[me] = row.curvature;
    value += row.value;
    slope_sum += row.slope;
    curvature_sum += row.curvature;
    __syncthreads();
    if (share < columns)
      for (int t = share; t < count; t += columns) {
        double x = tile[t * apart + column];
        gradient += slopes[t] * x;
        if (diagonal) squares += curvatures[t] * (x * x);
      }
    if (GRAM && part < shares) {
      REAL sums[16];
      for (int k = 0; k < 16; ++k) sums[k] = (REAL)0;
      for (int t = part; t < count; t += shares) {
        const REAL *a = tile + t * apart + 4 * left, *b = tile + t * apart + 4 * right;
        REAL scaled[4] = {(REAL)curvatures[t] * a[0], (REAL)curvatures[t] * a[1], (REAL)curvatures[t] * a[2],
                          (REAL)curvatures[t] * a[3]};
#pragma unroll
        for (int k = 0; k < 16; ++k) sums[k] += scaled[k / 4] * b[k % 4];
      }
      for (int k = 0; k < 16; ++k) entries[k] += (double)sums[k];
    }
    __syncthreads();
#if GRAM
    if (coming) fetch(tile, X + next * d, coming, d, apart, chunks);
    COMMIT_COPIES();
#endif
  }

  const int length = diagonal ? 2 * d + 3 : d + 2;
  double* out = partial + (int64)blockIdx.x * length;
  for (int turn = 0; turn < (diagonal ? 2 : 1); ++turn) {
    __syncthreads();
    slopes[me] = turn ? squares : gradient;
    __syncthreads();
    if (me < d) {
      double sum = 0.0;
      for (int s = 0; s < columns; ++s) sum += slopes[s * d + me];
      out[turn ? d + 2 + me : me] = sum;
    }
  }
  slope_sum = block_sum(slope_sum, scratch);
  value = block_sum(value, scratch);
  if (me == 0) {
    out[d] = slope_sum;
    out[d + 1] = value;
  }
  if (diagonal) {
    curvature_sum = block_sum(curvature_sum, scratch);
    if (me == 0) out[2 * d + 2] = curvature_sum;
  }
  if (GRAM) {
    const int side = 4 * m;
    for (int k = 0; k < 16; ++k) {
      __syncthreads();
      slopes[me] = entries[k];
      __syncthreads();
      if (me < corners) {
        double sum = 0.0;
        for (int s = 0; s < shares; ++s) sum += slopes[s * corners + me];
        gram[((int64)blockIdx.x * side + 4 * left + k / 4) * side + 4 * right + k % 4] = sum;
      }
    }
  }
}
