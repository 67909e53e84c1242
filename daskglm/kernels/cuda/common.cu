// What all sources share: the losses as `losses/` has them, and sums over the threads of a block.
// REAL is the dtype of the rows, VECTOR that of targets, weights and curvatures, SCALED that of rows scaled for a Gram;
// all else is double.

#ifndef SCALED
#define SCALED REAL
#endif

typedef long long int64;

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(T, name)                       \
  extern __shared__ double dynamic_shared_memory[]; \
  T* name = reinterpret_cast<T*>(dynamic_shared_memory)
#endif

// Copies from global to shared memory that pass by the registers (sm_80 on), in groups that can be waited for.
#ifdef __CUDA_ON_CPU__
#define COPY_ASYNC(to, from, bytes) twin::copy_async(to, from, bytes)
#define COMMIT_COPIES() twin::commit()
#define WAIT_FOR_COPIES_BUT(latest) twin::wait_but(latest)
#else
#define COPY_ASYNC(to, from, bytes)                                                          \
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(                            \
                   (unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(bytes) : "memory")
#define COMMIT_COPIES() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR_COPIES_BUT(latest) asm volatile("cp.async.wait_group %0;" ::"n"(latest) : "memory")
#endif

// Float to double by one instruction. A cast takes two, since CuPy compiles everything with -ftz=true: a multiplication
// makes 0 of float subnormals first. So subnormals in X, targets and weights count as what they are, here as on a CPU;
// only what is computed in float, a Gram of float rows, has 0 for them.
#ifdef __CUDA_ON_CPU__
__device__ inline double widen(float x) { return x; }
#else
__device__ inline double widen(float x) {
  double y;
  asm("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x));
  return y;
}
#endif
__device__ inline double widen(double x) { return x; }

// A value of X times a number of type SCALED.
__device__ inline float scaled(float root, float x) { return root * x; }
__device__ inline double scaled(double root, float x) { return root * widen(x); }
__device__ inline double scaled(double root, double x) { return root * x; }

#define LOGISTIC 0
#define SQUARED_HINGE 1
#define SQUARED 2
#define HINGE 3
#define SMOOTHED_HINGE 4

#define EVERY_LANE 0xffffffffu

struct Jet {
  double value, slope, curvature;
};

__device__ inline double larger(double a, double b) { return a > b ? a : b; }
__device__ inline double smaller(double a, double b) { return a < b ? a : b; }

// Loss of one row with weight s at margin z, with the parameters p1 and p2. The terms 0 * m let NaN through.
__device__ inline Jet loss_at(int code, double p1, double p2, double y, double z, double s) {
  Jet jet;
  double m = y * z;
  if (code == LOGISTIC) {
    double e = exp(-fabs(m)), other = 1.0 / (1.0 + e);
    double p = m > 0.0 ? e * other : other;
    jet.slope = -s * y * p;
    jet.curvature = s * e * other * other;
    jet.value = s * (larger(-m, 0.0) + log1p(e) + 0.0 * m);
  } else if (code == SQUARED_HINGE) {
    double lack = larger(1.0 - m, 0.0);
    jet.slope = -2.0 * s * y * lack;
    jet.curvature = lack > 0.0 ? 2.0 * s : 0.0;
    jet.value = s * (lack * lack + 0.0 * m);
  } else if (code == HINGE) {
    double lack = larger(1.0 - m, 0.0);
    jet.slope = lack > 0.0 ? -s * y : 0.0;
    jet.curvature = 0.0;
    jet.value = s * (lack + 0.0 * m);
  } else if (code == SQUARED) {
    double r = z - y;
    jet.slope = s * r;
    jet.curvature = s;
    jet.value = 0.5 * s * r * r;
  } else {  // SMOOTHED_HINGE; the value is NaN for a code that no loss has
    double width = code == SMOOTHED_HINGE ? p1 : nan(""), label = y > 0.0 ? 1.0 : -1.0;
    double lack = larger(fabs(y) - label * z, 0.0);
    bool inner = lack <= width;
    jet.slope = -s * label * smaller(lack / width, 1.0);
    jet.curvature = inner && lack > 0.0 ? s / width : 0.0;
    jet.value = s * ((inner ? 0.5 * lack * lack / width : lack - 0.5 * width) + 0.0 * z);
  }
  return jet;
}

// What a kernel that has the margin u of row i makes of it. mode: a loss code (>= 0): margin, slope and curvature are
// stored (null: not wanted); PRODUCT: slope = curvature * margin is, and the value is v'Hv; FORWARD: the margin is.
#define PRODUCT -1
#define FORWARD -2

struct Row {
  double slope, curvature, value;
};

template <class Number>
__device__ inline Row visit(int mode, double p1, double p2, const Number* y, const Number* weight, double* z,
                            double* slope, Number* curvature, int64 i, double u) {
  Row row = {0.0, 0.0, 0.0};
  if (mode == PRODUCT) {
    row.curvature = widen(curvature[i]);
    row.slope = row.curvature * u;
    row.value = row.slope * u;
  } else {
    z[i] = u;
    if (mode == FORWARD) return row;
    Jet jet = loss_at(mode, p1, p2, widen(y[i]), u, weight ? widen(weight[i]) : 1.0);
    if (curvature) curvature[i] = (Number)jet.curvature;
    row.slope = jet.slope;
    row.curvature = jet.curvature;
    row.value = jet.value;
  }
  if (slope) slope[i] = row.slope;
  return row;
}

// Sum over groups of `width` neighbouring lanes; the first lane of a group has it.
__device__ inline double lane_sum(double x, int width) {
  for (int step = width / 2; step > 0; step /= 2) x += __shfl_down_sync(EVERY_LANE, x, step, width);
  return x;
}

// Sum over the threads of a block, a whole number of warps; thread 0 has it. `scratch` holds 32 numbers.
__device__ inline double block_sum(double x, double* scratch) {
  x = lane_sum(x, 32);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) x = lane_sum(threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0.0, 32);
  return x;
}

__device__ inline double block_largest(double x, double* scratch) {
  for (int step = 16; step > 0; step /= 2) x = larger(x, __shfl_down_sync(EVERY_LANE, x, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0.0;
    for (int step = 16; step > 0; step /= 2) x = larger(x, __shfl_down_sync(EVERY_LANE, x, step));
  }
  return x;
}

// Adds up to four sums over the grid; true for thread 0 of the block that is last, which then has the totals in `sum`.
// `ticket` is zero before and after; a row of partial holds four numbers.
__device__ inline bool grid_sums(double* sum, int count, double* partial, unsigned* ticket) {
  __shared__ double scratch[32];
  __shared__ int last;
  for (int k = 0; k < count; ++k) {
    double total = block_sum(sum[k], scratch);
    if (threadIdx.x == 0) partial[blockIdx.x * 4 + k] = total;
  }
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();
  for (int k = 0; k < count; ++k) {
    double total = 0.0;
    for (int b = threadIdx.x; b < (int)gridDim.x; b += blockDim.x) total += ((volatile double*)partial)[b * 4 + k];
    sum[k] = block_sum(total, scratch);
  }
  return threadIdx.x == 0;
}
