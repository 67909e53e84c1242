// Dense rows of up to 63 features: a tile of rows is in shared memory, and each thread has a row of
// it. With GRAM the upper triangle of [X 1]' D [X 1] is formed from the same tile: products are in
// REAL, summed over the tile in REAL, and over tiles in double.
//
// Each block leaves its sums in a row of `partial`, and `sum_partials` adds the rows in order:
// results do not depend on timing. A row has [d entries of the gradient, sum of slopes, value] and,
// with `diagonal`, d + 1 more entries.
//
// Shared memory holds, in this order:
//
// - w and the intercept: 4 m numbers with GRAM, else d + 1, rounded up to even;
// - slopes, then curvatures: one per thread each;
// - 32 numbers of scratch;
// - two tiles, of which one is copied while the other is in use; with GRAM one tile, since other
//   blocks of the multiprocessor have work while it is copied.
//
// Rows of a tile are `apart` values apart; with `chunked` they are copied by chunks of 16 bytes.
// With GRAM a row is followed by a one, by zeros up to 4 m values, and by its curvature, and is
// read by chunks however it was copied. `_tile` and `_narrow_shared` in dense.py compute `apart`
// and the number of bytes.

#define CHUNK (16 / (int)sizeof(REAL))

struct __align__(16) Chunk {
  REAL value[CHUNK];
};

struct __align__(16) Four {
  REAL value[4];
};

// Blocks of 256 threads for which the registers of a multiprocessor must be enough. The sums of a
// Gram alone take 48 registers per thread in float, 64 in double.
constexpr int RESIDENT = !GRAM ? 4 : sizeof(REAL) == 4 ? 3 : 2;

// Start to copy `count` rows into a tile.
__device__ inline void fetch(REAL* tile, const REAL* from, int count, int d, int apart,
                             bool chunked) {
  const int width = chunked ? CHUNK : 1, per_row = d / width;
  const int step_rows = blockDim.x / per_row, step_columns = blockDim.x % per_row;
  int r = threadIdx.x / per_row, c = threadIdx.x % per_row;
  for (int k = threadIdx.x; k < count * per_row; k += blockDim.x) {
    if (chunked)
      COPY_ASYNC(tile + r * apart + c * CHUNK, from + k * CHUNK, 16);
    else
      COPY_ASYNC(tile + r * apart + c, from + k, sizeof(REAL));
    r += step_rows;
    c += step_columns;
    if (c >= per_row) {
      c -= per_row;
      ++r;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256, RESIDENT)
dense_narrow(const REAL* X, long long rows, int d, int apart, int chunked, const double* w,
             int intercept, double p1, double p2, const VECTOR* y, const VECTOR* weight,
             const double* offset, double* z, VECTOR* curvature, double* partial, int diagonal, double* gram,
             const int* live) {
  if (live && !*live) return;
  const int threads = blockDim.x, me = threadIdx.x, m = (d + 4) / 4;
  const int numbers = GRAM ? 4 * m : d + 1;  // of w, the intercept and zeros
  DYNAMIC_SHARED(double, shared);
  double* coefficients = shared;
  double* slopes = coefficients + (numbers + 1) / 2 * 2;
  double* curvatures = slopes + threads;
  double* scratch = curvatures + threads;
  REAL* tile = reinterpret_cast<REAL*>(scratch + 32);
  for (int j = me; j < numbers; j += threads)
    coefficients[j] = j < d ? w[j] : (j == d && intercept ? w[d] : 0.0);

  // a thread adds up one column of the gradient over a share of the rows; d <= 63 < threads
  const int columns = threads / d, column = me % d, share = me / d;
  double gradient = 0.0, squares = 0.0, value = 0.0, slope_sum = 0.0, curvature_sum = 0.0;

  // a thread adds up 4 x 4 entries of the Gram, one of the m (m + 1) / 2 such blocks of the upper
  // triangle, over a share of the rows
  const int corners = m * (m + 1) / 2, shares = threads / corners;
  const int corner = me % corners, part = me / corners;
  int left = 0, right = 0;
  double entries[GRAM ? 16 : 1];
  if (GRAM) {
    int at = corner;
    while (at >= m - left) at -= m - left++;
    right = left + at;
    for (int k = 0; k < 16; ++k) entries[k] = 0.0;
    // the ones and zeros behind rows, where no copy writes
    for (int k = me; k < threads * apart; k += threads) tile[k] = (REAL)(k % apart == d);
  }

  const int64 stride = (int64)gridDim.x * threads;
  int64 first = (int64)blockIdx.x * threads;
  if (GRAM) __syncthreads();
  if (first < rows)
    fetch(tile, X + first * d, rows - first < threads ? rows - first : threads, d, apart, chunked);
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
    if (coming) fetch(other, X + next * d, coming, d, apart, chunked);
    COMMIT_COPIES();
    WAIT_FOR_COPIES_BUT(1);
#endif
    __syncthreads();
    Row row = {0.0, 0.0, 0.0};
    if (me < count) {
      double u = GRAM ? 0.0 : coefficients[d];
      if (GRAM || chunked) {
        const Chunk* x = reinterpret_cast<const Chunk*>(tile + me * apart);
        for (int k = 0; k < (GRAM ? 4 * m : d) / CHUNK; ++k) {
          const Chunk part = x[k];
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) u += coefficients[k * CHUNK + j] * widen(part.value[j]);
        }
      } else {
        for (int j = 0; j < d; ++j) u += coefficients[j] * widen(tile[me * apart + j]);
      }
      row = finish_row<VECTOR>(p1, p2, y, weight, offset, z, nullptr, curvature, first + me, u);
      if (GRAM) tile[me * apart + 4 * m] = (REAL)row.curvature;
    }
    slopes[me] = row.slope;
    curvatures[me] = row.curvature;
    value += row.value;
    slope_sum += row.slope;
    curvature_sum += row.curvature;
    __syncthreads();
    // A loop whose trips are counted beforehand can be unrolled with all loads before the sums.
    const int trips = share < columns ? (count - share + columns - 1) / columns : 0;
    const REAL* down = tile + share * apart + column;
    if (diagonal) {
#pragma unroll 4
      for (int k = 0; k < trips; ++k) {
        const double x = widen(down[k * columns * apart]);
        gradient += slopes[share + k * columns] * x;
        squares += curvatures[share + k * columns] * (x * x);
      }
    } else {
#pragma unroll 8
      for (int k = 0; k < trips; ++k)
        gradient += slopes[share + k * columns] * widen(down[k * columns * apart]);
    }
    if (GRAM && part < shares) {
      REAL sums[16];
      for (int k = 0; k < 16; ++k) sums[k] = (REAL)0;
      const int turns = (count - part + shares - 1) / shares;
      const REAL* x = tile + part * apart;
#pragma unroll 2
      for (int t = 0; t < turns; ++t, x += shares * apart) {
        const Four a = reinterpret_cast<const Four*>(x)[left];
        const Four b = reinterpret_cast<const Four*>(x)[right];
        const REAL c = x[4 * m];
        const REAL scaled[4] = {c * a.value[0], c * a.value[1], c * a.value[2], c * a.value[3]};
#pragma unroll
        for (int k = 0; k < 16; ++k) sums[k] += scaled[k / 4] * b.value[k % 4];
      }
      for (int k = 0; k < 16; ++k) entries[k] += widen(sums[k]);
    }
    __syncthreads();
#if GRAM
    if (coming) fetch(tile, X + next * d, coming, d, apart, chunked);
    COMMIT_COPIES();
#endif
  }

  // Threads that share a column, or a block of the Gram, add up in a fixed order.
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
