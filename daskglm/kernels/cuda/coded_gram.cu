// The Gram [X 1]' D [X 1] of rows of codes beside numbers. What a row has in two code columns are a
// level each, so that X' D X is T_a' C T_b for them, where C has the sums of the curvatures of the
// rows with each pair of levels, and T the coefficients of levels. Sums are float64 and made by
// atomics: results depend on timing.

// Rows that a thread has at a time: a task is read once for them, and their codes arrive together.
#define EACH 6
// Threads of a block that adds up rows: with its registers, two such blocks on a multiprocessor.
#define ADDING 512

// A table of sums: of curvature * x_i * x_j by the level of code column a, times `side`, plus that
// of b. A column of -1 is none; number k is one. The sums of `size` places are in shared memory from
// `offset` on, in so many copies that neighbouring threads seldom meet. Without a copy they are only
// where all arrive in the end: in `sums`, from `bases` of the task on.
struct Task {
  int i, j, a, b, side, size, copies, offset;
};

template <class Code>
__device__ inline void read_codes(const Code* codes, int columns, int64 base, int64 rows,
                                  unsigned (&out)[EACH]) {
#pragma unroll
  for (int r = 0; r < EACH; ++r) {
    const int64 i = base + r * (int64)blockDim.x;
    out[r] = i < rows ? codes[i * columns] : 0;
  }
}

// The codes in column j of the rows base, base + blockDim.x, ...; zeros without one.
__device__ inline void read_codes(const CodedRows& X, int j, int64 base, int64 rows,
                                  unsigned (&out)[EACH]) {
  if (j < 0) {
#pragma unroll
    for (int r = 0; r < EACH; ++r) out[r] = 0;
  } else if (j < X.p) {
    read_codes(X.narrow + j, X.p, base, rows, out);
  } else if (j < X.q) {
    read_codes(X.middle + (j - X.p), X.q - X.p, base, rows, out);
  } else {
    read_codes(X.wide + (j - X.q), X.r - X.q, base, rows, out);
  }
}

// curvature * x_i * x_j of the same rows; zero of those that are not there.
__device__ inline void read_products(const CodedRows& X, const VECTOR* curvature, int i, int j,
                                     int64 base, int64 rows, double (&out)[EACH]) {
#pragma unroll
  for (int r = 0; r < EACH; ++r) {
    const int64 row = base + r * (int64)blockDim.x;
    double value = row < rows ? widen(curvature[row]) : 0.0;
    if (row < rows && i < X.k) value *= widen(X.floats[row * X.k + i]);
    if (row < rows && j < X.k) value *= widen(X.floats[row * X.k + j]);
    out[r] = value;
  }
}

// Add to the sums of all tasks. They are in groups, of which each is as many as a block has shared
// memory for: `ends` has the number of tasks up to the end of each. Groups get blocks by their
// tasks; at least one each, since the grid has as many blocks as there are tasks, or more.
extern "C" __global__ void __launch_bounds__(ADDING, 2)
coded_pairs(const unsigned char* narrow, const unsigned short* middle, const unsigned* wide,
            const REAL* floats, const long long* first, int p, int q, int r, int k,
            long long rows, const VECTOR* curvature, const int* listed, const long long* bases,
            const int* ends, int groups, double* sums) {
  DYNAMIC_SHARED(double, shared);
  const CodedRows X = {narrow, middle, wide, floats, first, p, q, r, k};
  const int64 blocks = gridDim.x, all = ends[groups - 1];
  int group = 0, before = 0;
  // the first block of a group is blocks * before / all, rounded up
  while (blocks * ends[group] <= blockIdx.x * all) before = ends[group++];
  const int64 begin = (blocks * before + all - 1) / all;
  const int64 stop = (blocks * ends[group] + all - 1) / all;
  const Task* const tasks = reinterpret_cast<const Task*>(listed) + before;
  const int count = ends[group] - before;
  bases += before;

  for (int t = 0; t < count; ++t)
    for (int e = threadIdx.x; e < tasks[t].size * tasks[t].copies; e += blockDim.x)
      shared[tasks[t].offset + e] = 0.0;
  __syncthreads();

  const int64 step = (int64)blockDim.x * EACH;
  for (int64 base = (blockIdx.x - begin) * step + threadIdx.x; base < rows;
       base += (stop - begin) * step) {
    double value[EACH];
    unsigned level[EACH], other[EACH];
    int i = -1, j = -1, a = -2;
    for (int t = 0; t < count; ++t) {
      const Task task = tasks[t];
      if (task.i != i || task.j != j) {
        i = task.i;
        j = task.j;
        read_products(X, curvature, i, j, base, rows, value);
      }
      if (task.a != a) {
        a = task.a;
        read_codes(X, a, base, rows, level);
      }
      read_codes(X, task.b, base, rows, other);
      double* const own = shared + task.offset + (threadIdx.x & (task.copies - 1));
      // rows of the same levels, one after another, are one addition
      unsigned place = 0;
      double sum = 0.0;
#pragma unroll
      for (int e = 0; e <= EACH; ++e) {
        const unsigned next = e < EACH ? level[e % EACH] * task.side + other[e % EACH] : 0;
        if (e == EACH || next != place) {
          if (sum != 0.0) {
            if (task.copies)
              atomicAdd(own + place * task.copies, sum);
            else
              atomicAdd(sums + bases[t] + place, sum);
          }
          place = next;
          sum = 0.0;
        }
        if (e < EACH) sum += value[e];
      }
    }
  }
  __syncthreads();
  for (int t = 0; t < count; ++t) {
    const Task task = tasks[t];
    for (int e = threadIdx.x; e < task.size; e += blockDim.x) {
      double sum = 0.0;
      for (int copy = 0; copy < task.copies; ++copy)
        sum += shared[task.offset + e * task.copies + copy];
      if (sum != 0.0) atomicAdd(sums + bases[t] + e, sum);
    }
  }
}

// The coefficients by columns: column j has the entries segments[firsts[j]] to
// segments[firsts[j + 1]] of `data` and `rows`, which are levels.
struct LevelColumns {
  const double* data;
  const INDEX* rows;
  const long long* segments;
  const INDEX* firsts;
};

// Call entry(level, coefficient) for those of column j that lane `me` of `lanes` has.
template <class Entry>
__device__ inline void each_level(const LevelColumns& T, int64 j, int me, int lanes, Entry entry) {
  const int64 stop = T.segments[T.firsts[j + 1]];
  for (int64 e = T.segments[T.firsts[j]] + me; e < stop; e += lanes) entry(T.rows[e], T.data[e]);
}

// C T: row `level` of `out` (levels, width) gets what its sums with the levels of its own factor and
// of later ones are in coefficients. Factors are in the order of their coefficients, and have
// `counts` levels each; the sum by a level l of f and a level m of a later g is in `pairs`, at
// offsets[f, g] + l * counts[g] + m. `alone` has the sums by level.
extern "C" __global__ void __launch_bounds__(256)
coded_right(long long levels, int factors, int lanes, const int* of_level, const int* of_column,
            const long long* counts, const long long* offsets, const INDEX* indptr,
            const INDEX* columns, const double* values, int width, const double* data,
            const INDEX* rows, const long long* segments, const INDEX* firsts, const double* pairs,
            const double* alone, double* out) {
  const LevelColumns T = {data, rows, segments, firsts};
  const int in_warp = 32 / lanes, lane = threadIdx.x % lanes;
  const int64 all = grid_threads() / 32 * in_warp;
  for (int64 base = grid_thread() / 32 * in_warp; base < levels * width; base += all) {
    const int64 item = base + threadIdx.x % 32 / lanes, level = item / width, j = item % width;
    const bool inside = item < levels * width;
    const int f = inside ? of_level[level] : 0, g = inside ? of_column[j] : -1;
    double sum = 0.0;
    if (f < g) {
      const double* const of = pairs + offsets[(int64)f * factors + g] + level * counts[g];
      each_level(T, j, lane, lanes, [&sum, of](int64 m, double x) { sum += of[m] * x; });
    } else if (f == g) {
      for (INDEX e = indptr[level] + lane; e < indptr[level + 1]; e += lanes)
        if (columns[e] == j) sum += alone[level] * values[e];
    }
    sum = lane_sum(sum, lanes);
    if (f <= g && lane == 0) out[item] = sum;
  }
}

// Add T' C T to the upper triangle of `gram`, which has rows of `side`: `right` is C T, `beside` has
// the sums of numbers (k + 1, levels), the last of them a one, and `own` those of their products.
extern "C" __global__ void __launch_bounds__(256)
coded_left(long long levels, int k, int side, int lanes, int width, const double* data,
           const INDEX* rows, const long long* segments, const INDEX* firsts, const double* right,
           const double* beside, const double* own, double* gram) {
  const LevelColumns T = {data, rows, segments, firsts};
  const int in_warp = 32 / lanes, lane = threadIdx.x % lanes;
  const int64 all = grid_threads() / 32 * in_warp, across = width + k + 1;
  for (int64 base = grid_thread() / 32 * in_warp; base < across * across; base += all) {
    const int64 item = base + threadIdx.x % 32 / lanes, i = item / across, j = item % across;
    const bool inside = item < across * across && i <= j;
    double sum = 0.0;
    if (inside && i < width) {
      const double* const of = j < width ? right + j : beside + (j - width) * levels;
      const int64 apart = j < width ? width : 1;
      each_level(T, i, lane, lanes,
                 [&sum, of, apart](int64 level, double x) { sum += of[level * apart] * x; });
    } else if (inside && lane == 0) {
      sum = own[(i - width) * (k + 1) + j - width];
    }
    sum = lane_sum(sum, lanes);
    if (inside && lane == 0) gram[i * side + j] += sum;
  }
}
