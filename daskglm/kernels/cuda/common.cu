// The losses, and sums over the threads of a block. The host puts this text before every other
// source, and families.cu behind it.
//
// Compile-time types: REAL is the dtype of X, VECTOR that of targets, weights and curvatures, and
// SCALED that of the rows sqrt(D) X from which a Hessian is formed. Everything else is double.
//
// MODE, what is done with the margins of rows, is known at compile time too, so that a kernel has
// the registers and the code of one loss only: see `finish_row`.

#ifndef SCALED
#define SCALED REAL
#endif

typedef long long int64;

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(T, name)                       \
  extern __shared__ double dynamic_shared_memory[]; \
  T* name = reinterpret_cast<T*>(dynamic_shared_memory)
#endif

// Asynchronous copies from global to shared memory. They bypass the registers (sm_80 and later).
// Copies are committed in groups, and a thread can wait until only the `latest` groups are still
// under way.
#ifdef __CUDA_ON_CPU__
#define COPY_ASYNC(to, from, bytes) twin::copy_async(to, from, bytes)
#define COMMIT_COPIES() twin::commit()
#define WAIT_FOR_COPIES_BUT(latest) twin::wait_but(latest)
#else
#define COPY_ASYNC(to, from, bytes)                                                          \
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(                            \
                   (unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(bytes) : "memory")
#define COMMIT_COPIES() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR_COPIES_BUT(latest) \
  asm volatile("cp.async.wait_group %0;" ::"n"(latest) : "memory")
#endif

// Convert float to double by a single instruction. CuPy compiles with -ftz=true, under which a cast
// first multiplies by one and so flushes float subnormals to zero. With this instruction subnormals
// in X, targets and weights keep their value, as on a CPU. Only arithmetic in float (the Hessian of
// float rows) flushes them.
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

// The product of a value of X and a square root of a curvature, in the type SCALED.
__device__ inline float scaled(float root, float x) { return root * x; }
__device__ inline double scaled(double root, float x) { return root * widen(x); }
__device__ inline double scaled(double root, double x) { return root * x; }

// What is done with the margin u of a row (or with its product with a direction):
//
// - the code of a loss (>= 0): store u, and the slope and curvature of the loss there;
// - PRODUCT: multiply u by the row's curvature;
// - FORWARD: only store u.
#define PRODUCT (-1)
#define FORWARD (-2)

#ifndef MODE
#define MODE FORWARD
#endif

// Codes of the losses, as in losses/base.py. Those from FIRST_FAMILY on are in families.cu.
#define LOGISTIC 0
#define SQUARED_HINGE 1
#define SQUARED 2
#define HINGE 3
#define SMOOTHED_HINGE 4
#define HUBER 10
#define QUANTILE 11
#define EPSILON_INSENSITIVE 12
#define SQUARED_EPSILON_INSENSITIVE 13

// Replaces zero in logarithms and divisions.
#define TINY 1e-300
// Share of delta / |z - y| that the linear parts of the Huber loss have as curvature.
#define HUBER_SHARE 0.1
#define FIRST_FAMILY 20

#define EVERY_LANE 0xffffffffu

struct LossTerms {
  double value, slope, curvature;
};

__device__ inline double larger(double a, double b) { return a > b ? a : b; }
__device__ inline double smaller(double a, double b) { return a < b ? a : b; }

// The loss of one row of weight s at the margin z, with its first two derivatives in z. p1 and p2
// are the parameters of the loss. The terms 0 * m and 0 * z pass a NaN margin on to the value,
// because comparisons with NaN are false and would hide it.
__device__ inline LossTerms loss_at(int code, double p1, double p2, double y, double z, double s) {
  LossTerms terms;
  double m = y * z;
  if (code == LOGISTIC) {
    // exp of a negative number cannot overflow
    double e = exp(-fabs(m)), other = 1.0 / (1.0 + e);
    double p = m > 0.0 ? e * other : other;
    terms.slope = -s * y * p;
    terms.curvature = s * e * other * other;
    terms.value = s * (larger(-m, 0.0) + log1p(e) + 0.0 * m);
  } else if (code == SQUARED_HINGE) {
    double violation = larger(1.0 - m, 0.0);
    terms.slope = -2.0 * s * y * violation;
    terms.curvature = violation > 0.0 ? 2.0 * s : 0.0;
    terms.value = s * (violation * violation + 0.0 * m);
  } else if (code == HINGE) {
    double violation = larger(1.0 - m, 0.0);
    terms.slope = violation > 0.0 ? -s * y : 0.0;
    terms.curvature = 0.0;
    terms.value = s * (violation + 0.0 * m);
  } else if (code == SQUARED) {
    double r = z - y;
    terms.slope = s * r;
    terms.curvature = s;
    terms.value = 0.5 * s * r * r;
  } else if (code == HUBER) {
    double r = z - y, slope = smaller(larger(r, -p1), p1);
    terms.slope = s * slope;
    terms.curvature = fabs(r) <= p1 ? s : HUBER_SHARE * s * p1 / fabs(r);
    terms.value = s * (slope * (r - 0.5 * slope) + 0.0 * z);
  } else if (code == QUANTILE) {
    double r = y - z, a = smaller(larger(r / larger(p2, TINY), p1 - 1.0), p1);
    bool inner = p2 > 0.0 && (p1 - 1.0) * p2 <= r && r <= p1 * p2;
    terms.slope = -s * a;
    terms.curvature = inner ? s / p2 : 0.0;
    terms.value = s * (a * (r - 0.5 * p2 * a) + 0.0 * z);
  } else if (code == EPSILON_INSENSITIVE) {
    double r = y - z, beyond = larger(fabs(r) - p1, 0.0);
    double size = smaller(beyond / larger(p2, TINY), 1.0);
    bool inner = p2 > 0.0 && p1 <= fabs(r) && fabs(r) <= p1 + p2;
    terms.slope = r > 0.0 ? -s * size : s * size;
    terms.curvature = inner ? s / p2 : 0.0;
    terms.value = s * (size * (beyond - 0.5 * p2 * size) + 0.0 * z);
  } else if (code == SQUARED_EPSILON_INSENSITIVE) {
    double r = z - y, beyond = larger(fabs(r) - p1, 0.0);
    terms.slope = r > 0.0 ? 2.0 * s * beyond : -2.0 * s * beyond;
    terms.curvature = fabs(r) >= p1 ? 2.0 * s : 0.0;
    terms.value = s * (beyond * beyond + 0.0 * z);
  } else {  // SMOOTHED_HINGE, or a code that no loss has, for which the terms are NaN
    double width = code == SMOOTHED_HINGE ? p1 : nan("");
    double label = y > 0.0 ? 1.0 : -1.0;
    double violation = larger(fabs(y) - label * z, 0.0);
    bool inner = violation <= width;
    terms.slope = -s * label * smaller(violation / width, 1.0);
    terms.curvature = inner && violation > 0.0 ? s / width : 0.0;
    double value = inner ? 0.5 * violation * violation / width : violation - 0.5 * width;
    terms.value = s * (value + 0.0 * z);
  }
  return terms;
}

// The same for the exponential families, without a weight; in families.cu.
template <int CODE>
__device__ inline LossTerms family_at(double p1, double p2, double y, double z);

// The loss of MODE.
__device__ inline LossTerms mode_at(double p1, double p2, double y, double z, double s) {
#if MODE >= FIRST_FAMILY
  LossTerms terms = family_at<MODE>(p1, p2, y, z);
  terms.value *= s;
  terms.slope *= s;
  terms.curvature *= s;
  return terms;
#else
  return loss_at(MODE, p1, p2, y, z, s);
#endif
}

// Finish row i, whose margin (or product with a direction) is u, as MODE says:
//
// - a loss: store u in z, and slope and curvature (unless null) of the loss at u + offset[i], or at
//   u if `offset` is null;
// - PRODUCT: store slope = curvature[i] * u; the value returned is u * slope, a term of v'Hv;
// - FORWARD: only store u in z.
struct Row {
  double slope, curvature, value;
};

template <class Number>
__device__ inline Row finish_row(double p1, double p2, const Number* y, const Number* weight,
                                 const double* offset, double* z, double* slope, Number* curvature,
                                 int64 i, double u) {
  Row row = {0.0, 0.0, 0.0};
#if MODE == PRODUCT
  row.curvature = widen(curvature[i]);
  row.slope = row.curvature * u;
  row.value = row.slope * u;
#else
  z[i] = u;
#endif
#if MODE >= 0
  if (offset) u += offset[i];
  LossTerms terms = mode_at(p1, p2, widen(y[i]), u, weight ? widen(weight[i]) : 1.0);
  if (curvature) curvature[i] = (Number)terms.curvature;
  row.slope = terms.slope;
  row.curvature = terms.curvature;
  row.value = terms.value;
#endif
#if MODE != FORWARD
  if (slope) slope[i] = row.slope;
#endif
  return row;
}

// The number of this thread in the grid, and the number of threads in the grid.
__device__ inline int64 grid_thread() { return (int64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline int64 grid_threads() { return (int64)gridDim.x * blockDim.x; }

// Sum over groups of `width` neighbouring lanes; only the first lane of a group gets the sum.
__device__ inline double lane_sum(double x, int width) {
  for (int step = width / 2; step > 0; step /= 2) x += __shfl_down_sync(EVERY_LANE, x, step, width);
  return x;
}

// Sum over the threads of a block, whose number is a multiple of 32; only thread 0 gets the sum.
// `scratch` has 32 elements of shared memory.
__device__ inline double block_sum(double x, double* scratch) {
  x = lane_sum(x, 32);
  __syncthreads();  // an earlier sum may still be reading `scratch`
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0.0;
    x = lane_sum(x, 32);
  }
  return x;
}

// The same for the largest of numbers that are not negative.
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

// Sum up to four numbers over the whole grid. Returns true only in thread 0 of the block that
// finishes last, which then has the totals in `sum`. `partial` has four elements per block.
// `ticket` counts the finished blocks; it must be zero, and atomicInc wraps it back to zero.
__device__ inline bool grid_sums(double* sum, int count, double* partial, unsigned* ticket) {
  __shared__ double scratch[32];
  __shared__ int last;
  for (int k = 0; k < count; ++k) {
    double total = block_sum(sum[k], scratch);
    if (threadIdx.x == 0) partial[blockIdx.x * 4 + k] = total;
  }
  if (threadIdx.x == 0) {
    __threadfence();  // the sums must be visible before the ticket is
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();
  for (int k = 0; k < count; ++k) {
    double total = 0.0;
    for (int b = threadIdx.x; b < (int)gridDim.x; b += blockDim.x)
      total += ((volatile double*)partial)[b * 4 + k];
    sum[k] = block_sum(total, scratch);
  }
  return threadIdx.x == 0;
}
